"""The private records of a residual forest while it learns, and their log odds so far."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.mechanisms import CellCounts, count_cells
from mrf_matrix.posterior import RESIDUAL_CAP, curvature_units, residual_units
from mrf_matrix.residual.step import ResidualStep

Codes = NDArray[np.integer]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

LARGEST_SCORE = 1 << 30
"""Scores of choices are clipped to it, which moves no two of them further apart."""


class ResidualRecords:
    """Codes, labels and log odds of the records: **private**, read by `measure` and `select` only.

    Parameters
    ----------
    codes : ndarray of int, shape (N, d)
    labels : ndarray of int, shape (N,)
        0 or 1.
    sizes : sequence of int
        Attribute sizes of the domain.
    """

    def __init__(self, codes: Codes, labels: Codes, sizes: Sequence[int]) -> None:
        self._columns = np.ascontiguousarray(codes.T, dtype=np.int64)
        self._labels = labels
        self._sizes = tuple(sizes)
        self._log_odds = np.zeros(len(labels))

    def __repr__(self) -> str:
        return "ResidualRecords(private)"

    def add(self, attributes: Sequence[int], effects: Floats) -> None:
        """Add a table's public effects to the log odds of the records in its cells."""
        self._log_odds += effects[self._cells(attributes)]

    def totals(self) -> CellCounts:
        """Return the class totals."""
        nowhere = np.zeros((len(self._labels), 1), dtype=np.int64)
        return count_cells(nowhere, self._labels, (1,), 2)

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> CellCounts:
        """Return counts of (cell, integer added), or of cells alone where each record adds one.

        Parameters
        ----------
        step : ResidualStep
            Of kind "counts", "curvature" or "residuals".
        attributes : sequence of int
            Of the table; none for a sum over all records.
        """
        cells, n_cells = self._cells(attributes), prod(self._sizes[i] for i in attributes)
        unlabelled = np.zeros(len(cells), dtype=np.int64)
        if step.kind == "counts":
            return count_cells(cells[:, None], unlabelled, (n_cells,), 1)
        if step.kind == "curvature":
            places = curvature_units(self._log_odds)
        else:
            places = residual_units(self._log_odds, self._labels) + RESIDUAL_CAP
        pairs = np.column_stack([cells, places])
        return count_cells(pairs, unlabelled, (n_cells, step.n_values), 1)

    def scores(self, candidates: Sequence[tuple[int, ...]], penalties: Floats) -> Longs:
        """Return how much residual each candidate table shows, less a public penalty, as integers.

        The L1 norm of a table of residuals changes by at most one half with one record more or
        less, so twice the norm less the penalty, rounded down and clipped, changes by at most 1.
        """
        units = residual_units(self._log_odds, self._labels).astype(np.float64)
        norms = np.array([self._norm(units, candidate) for candidate in candidates])
        found = np.floor(norms / RESIDUAL_CAP - np.floor(2 * penalties))
        return np.clip(found, -LARGEST_SCORE, LARGEST_SCORE - 1).astype(np.int64)

    def _norm(self, units: Floats, attributes: tuple[int, ...]) -> float:
        # sums of whole numbers far below 2**53 are exact in doubles
        return float(np.abs(np.bincount(self._cells(attributes), units)).sum())

    def _cells(self, attributes: Sequence[int]) -> Longs:
        cells = np.zeros(len(self._labels), dtype=np.int64)
        for i in attributes:
            cells = cells * self._sizes[i] + self._columns[i]
        return cells
