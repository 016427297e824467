"""The private records of a residual forest while it learns, and their scores so far."""

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.mechanisms import CellCounts, count_cells
from mrf_matrix.mechanisms.counts.cells import check_private_allocation
from mrf_matrix.posterior import SCALES, UNITS, Link, SumOfEffects
from mrf_matrix.residual.step import ResidualStep

Codes = NDArray[np.integer]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

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

    def add(self, attributes: Sequence[int], effects: Floats) -> None:
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
        penalties: Floats,
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
        penalised = np.floor(UNITS / link.largest_sum * penalties)
        found = np.floor(norms / link.largest_sum - penalised)
        return np.clip(found, -LARGEST_SCORE, LARGEST_SCORE - 1).astype(np.int64)

    def balances(
        self, effects: SumOfEffects, penalties: Floats, norm: Literal["l1", "l2"] = "l1"
    ) -> Longs:
        """Return how near each of `SCALES` leaves residuals to balance, as integers.

        Residuals are added where a record's sum of effects is above its mean, and taken away where
        it is not: the sum's size, in units of the most that a record has, less a public penalty,
        is rounded and clipped. One record more or less changes it by at most 1.
        """
        link = Link(self._n_classes, norm)
        sums = np.zeros_like(self._scores)
        for i, one in enumerate(effects.effects):
            sums += one[self._columns[i]]
        above = sums >= effects.mean
        found = np.empty(len(SCALES))
        for place, scale in enumerate(SCALES):
            units = link.residual_units(scale * sums + effects.intercepts(scale), self._labels)
            found[place] = abs(int(units[above].sum()) - int(units[~above].sum()))
        found = np.floor(-found / link.largest_sum - np.floor(penalties))
        return np.clip(found, -LARGEST_SCORE, LARGEST_SCORE - 1).astype(np.int64)

    def _norm(self, units: Floats, attributes: tuple[int, ...]) -> float:
        # sums of whole numbers far below 2**53 are exact in doubles
        cells = self._cells(attributes)
        return float(sum(np.abs(np.bincount(cells, column)).sum() for column in units))

    def _cells(self, attributes: Sequence[int]) -> Longs:
        cells = np.zeros(len(self._labels), dtype=np.int64)
        for i in attributes:
            cells = cells * self._sizes[i] + self._columns[i]
        return cells
