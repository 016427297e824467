"""Fourteen data sets that no constant of the posterior forest was set on, as integer codes.

One rule for all: a column of numbers with more than six values is cut into four bins of equal
width over its range, ordered (unknown values go to the first); any other column of 2 to 30 values
is categories, "?" among them; columns of more values are names of records and left out. Ranges and
categories are taken from the file: this is a comparison, and no private release.
"""

import csv
from functools import cache

import numpy as np
from rival_data import FOLDER, RivalData

from mrf_matrix import Attribute, Domain

NAMES = {
    "banknote": "Banknote",
    "cmc": "CMC",
    "hayes_roth": "Hayes-Roth",
    "hepatitis": "Hepatitis",
    "mammographic": "Mammographic",
    "monks3": "MONK's 3",
    "phishing_websites": "Phishing websites",
    "transfusion": "Transfusion",
    "vehicle": "Vehicle",
    "wdbc": "WDBC",
    "website_phishing": "Website phishing",
    "wine": "Wine",
    "yeast": "Yeast",
    "zoo": "Zoo",
}
BINS = 4
MOST_CODES = 30
FEWEST_NUMBERS = 7
"""Numbers of fewer values are categories."""


@cache
def load_held_out(name: str) -> RivalData:
    """Return one data set, read once a process."""
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        columns = np.array(list(csv.reader(file))[1:]).T
    coded = [binned(column) for column in columns[:-1]]
    kept = [(codes, size, order) for codes, size, order in coded if 2 <= size <= MOST_CODES]
    labels, n_classes, _ = categories(columns[-1])
    domain = Domain(
        [Attribute(f"x{i}", size=size) for i, (_, size, _) in enumerate(kept)],
        target=Attribute("class", size=n_classes),
    )
    codes = np.column_stack([codes for codes, _, _ in kept]).astype(np.int32)
    ordered = np.array([order or size == 2 for _, size, order in kept])
    return RivalData(name, codes, labels.astype(np.int32), domain, ordered)


def binned(column: np.ndarray) -> tuple[np.ndarray, int, bool]:
    """Return a column's codes, their number, and whether they have an order."""
    known = column != "?"
    try:
        numbers = column[known].astype(float)
    except ValueError:
        return categories(column)
    if len(np.unique(numbers)) < FEWEST_NUMBERS:
        return categories(column)
    codes = np.zeros(len(column), dtype=np.int64)
    edges = np.linspace(numbers.min(), numbers.max(), BINS + 1)[1:-1]
    codes[known] = np.digitize(numbers, edges)
    return codes, BINS, True


def categories(column: np.ndarray) -> tuple[np.ndarray, int, bool]:
    """Return the codes of names, in their alphabetical order, which means nothing."""
    names, codes = np.unique(column, return_inverse=True)
    return codes, len(names), False
