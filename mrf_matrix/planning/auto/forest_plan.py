"""The forest that follows a private plan's choices; and a tree of labels that shares a budget."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

from mrf_matrix.base.checks import structure_generator
from mrf_matrix.base.provenance import NOTHING, ChosenTuple, Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests.ensembles import Block
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.labels.plan import label_signal
from mrf_matrix.mechanisms.budget import squared_factor
from mrf_matrix.planning.auto.rules import OF_RESIDUALS, POOLS
from mrf_matrix.planning.plans.block_design import choose_blocks
from mrf_matrix.planning.plans.block_part import check_block, tables_plan
from mrf_matrix.planning.plans.cost import (
    ArraySize,
    array_sizes,
    check_cost,
    largest_first,
    release_seconds,
)
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.release.step_table import StepTable, share_of
from mrf_matrix.residual import ResidualPlan, residual_plan
from mrf_matrix.residual.settings import Budget
from strategies.operators import MemoryCapError

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
    signal = label_signal(budget, n_records, neighboring)
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


ForestPlan = Plan | ResidualPlan | LabelPlan | PooledPlan


def forest_plan(
    plan: Any,
    kept: tuple[int, ...] | None,
    random_state: Any,
    provenance: Provenance = NOTHING,
) -> ForestPlan:
    """Return the plan of the forest that an `AutoPlan` takes, over attributes that were kept."""
    structure, measured = structure_generator(random_state), plan.measured
    known: Any = {"n_records": plan.n_records, "neighboring": plan.neighboring}
    if measured == "labels":
        return label_plan(plan.domain, plan.rest, structure, **known)
    if measured in POOLS:
        residuals = measured in OF_RESIDUALS
        return pooled_plan(plan.domain, plan.rest, random_state, residuals=residuals, **known)
    if kept is None and measured == "additive":
        even = plan.even_records
        return residual_plan(plan.domain, plan.rest, structure, even_records=even, **known)
    if kept is None and plan.even_records is not None:
        kept = tuple(range(plan.domain.n_attributes))
    blocks = None
    if kept is not None:
        blocks = ChosenTuple(blocks_of(plan, kept, structure), provenance)
    return tables_plan(plan.domain, plan.rest, structure, blocks=blocks, **known)


def tables_of(plan: Any, budget: Budget, blocks: list[Block] | None) -> Plan:
    """Return the plan of a posterior forest: of given blocks, or of those it would choose."""
    return tables_plan(
        plan.domain, budget, np.random.default_rng(0), n_records=plan.n_records,
        neighboring=plan.neighboring, blocks=blocks,
    )  # fmt: skip


def blocks_of(plan: Any, chosen: tuple[int, ...], structure: np.random.Generator) -> list[Block]:
    """Return the blocks of chosen attributes: decided by public numbers and the choices.

    Attributes stand alone, as was checked before, where a design for few records does not fit.
    """
    domain, budget = plan.domain, plan.rest
    design = choose_blocks(
        [domain.sizes[i] for i in chosen],
        domain.n_classes,
        budget,
        plan.even_records or plan.n_records,
        structure,
        squared_factor=squared_factor(plan.neighboring, budget.norm, nonnegative=True),
    )
    blocks: list[Block] = [tuple(chosen[i] for i in block) for block in design.blocks]
    try:
        for block in blocks:
            check_block(domain, block, domain.n_classes)
        check_cost(tables_of(plan, budget, blocks))
    except MemoryCapError:
        return single_attributes(plan, chosen)
    return blocks


def single_attributes(plan: Any, attributes: Iterable[int]) -> list[Block]:
    """Return a block for each attribute of more than one code."""
    return [(i,) for i in attributes if plan.domain.sizes[i] > 1]
