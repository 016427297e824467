"""Kinds of plan: what is asked, what is measured, how far one record moves it.

A kind says, of public things alone, which workload is asked of which private table, how far one
record moves what is measured, and whether the answers are leaf values or votes. `kind_of` looks
up a user's words (kind, allocation, voting).

Of "matrix", leaf values of public forests are measured, by the matrix mechanism or a baseline:

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
Of "batch" and "subsample", noisy votes of queries are: one record moves a leaf's counts by one, but
its hard vote from one class to another. The noise of both, and of one query at a time, is proved in
`mrf_matrix.error.noise_sums`.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Codes
from mrf_matrix.base.checks import one_word, short_repr
from mrf_matrix.base.kinds import KINDS as WORDS
from mrf_matrix.compilation import leaf_incidence, path_matrix, prediction_workload, query_matrix
from mrf_matrix.forests import Forest
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    LeafCounts,
    Mechanism,
    NoiseLaw,
    PureDP,
    calibrate,
)
from mrf_matrix.planning.plans.baselines import level_strategy, one_query_at_a_time, with_hard_votes
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, VOTINGS, leaf_labels, record_blocks
from strategies import Strategy
from strategies.operators import Identity, Norm, Operator, Sparse

Features = tuple[int, ...]


class TableSource(Protocol):
    """Private data that can be counted."""

    @property
    def n_classes(self) -> int:
        """Number of classes k."""

    def cells(self, features: Features) -> CellCounts | LeafCounts:
        """Return the counts over the cells of some attributes."""

    def disjoint_leaves(self, ensemble: Ensemble, coins: np.random.Generator) -> CellCounts:
        """Return the counts of leaves when each record counts in one tree, drawn by its coin."""

    def check(self, measured: Operator) -> None:
        """Refuse, before budget is spent, a strategy that these tables have no answers to."""


Budget = PureDP | ZCDP
Law = type[NoiseLaw] | None


OF_TREES = (
    "max_depth", "n_trees", "n_ensembles", "max_features", "splits", "strategy", "allocation",
    "voting", "time_limit", "budget_shares",
)  # fmt: skip


@dataclass(frozen=True)
class PlanKind:
    """What a plan measures, and what its answers are.

    Subclasses are values without arrays, one for each word and allocation.
    """

    voting: str  # how answers become votes, one of `votings`

    name: ClassVar[str]  # the word of `mrf_matrix.base.kinds`
    allocation: ClassVar[str] = "matrix"  # where the noise goes, in a user's words
    votings: ClassVar[tuple[str, ...]]  # rules that the kind knows, its default first
    # those that the objective "accuracy" can judge without data
    imagined_votings: ClassVar[tuple[str, ...]]
    # whether answers are leaf values, of which votes are made afterwards; else they are votes
    releases_leaves: ClassVar[bool] = False
    # whether votes are sums of answers, so that they have an expected error
    votes_add: ClassVar[bool] = True
    is_disjoint: ClassVar[bool] = False  # whether each record is counted in one tree only
    voting_is_measured: ClassVar[bool] = False  # whether the table depends on the voting
    grows_trees: ClassVar[bool] = True  # random trees; else its forests are tables of blocks
    chooses_blocks: ClassVar[bool] = False  # whether a user, or the plan, chooses blocks
    # whether answers are the votes of given queries, planned when they come
    answers_queries: ClassVar[bool] = False
    chooses_strategies: ClassVar[bool] = True  # else the answers themselves are measured
    # n_trees, time_limit: usual trees, and usual seconds of the search for a strategy
    n_trees: ClassVar[int] = 128
    time_limit: ClassVar[float] = 8.0
    # whether tables are measured one after another, the later ones chosen by earlier releases
    is_sequence: ClassVar[bool] = False
    table_rows: ClassVar[str] = "cells"  # what the private table has a row for
    measured: ClassVar[str] = "cells of the domain"  # what is measured, in the words of a report
    # what the classifier takes of a design, beside budget, relation and seed
    parameters: ClassVar[tuple[str, ...]] = OF_TREES

    @property
    def counts_votes(self) -> bool:
        """Whether the table holds one vote for each leaf in place of counts."""
        return False

    def workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return what is asked of an ensemble's private table: leaves, or the queries' votes."""
        if self.releases_leaves:
            return path_matrix(ensemble.forest)
        return self.vote_workload(ensemble, queries)

    def vote_workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return the weight votes of queries: ``Q Tᵀ T``, the sums of the leaves they reach."""
        forest = ensemble.forest
        return prediction_workload(forest, query_matrix(ensemble.view(queries), forest.domain))

    def places(
        self, ensemble: Ensemble, codes: Codes, coins: np.random.Generator
    ) -> tuple[Codes, tuple[int, ...]]:
        """Return the row of the table in which each record counts, and the table's sizes.

        `codes`: (N, d), encoded records, over the whole domain; `coins`: throws the coins that give
        each record its tree, where it has one.
        """
        forest, seen = ensemble.forest, ensemble.view(codes)
        if self.is_disjoint:
            return one_leaf_each(forest, seen, coins)[:, None], (forest.n_leaves,)
        return seen, forest.domain.sizes

    def table(
        self, ensemble: Ensemble, source: TableSource, coins: np.random.Generator
    ) -> CellCounts | LeafCounts:
        """Return the private table that is measured: exact counts.

        `ensemble`, `coins`: see `places`; `source`: the private data, over the whole domain.
        """
        if self.is_disjoint:
            return source.disjoint_leaves(ensemble, coins)
        return source.cells(ensemble.features)

    def own_strategy(self, ensemble: Ensemble, norm: Norm) -> Strategy | None:
        return None

    def mechanism(
        self, strategy: Strategy, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> Mechanism:
        """Return the noise that a strategy of the workload needs on this table."""
        return calibrate(strategy, budget, neighboring=neighboring, workload=workload, law=law)

    def baseline(
        self, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> tuple[Operator, Mechanism]:
        """Return what is measured in place of a strategy, and its noise.

        Only of kinds that choose none (`chooses_strategies`).
        """
        return workload, calibrate(workload, budget, neighboring=neighboring, law=law)


@dataclass(frozen=True)
class Training(PlanKind):
    """A strategy for the leaves of every ensemble."""

    name: ClassVar[str] = "matrix"
    votings: ClassVar[tuple[str, ...]] = NOISE_AWARE_VOTINGS
    imagined_votings: ClassVar[tuple[str, ...]] = ("hard", "weight")
    releases_leaves: ClassVar[bool] = True


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

    def baseline(
        self, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> tuple[Operator, Mechanism]:
        leaves = Identity(workload.shape[0])
        return leaves, calibrate(leaves, budget, neighboring=neighboring, law=law)


@dataclass(frozen=True)
class UniformLevels(Training):
    """All nodes, every level with the same weight."""

    allocation: ClassVar[str] = "uniform_levels"

    def own_strategy(self, ensemble: Ensemble, norm: Norm) -> Strategy:
        return level_strategy(ensemble.forest, norm, self.allocation.removesuffix("_levels"))


@dataclass(frozen=True)
class GeometricLevels(UniformLevels):
    """All nodes, weights growing with the number of nodes of their level."""

    allocation: ClassVar[str] = "geometric_levels"


@dataclass(frozen=True)
class OptimalLevels(UniformLevels):
    """All nodes of the levels that serve the leaves best."""

    allocation: ClassVar[str] = "optimal_levels"


def record_coins(
    noise: object, budget: PureDP | ZCDP, seed: int | np.random.Generator | None
) -> np.random.Generator:
    """Return what throws the records' coins: never seeded in a private release.

    The coin of a record depends neither on its values nor on other records, so adding a record
    moves no other, and replacing one changes nothing but itself. A seed gives coins by place,
    though: whoever knows it knows that taking out one record shifts the coins of all behind it.
    """
    private = noise == "exact" and not budget.is_infinite
    return np.random.default_rng(None if private else seed)


def one_leaf_each(forest: Forest, codes: Codes, coins: np.random.Generator) -> Codes:
    """Route each record through one tree, drawn by its coin; return its leaf, shape (N,)."""
    return leaves_in_trees(forest, codes, coins.integers(forest.n_trees, size=len(codes)))


def leaves_in_trees(forest: Forest, codes: Codes, tree: NDArray[np.int64]) -> Codes:
    """Return each record's leaf in its own tree, shape (N,).

    The largest array is that of the leaf numbers of one block of records in all trees.
    """
    leaves = np.empty(len(codes), dtype=np.int32)
    for block in record_blocks(len(codes), forest.n_trees):
        routed = forest.apply(codes[block])
        leaves[block] = routed[np.arange(len(routed)), tree[block]]
    return leaves


@dataclass(frozen=True)
class Blocks(PlanKind):
    """Blocks chosen without data, labelled by the posterior of their effects."""

    name: ClassVar[str] = "tables"
    votings: ClassVar[tuple[str, ...]] = ("posterior",)
    imagined_votings: ClassVar[tuple[str, ...]] = ("posterior",)
    releases_leaves: ClassVar[bool] = True
    votes_add: ClassVar[bool] = False
    chooses_strategies: ClassVar[bool] = False
    grows_trees: ClassVar[bool] = False
    chooses_blocks: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("n_blocks", "blocks", "n_records")
    measured: ClassVar[str] = "every leaf of every tree"


@dataclass(frozen=True)
class NaiveBayes(Blocks):
    """A block for each attribute, and class totals of the same weight: trees vote by product."""

    name: ClassVar[str] = "naive_bayes"
    votings: ClassVar[tuple[str, ...]] = ("product",)
    imagined_votings: ClassVar[tuple[str, ...]] = ()
    chooses_blocks: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ("n_records",)


@dataclass(frozen=True)
class Auto(PlanKind):
    """Steps whose shares are fixed before data: the claim and public numbers say all of them."""

    name: ClassVar[str] = "auto"
    votings: ClassVar[tuple[str, ...]] = ("posterior",)
    imagined_votings: ClassVar[tuple[str, ...]] = ()
    votes_add: ClassVar[bool] = False
    chooses_strategies: ClassVar[bool] = False
    grows_trees: ClassVar[bool] = False
    is_sequence: ClassVar[bool] = True
    measured: ClassVar[str] = "tables of counts and residuals, one after another"
    parameters: ClassVar[tuple[str, ...]] = ("n_records", "delta")


@dataclass(frozen=True)
class Additive(Auto):
    """Planned by `ResidualPlan`."""

    name: ClassVar[str] = "additive"
    imagined_votings: ClassVar[tuple[str, ...]] = ("posterior",)


@dataclass(frozen=True)
class Labels(Auto):
    """Planned by `LabelPlan`."""

    name: ClassVar[str] = "labels"


@dataclass(frozen=True)
class Pool(Auto):
    """Planned by `PooledPlan`."""

    name: ClassVar[str] = "pool"


@dataclass(frozen=True)
class TwoStage(Auto):
    """Trees that are chosen, and a strategy for their leaves, which is planned after them."""

    name: ClassVar[str] = "two_stage"
    votings: ClassVar[tuple[str, ...]] = VOTINGS
    n_trees: ClassVar[int] = 8
    parameters: ClassVar[tuple[str, ...]] = ("n_trees", "max_depth", "strategy", "time_limit")


@dataclass(frozen=True)
class Prediction(PlanKind):
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
class Subsample(PlanKind):
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
        return self.voting == "hard"

    def vote_workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return ``Q Tᵀ``: the leaves that the queries reach."""
        forest = ensemble.forest
        asked = query_matrix(ensemble.view(queries), forest.domain)
        return Sparse(leaf_incidence(forest, asked))

    def table(
        self, ensemble: Ensemble, source: TableSource, coins: np.random.Generator
    ) -> CellCounts:
        shape = (ensemble.forest.n_leaves, source.n_classes)
        preference = coins.random(shape)  # before the coins: whatever the records
        counts = source.disjoint_leaves(ensemble, coins)
        return leaf_labels(counts, preference) if self.counts_votes else counts

    def mechanism(
        self, strategy: Strategy, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> Mechanism:
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
        measured = calibrate(workload, budget, neighboring=neighboring, law=law)
        return workload, one_query_at_a_time(measured, hard=self.counts_votes)


KINDS: tuple[type[PlanKind], ...] = (
    Training, PerTree, Disjoint, UniformLevels, GeometricLevels, OptimalLevels, Prediction,
    Subsample, PerQuery, Blocks, NaiveBayes, Auto, Additive, Labels, Pool, TwoStage,
)  # fmt: skip
"""Every kind of plan; the first of a name is that of its usual allocation."""

UNSAID: object = object()  # what stands for a word that was not said


def kinds_named(kind: object) -> tuple[type[PlanKind], ...]:
    """Return the kinds of a word, one for each allocation; ValueError if there is none."""
    word = one_word("kind", kind, tuple(WORDS))
    return tuple(one for one in KINDS if one.name == word)


def kind_of(kind: object, allocation: object = "matrix", voting: object = UNSAID) -> PlanKind:
    """Return the kind that a user's words name, of its usual voting where none is said.

    Raises ValueError if a word is unknown, or no word of this kind.

    >>> kind_of("matrix", "per_tree")
    PerTree(voting='hard')
    """
    able = kinds_named(kind)
    kinds = {one.allocation: one for one in able}
    if not isinstance(allocation, str) or allocation not in kinds:
        raise ValueError(
            f"allocation={short_repr(allocation)} with kind={short_repr(kind)}: expected one of "
            f"{', '.join(map(repr, kinds))}."
        )
    votings = able[0].votings
    rule = votings[0] if voting is UNSAID else voting
    if not isinstance(rule, str) or rule not in votings:
        raise ValueError(
            f"voting={short_repr(voting)} with kind={short_repr(kind)}: expected "
            f"{' or '.join(map(repr, votings))}."
        )
    return kinds[allocation](rule)
