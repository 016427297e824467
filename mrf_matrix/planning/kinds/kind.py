"""The protocol of a kind of plan, and the kinds of matrix forests.

A kind says, of public things alone, which workload is asked of which private table, how far one
record moves what is measured, and whether the answers are leaf values or votes. A user's words
(kind, allocation, voting) are looked up once, in `mrf_matrix.planning.kinds.words`.

They measure leaf values of public forests, by the matrix mechanism or a baseline:

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
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array as Array
from mrf_matrix.base.arrays import Codes as Codes
from mrf_matrix.compilation import path_matrix, prediction_workload, query_matrix
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    LeafCounts,
    Mechanism,
    NoiseLaw,
    PureDP,
    calibrate,
)
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, record_blocks
from strategies import Strategy
from strategies.operators import Identity, Norm, Operator

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
class Kind:
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
    # whether its forests are random trees; else they are tables of blocks
    grows_trees: ClassVar[bool] = True
    # whether the blocks are a user's to choose, or the plan's
    chooses_blocks: ClassVar[bool] = False
    # whether answers are the votes of given queries, planned when they come
    answers_queries: ClassVar[bool] = False
    # whether a strategy is measured; else the answers themselves are
    chooses_strategies: ClassVar[bool] = True
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
        return ensemble.view(codes), ensemble.forest.domain.sizes

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
        """Return the strategy that the kind itself names, None where one is searched or given."""
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
class Training(Kind):
    """A strategy for the leaves of every ensemble."""

    name: ClassVar[str] = "matrix"
    votings: ClassVar[tuple[str, ...]] = NOISE_AWARE_VOTINGS
    imagined_votings: ClassVar[tuple[str, ...]] = ("hard", "weight")
    releases_leaves: ClassVar[bool] = True

    def workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return T: one row a leaf."""
        return path_matrix(ensemble.forest)


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
