"""A batch of queries, planned without data: what will be measured, and the error of the votes.

With several ensembles the votes of a query add up, and so do their error variances: ensemble j
contributes ``v_j ||(W_j A_j⁺)_r||²`` to query r, with v_j the exact variance of its discrete noise.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.mechanisms import ZCDP, CellCounts, PureDP, Release
from mrf_matrix.planning.plans.answering import Answering, total_budget
from strategies.operators import Operator, RowScaled

Array = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class VotePlan:
    """How one batch of new queries will be answered; nothing in it is private.

    Attributes
    ----------
    queries : ndarray of shape (b, d)
        Codes of the distinct new queries.
    multiplicity : ndarray of shape (b,)
        How often each is asked in the batch: its weight in the choice of strategies.
    answerings : tuple of Answering
        Workload, strategy and mechanism of each ensemble.
    n_classes : int
        Number of classes k.

    Raises
    ------
    MemoryCapError
        If releasing the batch would need an array above the memory cap: known before the charge.
    """

    queries: Codes
    multiplicity: NDArray[np.int64]
    answerings: tuple[Answering, ...]
    n_classes: int

    def __post_init__(self) -> None:
        for answering in self.answerings:
            answering.check_memory(self.n_classes)

    @property
    def budget(self) -> PureDP | ZCDP:
        """What answering the batch costs."""
        return total_budget([one.mechanism.budget for one in self.answerings])

    @cached_property
    def row_variances(self) -> Array:
        """Expected squared error of every query's votes in each class, shape (b,)."""
        variances = np.array([one.row_variances for one in self.answerings])
        total: Array = variances.sum(axis=0)
        return total

    @property
    def expected_rms_per_vote(self) -> float:
        """Root-mean-square error of one vote total, over all queries as often as asked."""
        mean = self.multiplicity @ self.row_variances / self.multiplicity.sum()
        return float(np.sqrt(mean))

    def release(
        self, tables: Iterable[CellCounts], *, noise: str, noise_state: Any
    ) -> tuple[tuple[Release, ...], Array]:
        """Measure every ensemble's private table once; return releases and votes (b, k)."""
        releases = []
        votes = np.zeros((len(self.queries), self.n_classes))
        for answering, table in zip(self.answerings, tables, strict=True):
            release, answers = answering.release(table, noise=noise, noise_state=noise_state)
            releases.append(release)
            votes += answers
        return tuple(releases), votes

    def __repr__(self) -> str:
        methods = ", ".join(
            "each query" if one.strategy is None else one.strategy.method for one in self.answerings
        )
        return (
            f"VotePlan({len(self.queries)} distinct queries, {methods}, {self.budget!r}, expected "
            f"error {self.expected_rms_per_vote:.4g} rms per vote)"
        )


def weighted(workload: Operator, multiplicity: NDArray[np.int64]) -> Operator:
    """Return a workload whose total error counts each row as often as it is asked.

    Rows are scaled by the root of their multiplicity, which gives the same ``WᵀW``, and so the
    same best strategy, as repeating them.
    """
    if (multiplicity == 1).all():
        return workload
    return RowScaled(np.sqrt(multiplicity.astype(np.float64)), workload)


def distinct_rows(
    rows: Codes, keep: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return how often each distinct row occurs among those kept, and where it does first."""
    places = np.flatnonzero(keep)
    _, first, counts = np.unique(rows[places], axis=0, return_index=True, return_counts=True)
    return counts.astype(np.int64), places[first]
