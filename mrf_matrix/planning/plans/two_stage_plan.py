"""The plan of a two-stage forest: a structure that is chosen privately, and its leaves after it."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from mrf_matrix.base.checks import one_word
from mrf_matrix.domain import Domain
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.forests.growth.growth import check_probability
from mrf_matrix.forests.growth.private import GRID
from mrf_matrix.mechanisms import neighboring_factor
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import MeasurementSpec
from mrf_matrix.release.plan import Budget, Deferred
from mrf_matrix.release.step_table import StepTable, share_of
from mrf_matrix.voting.voting import VOTINGS, Voting

PARTS = ("coins", "all")


@dataclass(frozen=True)
class GrowthStep:
    """All choices of private trees: one mechanism, whose nodes, levels and trees compose."""

    measured: str
    trees: PrivateMultinomialTrees  # of the step's share
    kind: ClassVar[str] = "growth"
    is_choice: ClassVar[bool] = True
    column_sum: ClassVar[int] = 1  # one record more moves a score in records by one at most

    @property
    def budget(self) -> Budget:
        return self.trees.rates.budget

    @property
    def neighboring(self) -> str:
        return self.trees.neighboring

    @property
    def sensitivity(self) -> float:
        """How far one record moves a score: in records, or as a share of the best one's lead."""
        return neighboring_factor(self.neighboring)

    @property
    def choice_rate(self) -> float:
        """By what the log probability of a cut falls for every unit of score."""
        growth = self.trees.growth
        units = GRID if growth.score.kind == "normalized" else 1
        return float(growth.cut_rate.value) * units


@dataclass(frozen=True, eq=False, repr=False)
class TwoStagePlan(StepTable):
    """One budget for structure and leaf counts: records and share of each stage."""

    title = "two-stage forest"

    domain: Domain
    budget: Budget  # of both stages
    trees: PrivateMultinomialTrees  # of the structure's share
    # "coins": each record belongs to one stage, by its own coin, so the stages compose in parallel:
    # both spend the whole; "all": both see all records, and their budgets add
    parts: str
    # how likely a record goes to the structure ("coins"), or the structure's share of the budget
    structure_share: float
    voting: Voting
    delta: float
    n_records: int | None
    measuring: MeasurementSpec  # how a strategy is chosen for the leaves; that of a file is given
    random_state: Any = None  # seeds the choice
    method: str | None = None  # the family of a given strategy, in the words of a file
    followed: Plan | None = None  # of the leaves, once the structure is chosen

    @property
    def neighboring(self) -> str:
        return self.trees.neighboring

    @property
    def partition_share(self) -> float | None:
        """How likely a record is dealt to the structure; None where both stages see all."""
        return self.structure_share if self.parts == "coins" else None

    @property
    def structure(self) -> Budget:
        return self.steps[0].budget

    @property
    def counts(self) -> Budget:
        return self.steps[1].budget

    @cached_property
    def steps(self) -> tuple[GrowthStep, Deferred]:
        """All choices, and the share for what they pick."""
        grown, counts = GrowthStep(words_of(self.trees), self.trees), self.measuring.budget
        return grown, Deferred(
            "the leaf counts of these trees", counts, self.neighboring, self.trees.n_trees
        )

    def _with_budget(self, budget: Budget, delta: float) -> "TwoStagePlan":
        structure, counts = (share_of(one.budget, self.budget, budget) for one in self.steps)
        trees, measuring = (
            with_budget(self.trees, structure),
            replace(self.measuring, budget=counts),
        )
        return replace(
            self, budget=budget, trees=trees, measuring=measuring, delta=delta, followed=None
        )

    def __repr__(self) -> str:
        sign = "+" if self.parts == "all" else "and, on other records,"
        return (
            f"TwoStagePlan({self.budget} = {self.structure} structure {sign} {self.counts} counts)"
        )


def shares_of(total: Budget, parts: object, structure_share: float) -> tuple[Budget, Budget]:
    """Return what structure and counts spend of a budget.

    Raises ValueError if `parts` is unknown or the share is not strictly between 0 and 1.
    """
    one_word("parts", parts, PARTS)
    check_probability("structure_share", structure_share)
    if structure_share in (0, 1):
        raise ValueError(
            f"structure_share={structure_share}: expected more than 0 and less than 1; both "
            f"stages need records and budget."
        )
    if parts == "coins":
        return total, total
    share = Fraction(repr(float(structure_share)))
    structure, counts = total.split([share, 1 - share])
    return structure, counts


def two_stage_plan(
    domain: Domain,
    budget: Budget,
    trees: PrivateMultinomialTrees,
    *,
    parts: object = "coins",
    structure_share: float = 0.3,
    measuring: MeasurementSpec,
    random_state: Any,
    voting: object,
    delta: float,
) -> TwoStagePlan:
    """Return the plan of both stages, without data.

    `trees`: whatever they spend, here they get their share; `measuring`: likewise.

    Raises ValueError if a parameter is invalid.
    """
    structure, counts = shares_of(budget, parts, structure_share)
    measuring = replace(measuring, budget=counts)
    measuring.check()
    return TwoStagePlan(
        domain,
        budget,
        with_budget(trees, structure),
        one_word("parts", parts, PARTS),
        structure_share,
        one_word("voting", voting, VOTINGS),
        delta,
        None,
        measuring,
        random_state,
    )


def majority_trees(n_trees: int, max_depth: int, neighboring: str) -> PrivateMultinomialTrees:
    """Return the trees that `MultinomialMatrixForestClassifier` grows unless told otherwise."""
    return PrivateMultinomialTrees(
        1, n_trees, max_depth, score="majority", disjoint=True, neighboring=neighboring
    )


def with_budget(trees: PrivateMultinomialTrees, budget: Budget) -> PrivateMultinomialTrees:
    amount: dict[str, Any] = {budget.parameter: budget.amount}
    return replace(trees, **{"epsilon": None, "delta": 0, "rho": None} | amount)


def words_of(trees: PrivateMultinomialTrees) -> str:
    return f"splits of {trees.n_trees} trees of depth {trees.max_depth} by {trees.score} scores"
