"""The plan of a tree of labels beside tables, which share one budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from mrf_matrix.base.checks import structure_generator
from mrf_matrix.domain import Domain
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.mechanisms.measurement.mechanism import choice_signal
from mrf_matrix.planning.plans.block_part import tables_plan
from mrf_matrix.planning.plans.cost import (
    ArraySize,
    array_sizes,
    largest_first,
    release_seconds,
)
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.release.step_table import StepTable, share_of
from mrf_matrix.residual import ResidualPlan, residual_plan
from mrf_matrix.residual.step import ASSUMED_RECORDS, Budget

LARGEST_SHARE, CLEAR_SIGNAL, CLEAR_OF_SEVERAL = Fraction(1, 2), 500, 2000
"""Of the budget, for the tree, and the signal from which more gains it little; the second of
several classes. With .35 or .65 at small signals, and with .15 or .5 at large ones, pools of two
classes were up to a point behind; with 1000 those of several were .6 behind."""


SMALLEST_SHARE = Fraction(1, 10)


@dataclass(frozen=True, eq=False)
class PooledPlan(StepTable):
    """The plan of a tree of labels beside tables, decided without data."""

    budget: Budget  # the whole
    tree: LabelPlan
    tables: Plan | ResidualPlan  # of blocks measured at once, or of residuals
    delta: float = 0.0  # the δ that the claim is stated for; 0 for none

    @property
    def title(self) -> str:  # type: ignore[override]  # of the other plans one constant each
        beside = "residuals" if isinstance(self.tables, ResidualPlan) else "tables"
        return f"tree of labels beside {beside}"

    @property
    def domain(self) -> Domain:
        return self.tree.domain

    @property
    def neighboring(self) -> str:
        return self.tree.neighboring

    @property
    def n_records(self) -> int | None:
        return self.tree.n_records

    @property
    def steps(self) -> tuple[LabelPlan, Plan | ResidualPlan]:
        return self.tree, self.tables

    def to_dict(self) -> dict[str, object]:
        return {
            "kind": "pool",
            **self.claim_fields(),
            "tree": self.tree.to_dict(),
            "tables": self.tables.to_dict(),
        }

    def _with_budget(self, budget: Budget, delta: float) -> "PooledPlan":
        def rescale(part: Any) -> Any:
            return part._with_budget(share_of(part.budget, self.budget, budget), part.delta)

        return PooledPlan(budget, rescale(self.tree), rescale(self.tables), delta)

    def __repr__(self) -> str:
        return f"PooledPlan({self.tree!r}, {self.tables!r}, {self.budget!r})"


@array_sizes.register
def _(plan: PooledPlan) -> tuple[ArraySize, ...]:
    return largest_first(array_sizes(plan.tree) + array_sizes(plan.tables))


@release_seconds.register
def _(plan: PooledPlan) -> float:
    return release_seconds(plan.tree) + release_seconds(plan.tables)


def pooling_budget(budgets: Sequence[Budget]) -> Budget:
    """Return the budget of the law that pools, of those that make a claim: zCDP's if there is one.

    Tables gain more by Gaussian noise than the tree loses.
    """
    return next((one for one in budgets if one.norm == "l2"), budgets[0])


def split_budget(
    budget: Budget, n_records: int | None, neighboring: str, n_classes: int = 2
) -> tuple[Budget, Budget]:
    """Return the budgets of the tree and of the tables, which add up to the whole exactly.

    `n_records`: where it is public; `neighboring` {"add_remove", "replace_one"}.

    >>> from mrf_matrix.mechanisms import PureDP
    >>> split_budget(PureDP(1), 2000, "add_remove")
    (PureDP(epsilon=0.25), PureDP(epsilon=0.75))
    >>> split_budget(PureDP(1), 2000, "add_remove", n_classes=5)
    (PureDP(epsilon=0.5), PureDP(epsilon=0.5))
    """
    clear = CLEAR_SIGNAL if n_classes <= 2 else CLEAR_OF_SEVERAL
    signal = choice_signal(budget, n_records or ASSUMED_RECORDS, neighboring)
    part = clear / max(signal, clear) if isfinite(signal) else 0.0
    power = 1 if budget.parameter == "epsilon" else 2  # rates are roots of a zCDP budget
    wanted = max(Fraction(round(part**power * 1000), 1000), SMALLEST_SHARE)
    share = min(LARGEST_SHARE, wanted)
    return budget * share, budget * (1 - share)


def pooled_plan(
    domain: Domain,
    budget: Budget,
    random_state: Any,
    *,
    n_records: int | None,
    neighboring: str,
    residuals: bool,
    delta: float = 0.0,
) -> PooledPlan:
    """Return the plan of a tree and tables, each with a structure of its own, without data.

    `residuals`: whether the tables are of residuals; other parameters as `label_plan`.
    """
    of_tree, of_tables = split_budget(budget, n_records, neighboring, domain.n_classes)
    known: Any = {"n_records": n_records, "neighboring": neighboring}
    tree = label_plan(domain, of_tree, structure_generator(random_state), **known)
    plan = residual_plan if residuals else tables_plan
    tables = plan(domain, of_tables, structure_generator(random_state), **known)
    return PooledPlan(budget, tree, tables, delta)
