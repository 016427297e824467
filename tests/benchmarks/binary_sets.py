"""Data sets of two classes, binned without labels: codes over public domains.

Numbers of many values are cut at their deciles; sets of several classes become two by a stated
rule. Sets with a published discretisation keep it (`rival_data`).
"""

import csv
from functools import cache

import numpy as np
from rival_data import FOLDER, NAMES, RivalData, coded_attribute, load

from mrf_matrix import Attribute, Domain

BINS = 10
FEW_VALUES = 12
"""Numeric columns of at most so many values keep them as codes."""

POSITIVE = {
    "wilt": lambda label: label == "w",
    "phishing_websites": lambda label: label == "1",
    "banknote": lambda label: label == "1",
    "connect4": lambda label: label == "win",
    "letter": lambda label: label <= "M",
    "pendigits": lambda label: int(float(label)) % 2 == 1,
    "winequality_white": lambda label: float(label) >= 6,
    "messidor": lambda label: label == "1",
}
"""Which labels are class 1."""

LARGE = (
    "adult",
    "mushroom",
    "chess_krvskp",
    "phishing_websites",
    "wilt",
    "connect4",
    "letter",
    "pendigits",
    "winequality_white",
    "a9a",
)
SMALL = ("tic_tac_toe", "banknote", "messidor", "heart")


@cache
def binary(name: str) -> RivalData:
    """Return one data set of two classes."""
    if name in NAMES:
        found = load(name)
        columns = zip(found.codes.T, found.domain.sizes, found.ordered, strict=True)
        return coded_set(
            name, [(codes, size, bool(one)) for codes, size, one in columns], found.labels
        )
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    labels = np.array([int(POSITIVE[name](row[-1])) for row in rows], dtype=np.int32)
    columns = [coded([row[j] for row in rows]) for j in range(len(header) - 1)]
    return coded_set(name, columns, labels)


def coded_set(
    name: str, columns: list[tuple[np.ndarray, int, bool]], labels, n_classes: int = 2
) -> RivalData:
    """Return a data set of codes, whose domain knows which of them are ordered."""
    attributes = [
        coded_attribute(f"a{j}", size, ordered=is_ordered)
        for j, (_, size, is_ordered) in enumerate(columns)
    ]
    domain = Domain(attributes, target=Attribute("class", categories=list(range(n_classes))))
    codes = np.column_stack([codes for codes, _, _ in columns]).astype(np.int32)
    return RivalData(name, codes, labels, domain, np.array([one for _, _, one in columns]))


def coded(
    values: list[str], bins: int = BINS, *, even: bool = True
) -> tuple[np.ndarray, int, bool]:
    """Return codes, their number, and whether they are ordered.

    `even`: whether bins have equal shares of the numbers, or equal widths.
    """
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        names, codes = np.unique(values, return_inverse=True)
        return codes, len(names), False
    distinct, codes = np.unique(numbers, return_inverse=True)
    if len(distinct) <= FEW_VALUES:
        return codes, len(distinct), True
    inner, ends = np.arange(1, bins) / bins, (numbers.min(), numbers.max())
    edges = np.unique(np.quantile(numbers if even else ends, inner))
    return np.searchsorted(edges, numbers, side="right"), len(edges) + 1, True
