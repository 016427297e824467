"""The plan of a `PrivateForestClassifier`: the rule that holds, what it hangs on, and its forest.

It is planned again once a private choice has said how rare the rarer of two classes is.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from mrf_matrix.base.checks import checked_n_records, name_few, structure_generator
from mrf_matrix.base.provenance import NOTHING, ChosenTuple, Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.domain.attribute import MOST_BINS
from mrf_matrix.forests.ensembles import Block
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.mechanisms.budget import checked_neighboring, claiming_budgets
from mrf_matrix.mechanisms.measurement.mechanism import choice_epsilon
from mrf_matrix.planning.auto.choices import (
    Screening,
    budget_after,
    deferred_step,
    plan_balance,
)
from mrf_matrix.planning.auto.pooled_plan import PooledPlan, pooled_plan, pooling_budget
from mrf_matrix.planning.auto.rules import (
    FORESTS,
    NOISES,
    OF_RESIDUALS,
    POOLS,
    RULES,
    Facts,
    Measured,
    Rule,
    budget_of_tables,
    neighbour,
    row_for,
    signal_text,
)
from mrf_matrix.planning.plans.block_part import blocks_of_kept, tables_plan
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.signal_to_noise import Verdict, verdict_of
from mrf_matrix.release.step_table import Amount, AnnouncedStep, StepTable
from mrf_matrix.residual.sequence import ResidualPlan, residual_plan, sequence_budget
from mrf_matrix.residual.step import Budget, ResidualStep

ForestPlan = Plan | ResidualPlan | LabelPlan | PooledPlan


@dataclass(frozen=True)
class AutoPlan(StepTable):
    """The kind of forest and the rule that takes it, decided without data."""

    facts: Facts  # the public numbers that decided
    row: int  # of the table of rules, `RULES`, from 0
    share: Budget  # the whole, or what the choice of how rare the rarer class is left
    measured: Measured  # where attributes are screened first: if all of them are kept
    delta: float = 0.0  # the δ that the claim is stated for, where the budget is zCDP
    screening: Screening | None = None  # how attributes are chosen first
    # what was not considered, because data that are counted as they pass cannot serve it
    left_out: str | None = None
    # the choice of how rare the rarer of two classes is, which comes first; what follows is planned
    # anew by `plan_after_imbalance`
    balance: ResidualStep | None = None
    # the plan before that choice, where it was made: it has the whole budget
    announced: "AutoPlan | None" = None
    # records of even classes that tell as much, as that choice says
    even_records: int | None = None
    # attributes of fewer codes here than in the domain that was given
    coarser: tuple[str, ...] = ()
    # seed of the public structure of what follows, which the table of steps is told by
    random_state: Any = field(default=None, compare=False, repr=False)

    @property
    def rule(self) -> Rule:
        """The row of the table."""
        return RULES[self.row]

    @property
    def domain(self) -> Domain:
        """Over which is measured and predicted."""
        return self.facts.domain

    @property
    def neighboring(self) -> str:
        """The neighbouring relation."""
        return self.facts.neighboring

    @property
    def n_records(self) -> int | None:
        """Where it is public."""
        return (self.announced or self).facts.n_records

    @property
    def name(self) -> str:
        """The kind of forest."""
        kind = self.rule.name
        return f"{kind} with {NOISES[self.share.norm]} noise" if self.delta else kind

    @property
    def title(self) -> str:  # type: ignore[override]  # of the other plans one constant each
        return f"private forest ({self.name})"

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return (self.announced or self).share

    @property
    def choices(self) -> tuple[ResidualStep, ...]:
        """Every choice before the forest that has been planned, in the order they are made."""
        first = None if self.announced is None else self.announced.balance
        later = () if self.screening is None else self.screening.steps
        return later if first is None else (first, *later)

    @property
    def makes_choices(self) -> bool:
        """Whether anything is chosen from the records before the forest."""
        return self.balance is not None or self.screening is not None

    @property
    def takes_records(self) -> bool:
        """Whether records are needed by themselves, for this forest or one that may follow."""
        later = self.balance is not None and self.left_out is None
        return later or self.measured in OF_RESIDUALS

    @property
    def is_rare(self) -> bool:
        """Whether an earlier choice said that one class is rare."""
        return self.even_records not in (None, self.n_records)

    @cached_property
    def steps(self) -> tuple[Any, ...]:
        """Choices, and the forest or the share for it, also of one that its fit will refuse."""
        if self.announced is not None:
            return self.announced.steps
        screening = self.screening if self.balance is None else None
        first = () if self.balance is None else (self.balance,)
        choices = first if screening is None else screening.steps
        if not choices:
            with suppress(ValueError, MemoryError):
                return (self.forest,)
        return (*choices, deferred_step(self, choices, self.screening))

    @property
    def verdict(self) -> Verdict:
        """Signal and noise of the whole budget, whatever is chosen on the way."""
        return verdict_of(self)

    @property
    def budget_after_balance(self) -> Budget:
        """The budget after the choice of how rare the rarer class is, where it is made."""
        return budget_after([] if self.balance is None else [self.balance], self.share)

    @property
    def rest(self) -> Budget:
        """The budget of the forest, after screening."""
        return budget_after(() if self.screening is None else self.screening.steps, self.share)

    @cached_property
    def forest(self) -> ForestPlan:
        """The plan of the forest of all attributes; after a choice of balance that of even classes.

        Without an integer `random_state` its public structure is another one than the fit's.
        """
        seed = self.random_state if isinstance(self.random_state, int) else 0
        return forest_plan(self._even_plan, None, seed)

    @property
    def _even_plan(self) -> "AutoPlan":
        return self if self.balance is None else plan_after_imbalance(self, self.n_records or 0)

    @property
    def announced_steps(self) -> tuple[AnnouncedStep, ...]:
        """Every choice, and the steps of the forest; one for all where attributes are screened."""
        plan = self._even_plan
        choices = [AnnouncedStep.of(one) for one in plan.choices]
        if (screening := plan.screening) is None:
            return (*choices, *self.forest.announced_steps)
        what = f"tables of the {len(screening.choices)} attributes that are kept"
        if screening.enough is not None:
            what += f", or a {FORESTS[plan.measured]} of all"
        return (*choices, AnnouncedStep(what, plan.rest))

    def _move_to_claim(self, epsilon: Amount, delta: float | Fraction, rho: Amount) -> "AutoPlan":
        """Return what the rules take at another budget: it may be another kind."""
        facts = (self.announced or self).facts
        found = auto_plan(
            facts.domain, claiming_budgets(epsilon, delta, rho), n_records=facts.n_records,
            neighboring=facts.neighboring, delta=float(delta), records=facts.records,
            tables=facts.tables, random_state=self.random_state,
        )  # fmt: skip
        return replace(found, coarser=self.coarser)

    @property
    def reason(self) -> str:
        """Why, in a few sentences."""
        rule = self.rule
        facts = self.facts.in_words("records of even classes" if self.is_rare else "records")
        told = (
            f"Chosen: {self.name}, for {facts}. This is row {self.row + 1} of the table of rules "
            f"(`RULES` of mrf_matrix.planning, printed in docs/private/choices.md): "
            f"{rule.condition}. The kind's lead on public data sets, in percentage points of right "
            f"labels: {rule.worth}."
        )
        if (below := self.below) is not None:
            told += f" With a signal up to {signal_text(below[0])}: {below[1]}."
        if (above := self.above) is not None:
            told += f" With a signal from {signal_text(above[0])}: {above[1]}."
        if self.even_records is not None and self.measured in POOLS:
            told += " A private choice of how rare the rarer class is left the tree: not very rare."
        elif self.even_records is not None:
            told += (
                f" Planned as for {self.even_records} records of even classes, after a private "
                f"choice of how rare the rarer class is."
            )
        elif self.balance is not None:
            told += " What follows a private choice of how rare the rarer class is may differ."
        if self.n_records is None:
            told += " Residuals and trees of labels need a public n_records."
        if not self.verdict.ok:
            told += f" Signal and noise: {self.verdict}."
        if self.coarser:
            told += (
                f" Neighbouring codes of {name_few(self.coarser)} are counted as one, in at most "
                f"{MOST_BINS} bins."
            )
        if self.left_out is not None:
            told += (
                f" Records are counted as they pass, without {self.left_out}: give n_records, "
                f"where so many fit in memory, for all kinds."
            )
        return told

    @property
    def below(self) -> tuple[float, str] | None:
        """The signal at which another kind ends, and that kind; None where none is near."""
        return neighbour(self.facts, above=False)

    @property
    def above(self) -> tuple[float, str] | None:
        """The signal from which there is another kind, and that kind; None where none is near."""
        return neighbour(self.facts, above=True)

    def to_dict(self) -> dict[str, object]:
        """Return the plan's figures as plain values, ready for JSON."""
        below, above = self.below, self.above
        known = self.n_records is not None and not self.facts.budget.is_infinite
        return {
            "kind": "auto",
            **self.claim_fields(),
            "cells": self.domain.size,
            "classes": self.domain.n_classes,
            "records": self.n_records,
            "coarser": list(self.coarser),
            "forest": self.name,
            "measured": self.measured,
            "screened": self.screening is not None,
            "signal": self.facts.signal if known else None,
            "row": self.row + 1,
            "rule": self.rule.to_dict(),
            "below": None if below is None else {"forest": below[1], "up_to": below[0]},
            "above": None if above is None else {"forest": above[1], "from": above[0]},
            "reason": self.reason,
        }

    def __str__(self) -> str:
        return f"{self.headline}\n{self.reason}\n{self._step_lines()}"


def auto_plan(
    domain: Domain,
    budgets: Sequence[Budget],
    *,
    n_records: int | None,
    neighboring: str = "add_remove",
    delta: float = 0.0,
    records: bool = True,
    tables: bool = True,
    random_state: Any = None,
) -> AutoPlan:
    """Return the kind of forest that the table of rules takes, without data.

    Parameters
    ----------
    domain : Domain
        With classes. Neighbouring codes of its long ordered attributes are planned as one: see
        `Domain.coarser`.
    budgets : sequence of PureDP or ZCDP
        The same claim by different noise, such as Laplace noise of ε and Gaussian noise of the ρ
        that implies (ε, δ).
    n_records : int or None
        Where it is public. Else neither residuals nor trees are considered.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    delta : float, default=0
    records, tables : bool, default=True
        Whether the records themselves will be there, which residuals need, and tables of whatever
        attributes are asked for, which screening and trees need.
    random_state : optional
        Seed of the public structure of the forest that follows.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP
    >>> domain = Domain.from_sizes([4] * 10, n_classes=2)
    >>> auto_plan(domain, [PureDP(1)], n_records=100_000).name
    'residual forest'
    """
    relation = checked_neighboring(neighboring)
    given, domain = domain, domain.coarser()
    budget = budget_of_tables(domain, budgets, n_records, relation)
    choosing = max(budgets, key=choice_epsilon)
    facts = Facts(domain, budget, choosing, n_records, relation, records, tables)
    made = _plan_by_rules(facts, delta)
    if tables:
        balance = plan_balance(domain, made.share, n_records=n_records, neighboring=relation)
        made = replace(made, balance=balance)
    if not records:
        made = replace(made, left_out="residuals" if tables else "residuals and screening")
    sizes = zip(given.names, given.sizes, domain.sizes, strict=True)
    coarser = tuple(name for name, before, after in sizes if after < before)
    return replace(made, coarser=coarser, random_state=random_state)


def _plan_by_rules(facts: Facts, delta: float) -> AutoPlan:
    row = row_for(facts)
    rule, share, measured = RULES[row], facts.budget, RULES[row].measured
    if rule.screened or rule.measured == "labels":
        share = facts.choosing
    screening = facts.screening if rule.screened else None
    if screening is not None and screening.enough is not None and facts.suits_residuals:
        measured = "additive"
    return AutoPlan(facts, row, share, measured, delta, screening)


def plan_after_imbalance(plan: AutoPlan, even: int) -> AutoPlan:
    """Return what follows the choice of how rare the rarer class is, with what that choice left.

    A pool stays: the whole budget decided on it. Of a rare class each code says the usual one, so
    that no score stands out: nothing is screened, and less is measured of the kind announced.

    `plan`: the one that announced it; `even`: records of even classes that tell as much.
    """
    assert plan.balance is not None
    is_rare, left = even < (plan.n_records or 0), plan.budget_after_balance
    if plan.measured in POOLS and not is_rare:
        follows = replace(plan, share=left)
    else:
        facts = replace(
            plan.facts, budget=left, choosing=left, n_records=even, trees=False,
            tables=plan.screening is not None and not is_rare,
            records=plan.facts.records and (not is_rare or plan.measured in OF_RESIDUALS),
        )  # fmt: skip
        follows = replace(_plan_by_rules(facts, plan.delta), left_out=plan.left_out)
    return replace(
        follows, balance=None, announced=plan, even_records=even, coarser=plan.coarser,
        random_state=plan.random_state,
    )  # fmt: skip


def forest_plan(
    plan: AutoPlan,
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
        planned = plan.even_records or plan.n_records
        chosen = blocks_of_kept(
            plan.domain, plan.rest, kept, structure, planned_records=planned, **known
        )
        blocks = ChosenTuple(chosen, provenance)
    return tables_plan(plan.domain, plan.rest, structure, blocks=blocks, **known)


def plan_of_tables(plan: AutoPlan, budget: Budget, blocks: list[Block] | None) -> Plan:
    """Return the plan of a posterior forest: of given blocks, or of those it would choose."""
    return tables_plan(
        plan.domain, budget, np.random.default_rng(0), n_records=plan.n_records,
        neighboring=plan.neighboring, blocks=blocks,
    )  # fmt: skip


ClaimPlan = AutoPlan | ResidualPlan | LabelPlan | PooledPlan
CLAIM = ("epsilon", "rho", "delta", "n_records", "neighboring", "random_state")


def claim_of(estimator: object) -> dict[str, Any]:
    """Return what an estimator was told of its claim, and of public numbers."""
    return {name: getattr(estimator, name) for name in CLAIM}


def plan_of_claim(
    kind: str,
    domain: Domain,
    *,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = 0,
    n_records: int | None = None,
    neighboring: str = "add_remove",
    random_state: object = None,
    beside: str = "tables",
) -> Any:
    """Return the `ClaimPlan` of a kind, under the law of noise that serves the claim best.

    `kind` {"auto", "additive", "labels", "pool"}; `beside` {"tables", "additive"} the tree of a
    pool; other parameters as `plan`.

    Raises ValueError if a parameter is invalid, or the domain does not suit the kind.
    """
    budgets = claiming_budgets(epsilon, delta, rho)
    k, records = domain.required_target().size, checked_n_records(n_records)
    known: Any = {"n_records": records, "neighboring": neighboring, "delta": float(delta)}
    if kind == "auto":
        return auto_plan(domain, budgets, random_state=random_state, **known)
    if kind == "pool":
        residuals, budget = beside == "additive", pooling_budget(budgets)
        return pooled_plan(domain, budget, random_state, residuals=residuals, **known)
    structure = structure_generator(random_state)
    if kind == "labels":  # by the law of the larger rate
        return label_plan(domain, max(budgets, key=choice_epsilon), structure, **known)
    budget = sequence_budget(epsilon, delta, rho, domain.n_attributes, records, k)
    return residual_plan(domain, budget, structure, **known)
