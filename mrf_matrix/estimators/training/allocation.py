"""Where the noise of a training release goes: the matrix mechanism and the two baselines.

Each allocation turns private records into noisy leaf values ``C̃`` (o x k) in one measurement:

============  ==========================================  ===========  ==========================
allocation    what is measured                            sensitivity  leaf values
============  ==========================================  ===========  ==========================
"matrix"      the strategy: ``A D + noise``               ‖A‖          ``T A⁺ (A D + noise)``
"per_tree"    every tree's leaves: ``T D + noise``        ‖T‖ = τ      as measured
"disjoint"    every leaf, each record in one tree only    1            as measured
============  ==========================================  ===========  ==========================

"matrix" is Algorithm 1 of Tajima, Wu and Houmansadr (AAAI 2025); the others are the baselines it
is compared with (Jagannathan et al. 2009; Fletcher and Islam 2017). Under zCDP the norms are L2,
so that ``‖T‖₂ = √τ``. With several ensembles each is measured with its own share of the budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.shown import shown
from mrf_matrix.compilation import path_matrix, prediction_workload, query_matrix
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.estimators.shared.given_data import TableSource
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    LeafCounts,
    PureDP,
    Release,
    calibrate,
    row_variances,
)
from mrf_matrix.planning.plans.answering import Answering, choose_strategies
from mrf_matrix.planning.plans.strategy_choice import Calibrated
from mrf_matrix.voting.leaf_noise import NoisyLeaves
from mrf_matrix.voting.redrawn_votes import fresh_leaf_noise
from mrf_matrix.voting.vote_draws import vote_terms
from strategies import Strategy
from strategies.operators import Identity, Operator

Allocation = Literal["matrix", "per_tree", "disjoint"]
ALLOCATIONS: tuple[str, ...] = get_args(Allocation)
Array = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """What a training release leaves of one ensemble; nothing in it is private.

    Attributes
    ----------
    features : tuple of int
        Positions of its attributes in the domain.
    forest : Forest
        Its structure, over these attributes.
    strategy : Strategy or None
        The strategy in use; None for the baselines.
    release : Release
        The noisy measurement.
    leaf_values : ndarray of shape (o, k)
        Noisy class counts of the leaves, in the order of the estimator's `classes_`.
    """

    features: tuple[int, ...]
    forest: Forest
    strategy: Strategy | None
    release: Release
    leaf_values: Array

    @cached_property
    def leaves(self) -> NoisyLeaves:
        """The leaf values with their noise, which is known without data."""
        if self.strategy is not None:
            return NoisyLeaves(self.forest, self.leaf_values, self.release)
        own = self.release.variance / float(self.release.scale) ** 2  # leaves measured themselves
        return NoisyLeaves(self.forest, self.leaf_values, own)

    @property
    def leaf_variances(self) -> Array:
        """Noise variance of every leaf value, in each class, shape (o,)."""
        return self.leaves.variances

    def vote_variances(self, codes: Codes) -> Array:
        """Return the expected squared error of every record's weight votes, per class, (b,)."""
        if self.strategy is None:  # every leaf has its own noise
            own = self.release.variance / float(self.release.scale) ** 2
            return np.full(len(codes), own * self.forest.n_trees)
        return row_variances(self.release, self._votes_asked(codes))

    def vote_terms(self, codes: Codes) -> list[NoiseTerm] | None:
        """Return the weighted noise draws of every record's votes, if they can be afforded."""
        if self.strategy is None:
            weights = np.full(self.forest.n_trees, 1 / float(self.release.scale))
            return [NoiseTerm.of(weights, self.release.law)] * len(codes)
        return vote_terms(self._votes_asked, self.release, codes)

    def redrawn_noise(self, draws: int, generator: np.random.Generator) -> Array:
        """Return fresh errors of the leaf values, shape (o, k, draws)."""
        answered = None if self.strategy is None else self.forest
        return fresh_leaf_noise(self.release, answered, draws, generator)

    def _votes_asked(self, codes: Codes) -> Operator:
        queries = query_matrix(Ensemble(self.features, self.forest).view(codes), self.forest.domain)
        return prediction_workload(self.forest, queries)


@dataclass(frozen=True, eq=False)
class Training:
    """What the training release of one ensemble needs besides the records: all of it is public.

    Attributes
    ----------
    ensemble : Ensemble
        Where the leaves are.
    allocation : {"matrix", "per_tree", "disjoint"}
        What is measured.
    answering : Answering
        The leaves as a workload, its strategy, and the calibrated noise.
    """

    ensemble: Ensemble
    allocation: Allocation
    answering: Answering

    def table(self, tables: TableSource, coins: np.random.Generator) -> CellCounts | LeafCounts:
        """Return the private table that is measured: over cells, or over leaves ("disjoint").

        Parameters
        ----------
        tables : TableSource
            The private data, over the whole domain.
        coins : Generator
            Throws the coins that give each record its tree ("disjoint").
        """
        if self.allocation == "disjoint":
            return tables.disjoint_leaves(self.ensemble, coins)
        return tables.cells(self.ensemble.features)

    def trained(self, release: Release, leaf_values: Array) -> TrainedEnsemble:
        """Return the ensemble with its release."""
        ensemble = self.ensemble
        return TrainedEnsemble(
            ensemble.features, ensemble.forest, self.answering.strategy, release, leaf_values
        )


def allocate(
    ensembles: Sequence[Ensemble],
    allocation: Any,
    budgets: Sequence[PureDP | ZCDP],
    structure: np.random.Generator,
    *,
    strategy: Any = "auto",
    neighboring: str = "add_remove",
    time_limit: float = 8.0,
    n_jobs: int | None = None,
) -> tuple[Training, ...]:
    """Choose what a training release measures, without data.

    Parameters
    ----------
    ensembles : sequence of Ensemble
        The public forests.
    allocation : {"matrix", "per_tree", "disjoint"}
        What to measure; see the table above.
    budgets : sequence of PureDP or ZCDP
        One for each ensemble. Pure DP selects in the L1 norm (Laplace noise), zCDP in the L2
        norm (Gaussian noise).
    structure : Generator
        Seeds the selections.
    strategy : str, Strategy, Operator, ndarray, scipy sparse or list, default="auto"
        For "matrix": a family's name, or strategies. The baselines have no choice.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation.
    time_limit, n_jobs
        See `choose_strategies`.

    Raises
    ------
    ValueError
        If the allocation is unknown or a strategy was selected for the other norm.
    """
    kind = checked_allocation(allocation)
    workloads = [path_matrix(ensemble.forest) for ensemble in ensembles]
    if kind == "matrix":
        chosen = choose_strategies(
            workloads,
            strategy,
            [_calibrated(*asked, neighboring) for asked in zip(workloads, budgets, strict=True)],
            budgets[0].norm,
            structure,
            time_limit=time_limit,
            n_jobs=n_jobs,
        )
        answerings = [
            Answering(workload, *each) for workload, each in zip(workloads, chosen, strict=True)
        ]
    else:
        answerings = [
            _as_measured(kind, workload, budget, neighboring)
            for workload, budget in zip(workloads, budgets, strict=True)
        ]
    return tuple(
        Training(ensemble, kind, answering)
        for ensemble, answering in zip(ensembles, answerings, strict=True)
    )


def _calibrated(workload: Operator, budget: PureDP | ZCDP, neighboring: str) -> Calibrated:
    return partial(calibrate, budget=budget, neighboring=neighboring, workload=workload)


def _as_measured(
    kind: Allocation, workload: Operator, budget: PureDP | ZCDP, neighboring: str
) -> Answering:
    """Return how a baseline's leaves are measured themselves."""
    measured = workload if kind == "per_tree" else Identity(workload.shape[0])
    return Answering(measured, None, calibrate(measured, budget, neighboring=neighboring))


def checked_allocation(allocation: Any) -> Allocation:
    """Return a known allocation or refuse by name."""
    if allocation not in ALLOCATIONS:
        raise ValueError(
            f"allocation={shown(allocation)}: expected one of {', '.join(map(repr, ALLOCATIONS))}."
        )
    kind: Allocation = allocation
    return kind
