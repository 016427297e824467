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

from dataclasses import dataclass, replace
from typing import Protocol

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


@dataclass(frozen=True, repr=False)
class PlanKind:
    """Measurement and answers of a kind of plan: one row for each word and allocation."""

    name: str  # the word of `mrf_matrix.base.kinds`
    votings: tuple[str, ...]  # rules that the kind knows, its default first
    # those that the objective "accuracy" can judge without data
    imagined_votings: tuple[str, ...] = ()
    voting: str = ""  # how answers become votes, one of `votings`; of a row of the table none
    allocation: str = "matrix"  # where the noise goes, in a user's words
    # whether answers are leaf values, of which votes are made afterwards; else they are votes
    releases_leaves: bool = False
    # whether votes are sums of answers, so that they have an expected error
    votes_add: bool = True
    is_disjoint: bool = False  # whether each record is counted in one tree only
    voting_is_measured: bool = False  # whether the table depends on the voting
    counts_votes: bool = False  # whether it holds one vote for each leaf in place of counts
    grows_trees: bool = True  # random trees; else its forests are tables of blocks
    chooses_blocks: bool = False  # whether a user, or the plan, chooses blocks
    # whether answers are the votes of given queries, planned when they come
    answers_queries: bool = False
    chooses_strategies: bool = True  # else the answers themselves are measured
    n_trees: int = 128  # usual trees
    time_limit: float = 8.0  # usual seconds of the search for a strategy
    # whether tables are measured one after another, the later ones chosen by earlier releases
    is_sequence: bool = False
    measured: str = "cells of the domain"  # what is measured, in the words of a report
    # what the classifier takes of a design, beside budget, relation and seed
    parameters: tuple[str, ...] = OF_TREES

    def __repr__(self) -> str:
        return f"PlanKind({self.name}, {self.allocation}, {self.voting})"

    @property
    def table_rows(self) -> str:
        """The rows of the private table: "cells" or "leaves"."""
        return "leaves" if self.is_disjoint else "cells"

    @property
    def measures_blocks(self) -> bool:
        """Whether tables of blocks are all that is measured."""
        return self.releases_leaves and not self.grows_trees

    def workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return what is asked of an ensemble's private table: leaves, or the queries' votes."""
        if self.releases_leaves:
            return path_matrix(ensemble.forest)
        return self.vote_workload(ensemble, queries)

    def vote_workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return the weight votes of queries: ``Q Tᵀ T``, the sums of the leaves they reach.

        Of a table of leaves whose votes are measured, ``Q Tᵀ``: the leaves that they reach.
        """
        forest = ensemble.forest
        asked = query_matrix(ensemble.view(queries), forest.domain)
        if self.is_disjoint and self.answers_queries:
            return Sparse(leaf_incidence(forest, asked))
        return prediction_workload(forest, asked)

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
        if not self.is_disjoint:
            return source.cells(ensemble.features)
        if not self.answers_queries:
            return source.disjoint_leaves(ensemble, coins)
        shape = (ensemble.forest.n_leaves, source.n_classes)
        preference = coins.random(shape)  # before the coins: whatever the records
        counts = source.disjoint_leaves(ensemble, coins)
        return leaf_labels(counts, preference) if self.counts_votes else counts

    def own_strategy(self, ensemble: Ensemble, norm: Norm) -> Strategy | None:
        """Return the strategy of a baseline that is one; None where it is searched for."""
        rule, levels, _ = self.allocation.partition("_levels")
        return level_strategy(ensemble.forest, norm, rule) if levels else None

    def mechanism(
        self, strategy: Strategy, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> Mechanism:
        """Return the noise that a strategy of the workload needs on this table."""
        made = calibrate(strategy, budget, neighboring=neighboring, workload=workload, law=law)
        return with_hard_votes(made) if self.counts_votes else made

    def baseline(
        self, workload: Operator, budget: Budget, neighboring: str, law: Law
    ) -> tuple[Operator, Mechanism]:
        """Return what is measured in place of a strategy, and its noise.

        Only of kinds that choose none (`chooses_strategies`).
        """
        if self.is_disjoint and self.releases_leaves:
            workload = Identity(workload.shape[0])
        made = calibrate(workload, budget, neighboring=neighboring, law=law)
        if self.answers_queries:
            made = one_query_at_a_time(made, hard=self.counts_votes)
        return workload, made


def record_coins(
    noise: object, budget: PureDP | ZCDP, seed: int | np.random.Generator | None
) -> np.random.Generator:
    """Return the generator that assigns records to trees: never seeded in a private release.

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


EVERY_LEAF = "every leaf of every tree"

TRAINING = PlanKind("matrix", NOISE_AWARE_VOTINGS, ("hard", "weight"), releases_leaves=True)
BATCH = PlanKind(
    "batch", ("weight",), ("weight",), answers_queries=True, time_limit=1.0, measured="votes",
    parameters=tuple(name for name in OF_TREES if name not in ("allocation", "voting")),
)  # fmt: skip
SUBSAMPLE = PlanKind(
    "subsample", ("weight", "hard"), ("weight", "hard"), answers_queries=True, is_disjoint=True,
    voting_is_measured=True, n_trees=16, time_limit=1.0, measured="votes",
)  # fmt: skip
TABLES = PlanKind(
    "tables", ("posterior",), ("posterior",), releases_leaves=True, votes_add=False,
    grows_trees=False, chooses_blocks=True, chooses_strategies=False, measured=EVERY_LEAF,
    parameters=("n_blocks", "blocks", "n_records"),
)  # fmt: skip
# steps whose shares are fixed before data: the claim and public numbers say all of them
AUTO = PlanKind(
    "auto", ("posterior",), votes_add=False, grows_trees=False, chooses_strategies=False,
    is_sequence=True, measured="tables of counts and residuals, one after another",
    parameters=("n_records", "delta"),
)  # fmt: skip

KINDS: tuple[PlanKind, ...] = (
    TRAINING,
    replace(TRAINING, allocation="per_tree", chooses_strategies=False, measured=EVERY_LEAF),
    replace(
        TRAINING, allocation="disjoint", chooses_strategies=False, is_disjoint=True,
        measured="every leaf, each record in one tree",
    ),
    replace(TRAINING, allocation="uniform_levels"),
    replace(TRAINING, allocation="geometric_levels"),
    replace(TRAINING, allocation="optimal_levels"),
    BATCH,
    SUBSAMPLE,
    replace(
        SUBSAMPLE, allocation="per_query", chooses_strategies=False, measured="every query"
    ),
    TABLES,
    replace(
        TABLES, name="naive_bayes", votings=("product",), imagined_votings=(),
        chooses_blocks=False, parameters=("n_records",),
    ),
    AUTO,
    replace(AUTO, name="additive", imagined_votings=("posterior",)),
    replace(AUTO, name="labels"),
    replace(AUTO, name="pool"),
    replace(
        AUTO, name="two_stage", votings=VOTINGS, n_trees=8,
        parameters=("n_trees", "max_depth", "strategy", "time_limit"),
    ),
)  # fmt: skip
"""Every kind of plan; the first of a name is that of its usual allocation."""

UNSAID: object = object()  # sentinel for an omitted argument


def kinds_named(kind: object) -> tuple[PlanKind, ...]:
    """Return the kinds of a word, one for each allocation; ValueError if there is none."""
    word = one_word("kind", kind, tuple(WORDS))
    return tuple(one for one in KINDS if one.name == word)


def kind_of(kind: object, allocation: object = "matrix", voting: object = UNSAID) -> PlanKind:
    """Return the kind that a user's words name, of its usual voting where none is said.

    Raises ValueError if a word is unknown, or no word of this kind.

    >>> kind_of("matrix", "per_tree")
    PlanKind(matrix, per_tree, hard)
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
    found = kinds[allocation]
    counts_votes = found.voting_is_measured and rule == "hard"
    return replace(found, voting=rule, counts_votes=counts_votes)
