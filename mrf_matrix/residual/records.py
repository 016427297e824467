"""The private records of a residual forest while it learns, and their scores so far."""

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.mechanisms import CellCounts, count_cells
from mrf_matrix.mechanisms.counts.cells import check_private_allocation
from mrf_matrix.posterior import SCALES, UNITS, Link, SumOfEffects
from mrf_matrix.residual.step import ResidualStep

Codes = NDArray[np.integer]

LEAST_SPREAD = 1e-12  # of sums of effects, even where no attribute has an effect

LARGEST_SCORE = 1 << 30
"""Scores of choices are clipped to it, which moves no two of them further apart."""


def check_scores(n_records: int, n_classes: int) -> tuple[int, int]:
    """Return the shape of the scores of so many records; refuse them above the memory cap.

    `n_records`: **Private**: no message tells it.
    """
    shape = n_records, Link(n_classes, "l1").n_columns
    check_private_allocation("scores of the records", shape)
    return shape


class ResidualRecords:
    """Codes, labels and scores of the records: **private**, read by `measure` and `select` only.

    Parameters
    ----------
    codes : ndarray of int, shape (N, d)
    labels : ndarray of int, shape (N,)
        Below `n_classes`.
    sizes : sequence of int
        Attribute sizes of the domain.
    n_classes : int, default=2
    """

    def __init__(
        self, codes: Codes, labels: Codes, sizes: Sequence[int], n_classes: int = 2
    ) -> None:
        self._columns = np.ascontiguousarray(codes.T, dtype=np.int64)
        self._labels = labels
        self._sizes = tuple(sizes)
        self._n_classes = n_classes
        self._scores = np.zeros(check_scores(len(labels), n_classes))

    def __repr__(self) -> str:
        return "ResidualRecords(private)"

    def add(self, attributes: Sequence[int], effects: Array) -> None:
        """Add a table's public effects, (n, columns), to the scores of the records in its cells."""
        self._scores += effects[self._cells(attributes)]

    def totals(self) -> CellCounts:
        """Return the class totals."""
        nowhere = np.zeros((len(self._labels), 1), dtype=np.int64)
        return count_cells(nowhere, self._labels, (1,), self._n_classes)

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> CellCounts:
        """Return counts of (cell, integer added), or of cells alone where each record adds one.

        A column for each of the table: a record is counted once in each.

        `step`: of kind "counts", "curvature" or "residuals"; `attributes`: of the table; none for a
        sum over all records.
        """
        cells, n_cells = self._cells(attributes), prod(self._sizes[i] for i in attributes)
        if step.kind == "counts":
            return count_cells(cells[:, None], np.zeros_like(cells), (n_cells,), 1)
        if step.kind == "curvature":
            places = step.link.curvature_units(self._scores)[:, None]
        else:
            places = step.link.residual_units(self._scores, self._labels) + step.link.residual_cap
        n_columns = places.shape[1]
        pairs = np.column_stack([np.repeat(cells, n_columns), places.ravel()])
        columns = np.tile(np.arange(n_columns), len(cells))
        return count_cells(pairs, columns, (n_cells, step.n_values), n_columns)

    def scores(
        self,
        candidates: Sequence[tuple[int, ...]],
        penalties: Array,
        norm: Literal["l1", "l2"] = "l1",
    ) -> Longs:
        """Return how much residual each candidate table shows, less a public penalty, as integers.

        The L1 norm of a table of residuals changes by at most `Link.largest_sum` with one record
        more or less. So the norm in this unit, less the penalty, rounded down and clipped, changes
        by at most 1.
        """
        link = Link(self._n_classes, norm)
        units = link.residual_units(self._scores, self._labels).T.astype(np.float64)
        norms = np.array([self._norm(units, candidate) for candidate in candidates])
        return _as_scores(norms / link.largest_sum, np.floor(UNITS / link.largest_sum * penalties))

    def balances(
        self, effects: SumOfEffects, penalties: Array, norm: Literal["l1", "l2"] = "l1"
    ) -> Longs:
        """Return how near each of `SCALES` leaves residuals to balance, as integers.

        A record counts by its residual of the class for which its sum of effects speaks most, each
        score beside its mean, and by how much it does, up to one. The total's size, in units of the
        most that a record adds, less a public penalty, is rounded and clipped: one record more or
        less changes it by at most 1.
        """
        link = Link(self._n_classes, norm)
        sums = self._sums(effects.effects)
        places, weights = _largest_lifts(
            (sums - effects.mean) / np.maximum(effects.spread, LEAST_SPREAD)
        )
        found = np.empty(len(SCALES))
        for i, scale in enumerate(SCALES):
            units = link.residual_units(scale * sums + effects.intercepts(scale), self._labels)
            own = np.take_along_axis(units, places, axis=1)
            found[i] = -abs(int(np.trunc(own * weights).astype(np.int64).sum()))
        return _as_scores(found / link.largest_entry, np.floor(penalties))

    def _sums(self, effects: Sequence[Array]) -> Array:
        """Return each record's sum of effects, (N, columns): attribute after attribute."""
        sums = np.zeros_like(self._scores)
        for column, one in zip(self._columns, effects, strict=True):
            sums += one[column]
        return sums

    def _norm(self, units: Array, attributes: tuple[int, ...]) -> float:
        # sums of whole numbers far below 2**53 are exact in doubles
        cells = self._cells(attributes)
        return float(sum(np.abs(np.bincount(cells, column)).sum() for column in units))

    def _cells(self, attributes: Sequence[int]) -> Longs:
        cells = np.zeros(len(self._labels), dtype=np.int64)
        for i in attributes:
            cells = cells * self._sizes[i] + self._columns[i]
        return cells


def _as_scores(gains: Array, penalties: Array) -> Longs:
    """Return gains less whole penalties, rounded down and clipped."""
    found = np.floor(gains - penalties)
    return np.clip(found, -LARGEST_SCORE, LARGEST_SCORE - 1).astype(np.int64)


def _largest_lifts(lifts: Array) -> tuple[Longs, Array]:
    """Return each record's column of largest lift, and what its residual there counts, (N, 1) each.

    The only column of two classes is that of class 1. Where it is below its mean, class 0 is above,
    and has the negative of both lift and residual: their product is the same.
    """
    places = lifts.argmax(axis=1, keepdims=True)
    least = -1.0 if lifts.shape[1] == 1 else 0.0
    return places, np.clip(np.take_along_axis(lifts, places, axis=1), least, 1.0)
