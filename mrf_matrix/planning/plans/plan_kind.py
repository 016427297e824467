"""What is asked of a plan: its kind, and budget, noise, objective and search of its measurement.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.base.checks import one_word, short_repr
from mrf_matrix.base.kinds import KINDS as WORDS
from mrf_matrix.compilation import leaf_incidence, path_matrix, prediction_workload, query_matrix
from mrf_matrix.error.expected_errors import checked_targets
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.mechanisms import (
    ZCDP,
    BudgetError,
    CellCounts,
    LeafCounts,
    Mechanism,
    NoiseLaw,
    PureDP,
    calibrate,
)
from mrf_matrix.mechanisms.budget import SHARE_RULES, checked_neighboring
from mrf_matrix.planning.plans.baselines import level_strategy, one_query_at_a_time, with_hard_votes
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, VOTINGS, leaf_labels
from strategies import Strategy, families
from strategies.operators import Identity, Norm, Operator, Sparse
from strategies.problem.problem import OBJECTIVES, Aim, Objective, checked_weights
from strategies.search.select import checked_time_limit

Features = tuple[int, ...]
FAMILY_NAMES = tuple(families())


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
    votes_add: bool = True  # whether votes are sums of answers: then their error is known
    is_disjoint: bool = False  # whether each record is counted in one tree only
    voting_is_measured: bool = False  # whether the table depends on the voting
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

    @property
    def counts_votes(self) -> bool:
        """Whether the table holds one vote for each leaf in place of counts."""
        return self.voting_is_measured and self.voting == "hard"

    def __repr__(self) -> str:
        return f"PlanKind({self.name}, {self.allocation}, {self.voting})"

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
OF_STEPS = PlanKind(
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
    OF_STEPS,
    replace(OF_STEPS, name="additive", imagined_votings=("posterior",)),
    replace(OF_STEPS, name="labels"),
    replace(OF_STEPS, name="pool"),
    replace(
        OF_STEPS, name="two_stage", votings=VOTINGS, n_trees=8,
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
    return replace(kinds[allocation], voting=rule)


# How it is measured ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowObjective:
    """An objective over the rows of a workload."""

    objective: Objective = "total"
    weights: Array | None = None  # (q,): of the rows' squared errors; all 1 where None
    # (q,): for "max": whose errors are added up; every row its own group where None
    groups: Longs | None = None
    workload: Operator | None = None  # (q, n): whose rows these are; the answers where None
    # (q,): largest root mean squared error of every row: the weights are their inverse squares
    limits: Array | None = None

    @classmethod
    def of(cls, rows: int, objective: object, weights: object, groups: object) -> "RowObjective":
        """Validate objective, weights and groups for so many answers."""
        aim = Aim.of(Identity(rows), objective, groups)
        return cls(
            aim.objective, None if weights is None else checked_weights(weights, rows), aim.groups
        )

    @property
    def is_plain(self) -> bool:
        told = (self.weights, self.groups, self.workload)
        return self.objective == "total" and all(one is None for one in told)

    @property
    def words(self) -> dict[str, Any]:
        """The same for `strategies.select`."""
        return {"objective": self.objective, "weights": self.weights, "groups": self.groups}

    def value(self, errors: Array) -> float:
        """Return the objective of the rows' squared errors, shape (q,).

        >>> RowObjective("max", weights=np.array([1.0, 3.0])).value(np.array([2.0, 1.0]))
        3.0
        """
        weighed = errors if self.weights is None else self.weights * errors
        return Aim(self.objective, self.groups).value(weighed)

    def slice_rows(self, start: int, stop: int) -> "RowObjective":
        """Return the objective of some of the rows, one after the other."""
        mine = slice(start, stop)
        return replace(
            self,
            weights=None if self.weights is None else self.weights[mine],
            groups=None if self.groups is None else self.groups[mine],
        )

    def merge_equal_rows(self, which: Longs, often: Longs) -> "RowObjective":
        """Return the objective of rows of which some were given several times.

        Their errors add up in a total and within a group; where every row is its own group, the
        largest weight counts.

        `which` (q,): the distinct row of each that was given; `often` (r,): how often each distinct
        row was given.

        Raises ValueError if equal rows are in different groups.
        """
        if (often == 1).all():  # they stand in the order in which they were given
            return self
        given = np.ones(len(which)) if self.weights is None else self.weights
        weights: Array = np.zeros(len(often))
        if self.objective == "total" or self.groups is not None:
            np.add.at(weights, which, given)
        else:
            np.maximum.at(weights, which, given)
        if self.limits is not None:
            limits: Array = np.full(len(often), np.inf)
            np.minimum.at(limits, which, self.limits)
            return replace(self, weights=weights, limits=limits)
        if self.groups is None:
            return replace(self, weights=weights)
        groups = np.empty(len(often), dtype=np.int64)
        groups[which] = self.groups
        if (groups[which] != self.groups).any():
            raise ValueError("groups tells equal queries apart: expected them in one group.")
        return replace(self, weights=weights, groups=groups)


AUTO = "auto"
"""What is left to the kind of plan."""

LEAVES, VOTES = "leaves", "votes"  # what strategies of matrix forests are chosen for


@dataclass(frozen=True, eq=False)
class MeasurementSpec:
    """Budget, noise, objective and search of a plan: all but the forests' design."""

    budget: Budget  # of the whole plan
    neighboring: str = "add_remove"
    # Of the ensembles; equal where None. The rules are those of
    # `mrf_matrix.mechanisms.budget.budget_shares`.
    budget_shares: str | Sequence[float] | None = None
    strategy: object = "auto"  # a family's name, or one strategy for each ensemble
    # seconds of the search for each strategy; "auto" for what the kind usually takes
    time_limit: float | str = AUTO
    n_jobs: int | None = None  # processes that search
    # objective, weights, groups: what is made small, see `RowObjective`
    objective: str = "total"
    weights: object = None
    groups: object = None
    # of "matrix": whether strategies are chosen for the leaves, ``T``, or for the weight votes of
    # all cells, ``TᵀT``; "auto": for votes under Gaussian noise, where the paths are the optimum
    optimise_for: str = AUTO
    # largest root mean squared error of every answer; then the worst of them, each over its target,
    # is made small
    target_rms: ArrayLike | None = None
    law: type[NoiseLaw] | None = None  # noise of one's own, see `mrf_matrix.mechanisms.calibrate`
    delta: float = 0.0  # the δ that the claim is stated for, where the budget is zCDP; 0 for none

    def check(self) -> None:
        """Refuse what no plan could spend, whatever its forests."""
        checked_neighboring(self.neighboring)
        if not isinstance(self.time_limit, str):
            checked_time_limit(self.time_limit)
        elif self.time_limit != AUTO:
            raise ValueError(
                f"time_limit={short_repr(self.time_limit)}: expected seconds, or 'auto'."
            )
        check_strategy_names(self.strategy)
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective={short_repr(self.objective)}: expected 'total' or 'max'.")
        if self.optimise_for not in (AUTO, LEAVES, VOTES):
            raise ValueError(
                f"optimise_for={short_repr(self.optimise_for)}: expected 'auto', 'leaves' or "
                f"'votes'."
            )
        told = [name for name in ("weights", "groups") if getattr(self, name) is not None]
        told += ["objective"] * (self.objective != OBJECTIVES[0])
        other = "target_rms" if self.target_rms is not None else "optimise_for='votes'"
        if told and (self.target_rms is not None or self.optimise_for == VOTES):
            raise ValueError(
                f"{', '.join(told)} with {other}, which says what is made small: expected one of "
                f"them. Leave the other out."
            )

    def aim(self, rows: int) -> RowObjective:
        """Return what is made small of so many answers.

        Raises ValueError, TypeError if weights, groups or targets are not one for each.
        """
        if self.target_rms is None:
            return RowObjective.of(rows, self.objective, self.weights, self.groups)
        limits = checked_targets(self.target_rms, rows, "target_rms")
        return RowObjective("max", (limits.min() / limits) ** 2, limits=limits)

    def shares(self, count: int) -> tuple[Budget, ...]:
        """Return the budget of each ensemble: equal ones where a rule will share it.

        Raises BudgetError if there is not one share for each ensemble, or one is not positive.
        """
        given = self.budget_shares
        if given is None or (isinstance(given, str) and given in SHARE_RULES):
            return self.budget.split(count)
        if isinstance(given, str) or np.ndim(given) != 1 or len(given) != count:
            raise BudgetError(
                f"budget_shares={short_repr(given)} for {count} ensembles: expected one positive "
                f"number for each, or {', '.join(map(repr, SHARE_RULES))}."
            )
        return self.budget.split(list(given))


def check_strategy_names(strategy: object) -> None:
    """Refuse names that are no strategy family's."""
    for one in strategy if isinstance(strategy, list | tuple) else [strategy]:
        if isinstance(one, str) and one not in ("auto", *FAMILY_NAMES):
            raise ValueError(
                f"strategy={short_repr(one)}: expected 'auto' or one of {', '.join(FAMILY_NAMES)}, "
                f"or a strategy matrix."
            )


def is_auto(asked: object) -> bool:
    return isinstance(asked, str) and asked == "auto"
