"""Estimation cell by cell: cells that no release tells apart are one cell."""

from collections.abc import Sequence
from dataclasses import dataclass

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import check_determined, checked_workload
from mrf_matrix.mechanisms.measurement.release import Noise
from mrf_matrix.reconstruction.pooling import pool_releases
from strategies.operators import MemoryCapError, Operator, over_groups
from strategies.problem.merging import can_merge, merge_columns


@dataclass(frozen=True, eq=False)
class MergedCells:
    """Answers and queries over groups of cells with equal columns of the strategies."""

    matrix: Operator  # shape (m, g)
    answers: Array  # shape (m, k)
    queries: Operator  # shape (q, g)
    variance: float  # of every answer
    noise: Noise  # see `noise_of`

    @property
    def n_groups(self) -> int:
        """Number of groups g."""
        return self.matrix.shape[1]

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.answers.shape[1])


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
    return MergedCells(matrix, pool.answers, reduced, pool.variance, pool.noise)
