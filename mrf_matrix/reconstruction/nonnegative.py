"""Counts are never negative: estimators that know it. Biased, and better where it fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import (
    check_determined,
    checked_workload,
    estimated_cells,
)
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reconstruction.estimate import Estimate, agree_with_totals, exact_counts
from mrf_matrix.reconstruction.feasible_tables import (
    FeasibleTables,
    constrained_least_squares,
    nearest,
)
from mrf_matrix.reconstruction.known_totals import checked_totals
from mrf_matrix.reconstruction.pooling import pool_releases
from strategies.operators import Identity, MemoryCapError, Operator, over_groups
from strategies.problem.merging import can_merge, merge_columns

Per = Literal["class", "cell"]

NOTE = (
    "Biased upward where cells are empty, for negative noise is cut off: the expected error "
    "depends on the data and is not known. The biases of many cells add up in their sum, unless "
    "totals are known."
)


@dataclass(frozen=True, eq=False)
class MergedCells:
    """Answers and queries over groups of cells with equal columns of the strategies."""

    matrix: Operator  # shape (m, g)
    answers: Array  # shape (m, k)
    queries: Operator  # shape (q, g)
    variance: float  # of every answer
    claim: Claim  # see `claim_of`

    @property
    def n_groups(self) -> int:
        """Number of groups g."""
        return self.matrix.shape[1]

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.answers.shape[1])


def nonnegative_least_squares(
    releases: Release | Sequence[Release],
    workload: object,
    *,
    class_totals: object = None,
    total: float | None = None,
) -> Estimate:
    """Answer a workload by least squares over tables without negative counts.

    Minimises ``Σ ||A_i X - y_i||² / v_i`` over ``X >= 0``, the counts of the cells that the
    releases tell apart, and answers ``W X``. Under totals the columns of X, or all of X, sum to
    them.

    Parameters
    ----------
    releases : Release or sequence of Release
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    class_totals : array-like of shape (k,), optional
        Public records of each class.
    total : float, optional
        Public records of all classes together.

    Returns
    -------
    Estimate
        Without variances; without noise, the counts themselves.

    Raises
    ------
    RowSpaceError
        If the releases do not determine the workload.
    MemoryCapError
        If the cells cannot be enumerated.
    RuntimeError
        If the strategy is too badly conditioned for the descent.

    Notes
    -----
    Single cells of sparse data gain. Sums of many cells that were measured one by one lose: each
    empty cell adds a positive bias. Totals, public or measured themselves, hold it down.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(0.1), noise="research", random_state=2)
    >>> nonnegative_least_squares(release, np.eye(3)).values.min() >= 0
    np.True_
    """
    cells = merged_cells(releases, workload)
    tables = _feasible(cells.n_classes, class_totals, total)
    method = "non-negative least squares"
    if _are_exact(cells, class_totals, total):
        return _exact(cells, method)
    deviation = float(np.sqrt(cells.variance))
    counts = constrained_least_squares(cells.matrix, cells.answers, tables, deviation)
    return _answered(cells, counts, method)


def nearest_on_simplex(
    releases: Release | Sequence[Release],
    workload: object,
    *,
    per: Per = "class",
    class_totals: object = None,
) -> Estimate:
    """Answer a workload from least-squares counts of the cells, projected onto simplices.

    Cheaper than `nonnegative_least_squares`, and the same where each cell was measured once. Counts
    of each class over the cells (``per="class"``), or of each cell over the classes
    (``per="cell"``), become non-negative with the sum that they had, or 0 where that is negative.

    Parameters
    ----------
    releases : Release or sequence of Release
        Must determine every group of cells they tell apart.
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    per : {"class", "cell"}, default="class"
    class_totals : array-like of shape (k,), optional
        Public records of each class, in place of estimated ones; for ``per="class"`` only.

    Returns
    -------
    Estimate
        Without variances; without noise, the counts themselves.

    Raises
    ------
    RowSpaceError, MemoryCapError
        If the releases do not determine workload or cells, or these cannot be enumerated.
    """
    if per not in get_args(Per):
        raise ValueError(f"per={per!r}: expected 'class' or 'cell'.")
    if class_totals is not None and per == "cell":
        raise ValueError("class_totals was given with per='cell': expected per='class'.")
    cells = merged_cells(releases, workload)
    check_determined(Identity(cells.n_groups), cells.matrix)
    method = f"simplex projection per {per}"
    if class_totals is not None:
        class_totals, _ = checked_totals(cells.n_classes, class_totals, None)
    if _are_exact(cells, class_totals, None):
        return _exact(cells, method)
    counts = estimated_cells(cells.matrix, cells.answers)
    if counts is None:
        counts = cells.matrix.least_squares(cells.answers)
    vectors = counts if per == "class" else counts.T
    sums = np.maximum(vectors.sum(axis=0), 0.0)
    if class_totals is not None:
        sums = class_totals
    projected = nearest(vectors, sums, np.ones(len(vectors)))
    counts = projected if per == "class" else projected.T
    return _answered(cells, counts, method)


def _feasible(n_classes: int, class_totals: object, total: object) -> FeasibleTables:
    """Return non-negative tables, with known sums where there are any."""
    if class_totals is None and total is None:
        return FeasibleTables()
    return FeasibleTables(*checked_totals(n_classes, class_totals, total))


def _are_exact(cells: MergedCells, class_totals: object, total: object) -> bool:
    """Tell whether the answers are counts, which no constraint that they meet can improve."""
    if cells.variance > 0:
        return False
    return agree_with_totals(cells.matrix, cells.answers, class_totals, total)


def _exact(cells: MergedCells, method: str) -> Estimate:
    values = exact_counts(cells.queries, cells.matrix, cells.answers)
    return Estimate(
        values=values,
        variances=np.zeros(len(values)),
        method=f"{method}, no noise",
        claim=cells.claim,
    )


def _answered(cells: MergedCells, counts: Array, method: str) -> Estimate:
    values = cells.queries.matmat(counts)
    return Estimate(values=values, variances=None, method=method, note=NOTE, claim=cells.claim)


def merged_cells(releases: Release | Sequence[Release], workload: object) -> MergedCells:
    """Bring releases and workload to the groups of cells that the releases tell apart.

    Raises RowSpaceError if the releases do not determine the workload; MemoryCapError if the
    domain's cells cannot be enumerated.
    """
    queries = checked_workload(workload)
    pool = pool_releases(releases)
    if not can_merge(pool.matrix):
        raise MemoryCapError(
            f"releases: {pool.matrix.shape[1]} cells are too many to estimate one by one within "
            f"the memory cap. Expected a smaller domain; combine(...) needs no cells."
        )
    check_determined(queries, pool.matrix)
    merging = merge_columns(pool.matrix)
    matrix = merging.apply(pool.matrix)
    reduced = queries if merging.is_trivial else over_groups(queries, merging.grouping)
    return MergedCells(matrix, pool.answers, reduced, pool.variance, pool.claim)
