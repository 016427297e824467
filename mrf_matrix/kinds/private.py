"""Private forests: choices whose outcomes pick the plan of the forest that follows.

Nothing that follows is known before them but its budget, and that is enough: a `Deferred` share of
exactly that budget stands for it, and the whole is charged before the first choice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    fraction_of,
    integer_of,
    line_of_text,
    list_of,
    object_of,
    part_of,
)
from mrf_matrix.base.provenance import ChosenTuple, Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.kinds.labels import LABELS, POOL
from mrf_matrix.kinds.model import COMMON, Kind, PlanFields, Sizes, plan_fields
from mrf_matrix.kinds.tables import ADDITIVE, BLOCKS_GIVEN, TABLES
from mrf_matrix.labels import LabelPlan
from mrf_matrix.mechanisms.statement import budget_of
from mrf_matrix.planning.auto import AutoPlan, plan_after_imbalance, records_after
from mrf_matrix.planning.auto.choices import Attribute, Enough, Rarity, Screening, deferred_step
from mrf_matrix.planning.auto.plan import forest_plan
from mrf_matrix.planning.auto.pooled_plan import PooledPlan
from mrf_matrix.planning.plans.block_part import only_blocks
from mrf_matrix.posterior import LabelPosterior, PooledPosterior, ProductPosterior
from mrf_matrix.release.curator import Curator
from mrf_matrix.release.plan import AnnouncedPlan, Budget, Places, Plan, Transcript
from mrf_matrix.reports.privacy_report import STRUCTURE
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.residual.step import Kind as StepKind
from mrf_matrix.residual.step import ResidualStep
from mrf_matrix.voting.intervals import Margins

MOST_CHOICES = 1000
SHARES = "the shares of all choices"
SCREENING_KEYS = {"choices", "enough", "told", "most_cells"}


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSteps:
    """How rare the rarer class is, then all else; or screening and a forest; or a forest."""

    domain: Domain
    budget: Budget
    neighboring: str  # {"add_remove", "replace_one"}
    n_records: int | None
    delta: float = 0.0
    balance: ResidualStep | None = None
    screening: Screening | None = None
    forest: Any = None  # None where an earlier choice picks it
    why: AutoPlan | None = None  # the rule that led to it; not in files
    random_state: Any = None  # seed of the public structure of what follows
    followed: Any = None  # what was announced after the choices
    kept: tuple[int, ...] | None = None  # attributes that screening kept

    @property
    def choices(self) -> tuple[ResidualStep, ...]:
        first = () if self.balance is None else (self.balance,)
        return (*first, *(() if self.screening is None else self.screening.steps))

    @cached_property
    def steps(self) -> tuple[Any, ...]:
        if self.forest is not None:
            return (*self.choices, self.forest)
        return (
            *self.choices,
            deferred_step(
                self, self.choices, self.screening or getattr(self.why, "screening", None)
            ),
        )

    def __repr__(self) -> str:
        forest = self.settled_forest
        follows = "what follows" if forest is None else repr(forest)
        choices = f"{len(self.all_choices)} choices, " if self.all_choices else ""
        under = f"{self.budget!r} under {self.neighboring} neighbours"
        return f"PrivateSteps({choices}{follows}, {under})"

    @property
    def settled_forest(self) -> Any:
        """The plan of the forest that labels, once it is known."""
        found = self.forest or self.followed
        return found.settled_forest if isinstance(found, PrivateSteps) else found

    @property
    def kept_attributes(self) -> tuple[int, ...] | None:
        """Attributes that were kept, where they were enough; None where all are used."""
        return (
            self.followed.kept_attributes if isinstance(self.followed, PrivateSteps) else self.kept
        )

    @property
    def all_choices(self) -> tuple[ResidualStep, ...]:
        """Every choice, those of what was planned anew too."""
        later = self.followed.choices if isinstance(self.followed, PrivateSteps) else ()
        return (*self.choices, *later)


@dataclass(frozen=True)
class Private(Kind):
    """The kind: the forest that is planned to serve best, after choices where they pay."""

    name: ClassVar[str] = "auto"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"balance", "screening", "forest"})
    models_noise: ClassVar[bool] = True

    def learn(self, plan: PrivateSteps, curator: Curator) -> Any:
        if plan.forest is not None:
            return kind_of_plan(plan.forest).learn(plan.forest, curator.part(plan.forest))
        level = kept = None
        if plan.balance is not None:
            (level,) = curator.choose(plan.balance, Rarity())
        if plan.screening is not None:
            kept = _screen(plan, curator)

        def announce() -> Any:
            return plan_after_choices(plan, level, kept, curator.provenance)

        def read(data: JsonObject) -> Any:
            found = self._read_announced(data, plan.domain, kept, curator.provenance)
            if isinstance(found, PrivateSteps) and (found.balance or plan.screening):
                raise FieldError("announced: expected no choice that was made before it.")
            return found

        part = curator.part(plan.steps[-1], announce, read)
        return kind_of_plan(part.plan).learn(part.plan, part)

    def probabilities(self, posterior: Any, codes: Codes, sizes: Sizes) -> Array:
        return kind_of_posterior(posterior).probabilities(posterior, codes, sizes)

    def log_odds(self, posterior: Any, codes: Codes, sizes: Sizes) -> Array:
        return kind_of_posterior(posterior).log_odds(posterior, codes, sizes)

    def margins(self, posterior: Any, codes: Codes, level: float) -> Margins:
        return kind_of_posterior(posterior).margins(posterior, codes, level)

    def public(self, plan: PrivateSteps) -> tuple[str, ...]:
        forest = plan.settled_forest
        of_forest = () if forest is None else kind_of_plan(forest).public(forest)
        if not plan.all_choices:
            return tuple(of_forest)
        return (*(one for one in of_forest if one != STRUCTURE), SHARES)

    def notes(self, plan: PrivateSteps) -> tuple[str, ...]:
        last = plan.followed if isinstance(plan.followed, PrivateSteps) else plan
        why = last.why or plan.why
        reason = () if why is None else (why.reason,)
        forest = plan.settled_forest
        notes = () if forest is None else kind_of_plan(forest).notes(forest)
        notes = tuple(one for one in notes if one != BLOCKS_GIVEN)  # by the choices
        return (*reason, *_screening_notes(last), *notes)

    def rms_per_leaf(self, plan: PrivateSteps) -> float | None:
        forest = plan.settled_forest
        return None if forest is None else kind_of_plan(forest).rms_per_leaf(forest)

    def complete_plan(self, plan: PrivateSteps, transcript: Transcript) -> PrivateSteps:
        announced: list[Any] = [
            one.plan for one in transcript.outcomes if isinstance(one, AnnouncedPlan)
        ]
        if not announced:
            return plan
        chosen, followed, known = transcript.choices, announced[0], transcript.provenance
        if isinstance(followed, PrivateSteps) and followed.screening is not None:
            kept = _screened_attributes(followed.screening, chosen[len(plan.choices) :], known)
            followed = replace(followed, followed=announced[1], kept=kept)
        kept = (
            None if plan.screening is None else _screened_attributes(plan.screening, chosen, known)
        )
        return replace(plan, followed=followed, kept=kept)

    def numbers(self, posterior: Any) -> Iterator[Array]:
        yield from kind_of_posterior(posterior).numbers(posterior)

    def structure(self, plan: PrivateSteps) -> JsonObject:
        """Return the choices by value: how they were planned is not needed to follow them."""
        screening = plan.screening
        return {
            "balance": _step_to_list(plan.balance),
            "screening": screening
            and {
                "choices": [_step_to_list(one) for one in screening.choices],
                "enough": _step_to_list(screening.enough),
                "told": str(screening.told),
                "most_cells": screening.most_cells,
            },
            "forest": None if plan.forest is None else self.announced_to_dict(plan.forest),
        }

    def plan_from(self, known: PlanFields, structure: JsonObject) -> PrivateSteps:
        if sum(structure[one] is not None for one in self.structure_keys) != 1:
            raise FieldError("plan: expected one of balance, screening and forest.")
        forest, relation = None, known.neighboring
        if structure["forest"] is not None:
            forest = self._read_announced(part_of(structure, "forest"), known.domain, None, None)
        return PrivateSteps(
            known.domain,
            known.budget,
            relation,
            known.n_records,
            known.delta,
            balance=_read_step(structure["balance"], "choice", relation),
            screening=_read_screening(structure["screening"], relation),
            forest=forest,
        )

    def announced_to_dict(self, plan: Plan) -> JsonObject:
        kind = kind_of_plan(plan)
        return {"kind": kind.name, "plan": kind.to_dict(plan)}

    def _read_announced(
        self,
        data: object,
        domain: Domain,
        kept: tuple[int, ...] | None,
        chosen: Provenance | None,
    ) -> Any:
        """Return the plan that `announced_to_dict` wrote; of tables, within what was kept.

        `chosen`: what it rests on, where choices picked it.
        """
        given = object_of(data, "announced", {"kind", "plan"})
        kind = BY_NAME[one_word("announced: kind", given["kind"], tuple(BY_NAME))]
        inner = part_of(given, "plan")
        if kind is not TABLES:
            if kept is not None:
                raise FieldError("announced: expected tables of the attributes that were kept.")
            return kind.plan_of(inner, domain)
        structure = object_of(inner, "plan", COMMON | TABLES.structure_keys)
        plan = TABLES.plan_from(plan_fields(structure, domain), structure, chosen)
        measured = {i for block in only_blocks(plan.parts).blocks for i in block}
        if kept is not None and not measured <= set(kept):
            raise FieldError("announced: the forest measured other attributes than were kept.")
        return plan


PRIVATE = Private()
BY_NAME: dict[str, Kind] = {one.name: one for one in (PRIVATE, TABLES, ADDITIVE, LABELS, POOL)}
"""Kinds that a private forest may be of, or announce."""


def kind_of_plan(plan: Any) -> Kind:
    by_type: dict[type, Kind] = {
        PrivateSteps: PRIVATE,
        LabelPlan: LABELS,
        PooledPlan: POOL,
        ResidualPlan: ADDITIVE,
    }
    return by_type.get(type(plan), TABLES)


def kind_of_posterior(posterior: Any) -> Kind:
    by_type: dict[type, Kind] = {
        LabelPosterior: LABELS,
        PooledPosterior: POOL,
        ProductPosterior: TABLES,
    }
    return by_type.get(type(posterior), ADDITIVE)


# What follows ------------------------------------------------------------------------------------


def private_steps(plan: AutoPlan, random_state: Any, budget: Budget | None = None) -> PrivateSteps:
    """Return the steps of a private plan; of one that follows a choice, with the budget left."""
    first = plan.balance is not None
    screening = None if first else plan.screening
    known = not first and screening is None
    return PrivateSteps(
        plan.domain,
        budget or plan.budget,
        plan.neighboring,
        plan.n_records,
        plan.delta,
        balance=plan.balance,
        screening=screening,
        forest=forest_plan(plan, None, random_state) if known else None,
        why=plan,
        random_state=random_state,
    )


def plan_after_choices(
    plan: PrivateSteps, level: int | None, kept: tuple[int, ...] | None, provenance: Provenance
) -> Any:
    """Return the plan that follows the choices: a public function of their outcomes.

    `level`: of `balance.ONE_IN`, where it was chosen; `kept`: attributes, None for all;
    `provenance`: of the choices.
    """
    assert plan.why is not None
    if level is None:
        return forest_plan(plan.why, kept, plan.random_state, provenance)
    later = plan_after_imbalance(plan.why, records_after(plan.why, level))
    return private_steps(later, plan.random_state, plan.steps[-1].budget)


def _screen(plan: PrivateSteps, curator: Curator) -> tuple[int, ...] | None:
    """Choose attributes one after another, and whether they are enough; None: all are kept."""
    screening, sizes = plan.screening, plan.domain.sizes
    assert screening is not None
    left, chosen = np.array(sizes) > 1, []
    for step in screening.choices:
        (place,) = curator.choose(step, Attribute(left.copy()))
        chosen.append(place)
        left[place] = False
    if screening.enough is None:
        return tuple(chosen)
    first = tuple(chosen[: screening.together([sizes[i] for i in chosen])])
    (all_kept,) = curator.choose(screening.enough, Enough(screening, first))
    return None if all_kept else tuple(chosen)


def _screened_attributes(
    screening: Screening, chosen: Sequence[Places], known: Provenance
) -> tuple[int, ...] | None:
    """Return the attributes that choices kept, of their provenance; None for all."""
    kept = ChosenTuple([place for (place,) in chosen[: len(screening.choices)]], known)
    if screening.enough is None or chosen[len(kept)] == (0,):
        return kept
    return None


def _screening_notes(plan: PrivateSteps) -> tuple[str, ...]:
    if plan.screening is None or plan.followed is None:
        return ()
    if plan.kept is None:
        return ("screening: few attributes do not tell enough, all are used",)
    return (f"screening kept {', '.join(str(plan.domain.names[i]) for i in plan.kept)}",)


# In files ----------------------------------------------------------------------------------------


def _step_to_list(step: ResidualStep | None) -> list[object] | None:
    return None if step is None else [step.measured, step.budget.to_dict()]


def _read_step(given: object, kind: StepKind, neighboring: str) -> ResidualStep | None:
    if given is None:
        return None
    words, budget = list_of(given, "step", 2, 2)
    return ResidualStep(kind, line_of_text(words, "measured", 200), budget_of(budget), neighboring)


def _read_screening(given: object, neighboring: str) -> Screening | None:
    if given is None:
        return None
    data = object_of(given, "screening", SCREENING_KEYS)
    choices = [
        _read_step(one, "screening", neighboring)
        for one in list_of(data["choices"], "choices", MOST_CHOICES, least=1)
    ]
    return Screening(
        tuple(one for one in choices if one is not None),
        _read_step(data["enough"], "screening", neighboring),
        fraction_of(data["told"], "told"),
        integer_of(data["most_cells"], "most_cells", least=1),
    )
