"""Records of each class above several cuts at once: all that trees of cuts need of the data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Longs
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.forests.label_tree import Cut
from strategies.operators import check_allocation

CHUNK = 1 << 20  # sides that are held at once, 8 MB, and parts of them three times

SINGLE = 2**24  # single precision holds whole numbers up to it


Reals = NDArray[np.floating]


@dataclass(frozen=True, eq=False, repr=False)
class JointCounts(PrivateValue):
    """Counts of a node's records, by class: of all of them, and of those above several cuts.

    Attributes
    ----------
    total : ndarray of int64, shape (..., k)
    above : ndarray of int64, shape (..., s, ..., s, k)
        Of those above `order` cuts, which may be the same; of order 0 this is `total`.
    order : int
        0, a cell, to 4.
    """

    total: Longs
    above: Longs
    order: int

    def split(self) -> tuple["JointCounts", "JointCounts"]:
        """Return the counts below and above each cut, along a new axis of all cuts.

        Their order is one less: the largest arrays are two of the size of `above`.
        """
        axis = self.total.ndim - 1
        totals = rest = np.expand_dims(self.total, axis)
        single = self.above
        if self.order > 1:  # two cuts that are the same are one
            single = fewer = _diagonal(self.above, axis)
            rest = np.expand_dims(fewer, axis)
            for _ in range(self.order - 2):
                single = _diagonal(single, axis)
        lower = JointCounts(totals - single, rest - self.above, self.order - 1)
        return lower, JointCounts(single, self.above, self.order - 1)

    def at(self, place: int) -> "JointCounts":
        return JointCounts(self.total[place], self.above[place], self.order)


def joint_counts(
    cuts: Sequence[Cut], attributes: Sequence[int], codes: AnyInts, counts: Longs, order: int
) -> JointCounts:
    """Return the counts of all records.

    `attributes`: those that are cut, rising; `codes` (n, m), `counts` (n, k): **Private**: cells of
    these attributes with their records by class. Sums are of whole numbers below 2**53, and so
    exact; of few records in single precision, below 2**24.

    Raises MemoryCapError if they are too large.
    """
    s, k = len(cuts), counts.shape[1]
    check_counts(s, order, k)
    above = np.moveaxis(np.zeros((k, *(s,) * order)), 0, -1)  # sums over few classes are quicker
    rows = max(1, CHUNK // s)
    kind = np.float32 if counts.sum(dtype=np.float64) < SINGLE else np.float64
    for start in range(0, len(codes), rows):
        part = slice(start, start + rows)
        sides = _sides(cuts, attributes, codes[part], kind)
        for c, of_class in enumerate(counts[part].T):
            there = of_class > 0
            above[..., c] += _counts_above(sides[there], of_class[there].astype(kind), order)
    return JointCounts(counts.sum(axis=0), above.astype(np.int64), order)


def check_counts(n_cuts: int, order: int, n_classes: int) -> None:
    """Raise MemoryCapError if counts above so many cuts are too large."""
    check_allocation("counts above several cuts at once", (*(n_cuts,) * order, n_classes))


def _sides(
    cuts: Sequence[Cut], attributes: Sequence[int], codes: AnyInts, kind: type[np.floating]
) -> Reals:
    """Return 1 where a cell lies above a cut and 0 below, (n, s)."""
    columns = {attribute: place for place, attribute in enumerate(attributes)}
    found = np.empty((len(codes), len(cuts)), dtype=kind)
    for place, cut in enumerate(cuts):
        found[:, place] = cut.upper[codes[:, columns[cut.attribute]]]
    return found


def _counts_above(sides: Reals, weights: Reals, order: int) -> Reals:
    """Return the weight above several cuts at once. `sides` (n, s); `weights` (n,)."""
    if order == 1:
        return np.asarray(weights @ sides)
    if order == 2:
        return np.asarray((sides * weights[:, None]).T @ sides)
    found = np.empty((sides.shape[1],) * order, dtype=sides.dtype)
    for first in range(sides.shape[1]):  # the others are no earlier: orders make no difference
        there = sides[:, first] > 0
        fewer = _counts_above(sides[there, first:], weights[there], order - 1)
        for place in range(order):
            part: list[int | slice] = [slice(first, None)] * order
            part[place] = first
            found[tuple(part)] = fewer
    return found


def _diagonal(above: Longs, axis: int) -> Longs:
    """Return the entries that are at the same cut along two following axes, there as one axis."""
    return np.moveaxis(np.diagonal(above, axis1=axis, axis2=axis + 1), -1, axis)
