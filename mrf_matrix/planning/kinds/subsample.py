"""Noisy votes of batches of queries: over cells (Algorithm 2), or of trees on disjoint records.

One record moves a leaf's counts by one, but its hard vote from one class to another: the noise of
both, and of one query at a time, is proved in `mrf_matrix.error.vote_noise`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mrf_matrix.compilation import leaf_incidence, query_matrix
from mrf_matrix.error.vote_noise import one_query_at_a_time, with_hard_votes
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import CellCounts, Mechanism, calibrate
from mrf_matrix.planning.kinds.kind import (
    OF_TREES,
    Budget,
    Codes,
    Kind,
    Law,
    TableSource,
    one_leaf_each,
)
from mrf_matrix.voting.voting import leaf_labels
from strategies import Strategy
from strategies.operators import Operator, Sparse


@dataclass(frozen=True)
class Prediction(Kind):
    """A strategy for the weight votes of the queries, ``Q Tᵀ T``."""

    name: ClassVar[str] = "batch"
    votings: ClassVar[tuple[str, ...]] = ("weight",)
    imagined_votings: ClassVar[tuple[str, ...]] = ("weight",)
    answers_queries: ClassVar[bool] = True
    time_limit: ClassVar[float] = 1.0
    measured: ClassVar[str] = "votes"
    parameters: ClassVar[tuple[str, ...]] = tuple(
        name for name in OF_TREES if name not in ("allocation", "voting")
    )


@dataclass(frozen=True)
class Subsample(Kind):
    """A strategy for the votes of the queries over leaves, ``Q Tᵀ``."""

    name: ClassVar[str] = "subsample"
    votings: ClassVar[tuple[str, ...]] = ("weight", "hard")
    imagined_votings: ClassVar[tuple[str, ...]] = votings
    answers_queries: ClassVar[bool] = True
    is_disjoint: ClassVar[bool] = True
    voting_is_measured: ClassVar[bool] = True
    n_trees: ClassVar[int] = 16
    time_limit: ClassVar[float] = 1.0
    table_rows: ClassVar[str] = "leaves"
    measured: ClassVar[str] = "votes"

    @property
    def counts_votes(self) -> bool:
        """Whether the table holds one vote for each leaf in place of counts."""
        return self.voting == "hard"

    def vote_workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return ``Q Tᵀ``: the leaves that the queries reach."""
        forest = ensemble.forest
        asked = query_matrix(ensemble.view(queries), forest.domain)
        return Sparse(leaf_incidence(forest, asked))

    def places(
        self, ensemble: Ensemble, codes: Codes, coins: np.random.Generator
    ) -> tuple[Codes, tuple[int, ...]]:
        """Return the leaf of each record's own tree."""
        forest = ensemble.forest
        return one_leaf_each(forest, ensemble.view(codes), coins)[:, None], (forest.n_leaves,)

    def table(
        self, ensemble: Ensemble, source: TableSource, coins: np.random.Generator
    ) -> CellCounts:
        """Return the counts of every leaf, or its hard vote."""
        shape = (ensemble.forest.n_leaves, source.n_classes)
        preference = coins.random(shape)  # before the coins: whatever the records
        counts = source.disjoint_leaves(ensemble, coins)
        return leaf_labels(counts, preference) if self.counts_votes else counts

    def mechanism(
        self, strategy: Strategy, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> Mechanism:
        """Return the noise of counts, or of hard votes."""
        mechanism = super().mechanism(strategy, workload, budget, neighboring, law)
        return with_hard_votes(mechanism) if self.counts_votes else mechanism


@dataclass(frozen=True)
class PerQuery(Subsample):
    """Every query measured by itself, without a strategy."""

    allocation: ClassVar[str] = "per_query"
    chooses_strategies: ClassVar[bool] = False
    measured: ClassVar[str] = "every query"

    def baseline(
        self, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> tuple[Operator, Mechanism]:
        """Return the queries, each with its part of the budget."""
        measured = calibrate(workload, budget, neighboring=neighboring, law=law)
        return workload, one_query_at_a_time(measured, hard=self.counts_votes)
