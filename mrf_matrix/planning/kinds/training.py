"""Training: noisy leaf values of public forests, by the matrix mechanism or a baseline.

============  ==========================================  ===========  ==========================
allocation    what is measured                            sensitivity  leaf values
============  ==========================================  ===========  ==========================
"matrix"      the strategy: ``A D + noise``               ‖A‖          ``T A⁺ (A D + noise)``
"per_tree"    every tree's leaves: ``T D + noise``        ‖T‖ = τ      as measured
"disjoint"    every leaf, each record in one tree only    1            as measured
"…_levels"    all nodes, one weight a level: `levels`     ‖A‖          ``T A⁺ (A D + noise)``
============  ==========================================  ===========  ==========================

"matrix" is Algorithm 1 of Tajima, Wu and Houmansadr (AAAI 2025); the others are the baselines it
is compared with (Jagannathan et al. 2009; Fletcher and Islam 2017). Under zCDP the norms are L2,
so that ``‖T‖₂ = √τ``. With several ensembles each is measured with its own share of the budget.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mrf_matrix.compilation import path_matrix, prediction_workload, query_matrix
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import Mechanism, calibrate
from mrf_matrix.planning.kinds.kind import OF_TREES, Budget, Codes, Kind, Law, one_leaf_each
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS
from strategies.operators import Identity, Operator


@dataclass(frozen=True)
class Training(Kind):
    """A strategy for the leaves of every ensemble."""

    name: ClassVar[str] = "training"
    votings: ClassVar[tuple[str, ...]] = NOISE_AWARE_VOTINGS
    imagined_votings: ClassVar[tuple[str, ...]] = ("hard", "weight")
    releases_leaves: ClassVar[bool] = True

    def workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return T: one row a leaf."""
        return path_matrix(ensemble.forest)

    def vote_workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return ``Q Tᵀ T``: the sums of the leaves that the queries reach."""
        forest = ensemble.forest
        return prediction_workload(forest, query_matrix(ensemble.view(queries), forest.domain))


@dataclass(frozen=True)
class PerTree(Training):
    """The leaves of all trees, measured themselves."""

    allocation: ClassVar[str] = "per_tree"
    chooses_strategies: ClassVar[bool] = False
    measured: ClassVar[str] = "every leaf of every tree"


@dataclass(frozen=True)
class Disjoint(Training):
    """All leaves, each record in one tree only."""

    allocation: ClassVar[str] = "disjoint"
    chooses_strategies: ClassVar[bool] = False
    is_disjoint: ClassVar[bool] = True
    table_rows: ClassVar[str] = "leaves"
    measured: ClassVar[str] = "every leaf, each record in one tree"

    def places(
        self, ensemble: Ensemble, codes: Codes, coins: np.random.Generator
    ) -> tuple[Codes, tuple[int, ...]]:
        """Return the leaf of each record's own tree."""
        forest = ensemble.forest
        return one_leaf_each(forest, ensemble.view(codes), coins)[:, None], (forest.n_leaves,)

    def baseline(
        self, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> tuple[Operator, Mechanism]:
        """Return the leaves themselves."""
        leaves = Identity(workload.shape[0])
        return leaves, calibrate(leaves, budget, neighboring=neighboring, law=law)


@dataclass(frozen=True)
class Prediction(Kind):
    """A strategy for the weight votes of the queries, ``Q Tᵀ T``."""

    name: ClassVar[str] = "prediction"
    votings: ClassVar[tuple[str, ...]] = ("weight",)
    imagined_votings: ClassVar[tuple[str, ...]] = ("weight",)
    answers_queries: ClassVar[bool] = True
    time_limit: ClassVar[float] = 1.0
    parameters: ClassVar[tuple[str, ...]] = tuple(
        name for name in OF_TREES if name not in ("allocation", "voting")
    )

    def workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return the votes of the queries."""
        return self.vote_workload(ensemble, queries)

    def vote_workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return ``Q Tᵀ T``: the sums of the leaves that the queries reach."""
        forest = ensemble.forest
        return prediction_workload(forest, query_matrix(ensemble.view(queries), forest.domain))
