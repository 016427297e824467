"""A model: a plan, the transcript of its release, and what they imply.

It has no records and knows no parameter of an estimator, so that none changed later touches what it
predicts or claims. Its report is a function of plan and transcript.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Codes, Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import JsonObject, number_of, object_of
from mrf_matrix.base.kinds import KINDS
from mrf_matrix.domain import Domain
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.mechanisms import NEIGHBORING, Release
from mrf_matrix.mechanisms.statement import Claim, budget_of
from mrf_matrix.planning.plans.signal_to_noise import with_verdict
from mrf_matrix.release.curator import Curator, is_plan
from mrf_matrix.release.plan import (
    LARGEST_DELTA,
    AnnouncedPlan,
    Budget,
    Outcome,
    Plan,
    Transcript,
    records_of,
)
from mrf_matrix.reports.privacy_report import CHOICE_LAW, Measurement, PrivacyReport
from mrf_matrix.voting.evidence import log_odds_of
from mrf_matrix.voting.intervals import Margins
from mrf_matrix.voting.voting import per_distinct_row

COMMON = frozenset({"budget", "delta", "neighboring", "n_records"})
Sizes = tuple[int, ...]
Fetch = Callable[[str, str, tuple[int, ...]], Values]


class Posterior(Protocol):
    """What a transcript implies: arrays in, arrays out."""

    def probabilities(self, codes: Codes) -> Array:
        """Return class probabilities, shape (b, k)."""


class Kind(ABC):
    """What differs between kinds of model; there is one object a kind.

    Columns of classes, in counts, releases and posteriors alike, are in the domain's order: `Model`
    alone sorts them.
    """

    name: ClassVar[str]
    structure_keys: ClassVar[frozenset[str]]  # what `structure` has
    settings: ClassVar[int] = 1  # version of the constants that plans are made by; files carry it
    models_noise: ClassVar[bool] = False  # whether margins have intervals
    public_parts: ClassVar[tuple[str, ...]]  # what `public` returns, where plans do not differ

    def __init_subclass__(cls) -> None:
        """Refuse a kind that does not say what its claim takes for public."""
        if cls.public is Kind.public and not hasattr(cls, "public_parts"):
            raise TypeError(f"{cls.__name__}: expected public_parts, or a method public(plan).")

    @property
    def estimator(self) -> str:
        """The class that releases it anew."""
        return KINDS[self.name].estimator

    @abstractmethod
    def learn(self, plan: Any, curator: Curator) -> Posterior:
        """Take every step with a curator, and return what the outcomes imply."""

    def probabilities(self, posterior: Any, codes: Codes, sizes: Sizes) -> Array:
        """Return class probabilities, shape (b, k)."""
        return per_distinct_row(posterior.probabilities, codes, sizes, expensive=False)

    def log_odds(self, posterior: Any, codes: Codes, sizes: Sizes) -> Array:
        """Return the log odds of the second of two classes, (b,), or of each class, (b, k)."""
        return log_odds_of(self.probabilities(posterior, codes, sizes))

    def votes(self, posterior: Any, codes: Codes, sizes: Sizes) -> Array:
        """Return what the classes of records are compared by, (b, k): the largest is predicted."""
        odds = self.log_odds(posterior, codes, sizes)
        return odds if odds.ndim == 2 else np.column_stack([np.zeros_like(odds), odds])

    def margins(self, posterior: Any, codes: Codes, level: float) -> Margins:
        """Return leading classes, margins in log odds, and widths under the model.

        Raises ValueError of kinds that take what was released as it is.
        """
        raise ValueError(
            f"kind {self.name!r} has no intervals: expected another one, such as that of a "
            f"PosteriorForestClassifier, whose posterior knows the noise."
        )

    def voted_by(self, model: "Model", voting: str | None, shrinkage: str | None) -> "Model":
        """Return a model whose trees vote in another way, None: as now: post-processing.

        Raises ValueError of kinds that have one rule only.
        """
        raise ValueError(f"a model of kind {self.name!r} is of one rule only. Leave it out.")

    def public(self, plan: Any) -> tuple[str, ...]:
        """Return what the claim takes for public."""
        return self.public_parts

    @abstractmethod
    def notes(self, plan: Any) -> tuple[str, ...]:
        """Return what else the claim rests on."""

    def rms_per_leaf(self, plan: Any) -> float | None:
        """Return the expected error of a leaf value, where leaves are all that is measured."""
        return None

    def complete_plan(self, plan: Any, transcript: Transcript) -> Any:
        """Return the plan with the parts that outcomes picked; its steps are the same."""
        return plan

    @abstractmethod
    def numbers(self, posterior: Any) -> Iterator[Array]:
        """Yield the arrays of a posterior that must be finite."""

    @abstractmethod
    def structure(self, plan: Any) -> JsonObject:
        """Return what a plan has beside domain, budget, relation and records, as plain values."""

    def arrays(self, plan: Any) -> dict[str, Values]:
        """Return the arrays that `structure` speaks of, by name."""
        return {}

    def announced_to_dict(self, plan: Any) -> JsonObject:
        """Return a plan that was announced for a deferred share, as plain values."""
        raise TypeError(f"kind {self.name!r} defers nothing: expected a plan of known steps.")

    @abstractmethod
    def plan_from(self, known: "PlanFields", structure: JsonObject) -> Any:
        """Return the plan of a structure, which may be untrusted.

        Raises FieldError, ValueError, TypeError, KeyError if it is none.
        """

    def to_dict(self, plan: Any) -> JsonObject:
        """Return a plan over a known domain as plain values."""
        common: JsonObject = {
            "budget": plan.budget.to_dict(),
            "delta": plan.delta,
            "neighboring": plan.neighboring,
            "n_records": records_of(plan.n_records),
        }
        return common | self.structure(plan)

    def plan_of(self, data: JsonObject, domain: Domain, fetch: Fetch | None = None) -> Any:
        """Return the plan that `to_dict` wrote; the data may be untrusted.

        `fetch`: returns the array of a name, type and shape, or raises.

        Raises FieldError, ValueError, TypeError, KeyError if it is none.
        """
        given = object_of(data, "plan", COMMON | self.structure_keys)
        return self.plan_from(replace(plan_fields(given, domain), fetch=fetch), given)


@dataclass(frozen=True)
class PlanFields:
    """What plans of all kinds have."""

    domain: Domain
    budget: Budget
    delta: float
    neighboring: Any
    n_records: int | None
    fetch: Fetch | None = None

    @property
    def words(self) -> dict[str, Any]:
        return {
            "n_records": self.n_records,
            "neighboring": self.neighboring,
            "delta": self.delta,
        }


def plan_fields(data: JsonObject, domain: Domain) -> PlanFields:
    return PlanFields(
        domain,
        budget_of(data["budget"]),
        number_of(data["delta"], "delta", most=LARGEST_DELTA),
        one_word("neighboring", data["neighboring"], NEIGHBORING),
        records_of(data["n_records"]),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """What was released of a plan, and what follows: ``Model(kind, *curator.learn(kind))``."""

    kind: Kind
    plan: Any
    transcript: Transcript
    posterior: Any  # what they imply
    # what the report adds, of a model from a file in its writer's words; None: as the plan says
    notes: tuple[str, ...] | None = None

    @property
    def domain(self) -> Domain:
        domain: Domain = self.plan.domain
        return domain

    @property
    def classes(self) -> Values:
        return self._class_order[0]

    @cached_property
    def _class_order(self) -> tuple[Values, NDArray[np.intp]]:
        return sorted_classes(self.domain)

    def sort_columns(self, columns: Array) -> Array:
        """Return columns of the domain's classes in the order of `classes`, (..., k)."""
        return columns[..., self._class_order[1]]

    @cached_property
    def report(self) -> PrivacyReport:
        kind, plan = self.kind, self.plan
        report = report_of(
            plan, self.transcript, expected_rms_per_leaf=kind.rms_per_leaf(plan),
            public=kind.public(plan), notes=kind.notes(plan),
        )  # fmt: skip
        return report if self.notes is None else replace(report, notes=self.notes)

    def probabilities(self, codes: Codes) -> Array:
        return self.sort_columns(self.kind.probabilities(self.posterior, codes, self.domain.sizes))

    def log_odds(self, codes: Codes) -> Array:
        odds = self.kind.log_odds(self.posterior, codes, self.domain.sizes)
        if odds.ndim == 2:
            return self.sort_columns(odds)
        return odds if self._class_order[1][0] == 0 else -odds

    def votes(self, codes: Codes) -> Array:
        return self.sort_columns(self.kind.votes(self.posterior, codes, self.domain.sizes))

    def margins(self, codes: Codes, level: float) -> Margins:
        first, ahead, below, above = self.kind.margins(self.posterior, codes, level)
        return np.argsort(self._class_order[1])[first], ahead, below, above

    def __repr__(self) -> str:
        return f"Model({self.plan!r}. {self.report.statement})"


def report_of(plan: Plan, transcript: Transcript, **said: Any) -> PrivacyReport:
    """Return the report of a transcript; a part of one is charged as the whole.

    `**said`: what else it says.
    """
    made = tuple(_measurement(*one) for one in _pair_outcomes(plan, list(transcript.outcomes)))
    laws = tuple(one.law for one in made)
    claim = Claim(transcript.provenance, laws, plan.delta, plan.neighboring)
    return with_verdict(PrivacyReport(claim, made, **said), plan)


def _pair_outcomes(plan: Plan, left: list[Outcome]) -> Iterator[tuple[Any, Outcome]]:
    for step in plan.steps:
        if not left:
            return
        if is_plan(step):
            yield from _pair_outcomes(step, left)
            continue
        first = left.pop(0)
        if isinstance(first, AnnouncedPlan):
            yield from _pair_outcomes(first.plan, left)
        else:
            yield step, first


def _measurement(step: Any, outcome: Any) -> Measurement:
    if isinstance(outcome, Release):
        return Measurement.of(outcome, step.measured, weight=step.units)
    return Measurement(
        measured=step.measured,
        budget=repr(step.budget),
        law=f"{CHOICE_LAW} of rate {float(step.choice_rate):.6g}",
        sensitivity=step.sensitivity,
        n_answers=1,
        column_sum=step.column_sum,
    )
