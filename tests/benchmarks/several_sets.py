"""Tasks of more than two classes, binned without labels, for tables that want records.

Labels of `binary_sets` are undone: games won, drawn or lost, three grades of wine, digits, letters
by thirds of the alphabet. Of Adult an attribute is told from the others and the income: there are
few public sets of several classes and tens of thousands of records.
"""

import csv
from functools import cache

import numpy as np
from binary_sets import binary
from rival_data import FOLDER, RivalData, load
from rival_held_out import load_held_out

from mrf_matrix import Attribute, Domain

GROUPED = {
    "connect4_outcomes": ("connect4", ("win", "draw", "loss").index),
    "wine_grades": ("winequality_white", lambda label: min(max(int(float(label)) - 5, 0), 2)),
    "digits": ("pendigits", lambda label: int(float(label))),
    "letter_thirds": ("letter", lambda label: (ord(label) - ord("A")) * 3 // 26),
}
"""The file, and a label's class."""
ATTRIBUTES = {"adult_occupation": 4, "adult_relationship": 5, "adult_workclass": 1}
NAMES = (*GROUPED, *ATTRIBUTES, "nursery", "segment", "cmc")


@cache
def several(name: str) -> RivalData:
    """Return one task of several classes."""
    if name in GROUPED:
        return _grouped(name)
    if name in ATTRIBUTES:
        return _told(name, load("adult"), ATTRIBUTES[name])
    if name == "nursery":
        found = load(name)
        return _set(name, found.codes, found.labels, found.domain.sizes)
    return load_held_out(name)


def _grouped(name: str) -> RivalData:
    file, class_of = GROUPED[name]
    with (FOLDER / f"{file}.csv").open(newline="") as lines:
        _, *rows = csv.reader(lines)
    labels = np.array([class_of(row[-1]) for row in rows], dtype=np.int32)
    found = binary(file)
    target = Attribute("class", size=int(labels.max()) + 1)
    return found._replace(
        name=name, labels=labels, domain=Domain(found.domain.attributes, target=target)
    )


def _told(name: str, data: RivalData, told: int) -> RivalData:
    """Return the task of telling one attribute from the others and the label."""
    others = [i for i in range(data.codes.shape[1]) if i != told]
    codes = np.column_stack([data.codes[:, others], data.labels])
    sizes = [*(data.domain.sizes[i] for i in others), data.domain.n_classes]
    _, labels = np.unique(data.codes[:, told], return_inverse=True)
    return _set(name, codes, labels.astype(np.int32), sizes)


def _set(name: str, codes: np.ndarray, labels: np.ndarray, sizes) -> RivalData:
    target = Attribute("class", size=int(labels.max()) + 1)
    domain = Domain([Attribute(f"x{i}", size=n) for i, n in enumerate(sizes)], target=target)
    return RivalData(name, codes, labels, domain, np.ones(len(sizes), dtype=bool))
