"""The plan of a `PrivateForestClassifier`: what is expected of each kind of forest, and why one."""

from dataclasses import dataclass
from typing import Literal

from mrf_matrix.domain import Domain
from mrf_matrix.domain.coarser import MOST_BINS
from mrf_matrix.domain.errors import name_few
from mrf_matrix.planning.plans.verdict import Verdict, verdict_of
from mrf_matrix.planning.private.screening import Screening, screening_share
from mrf_matrix.residual.settings import Budget
from mrf_matrix.residual.step import ResidualStep

RESIDUALS_LEAD = 0.002
"""Expected lead from which residuals are measured: tables serve other queries too."""

PRIOR = "expected accuracy under a public prior, by which kinds are ranked; no forecast"
"""What the planning score is. Data of one's own may be far from the prior."""

Measured = Literal["tables", "residuals", "labels", "pool", "residual pool"]
"""What a kind measures: tables at once, tables of residuals, a tree of labels, or such a tree
beside either."""

OF_RESIDUALS: tuple[Measured, ...] = ("residuals", "residual pool")
"""Kinds that need every record by itself."""


POOLS: tuple[Measured, ...] = ("pool", "residual pool")

BY_SIGNAL: tuple[Measured, ...] = ("labels", *POOLS)
"""Kinds that are taken at some signals, whatever the scale says."""


@dataclass(frozen=True)
class Forecast:
    """What is expected of one kind of forest, without data.

    Attributes
    ----------
    name : str
    budget : PureDP or ZCDP
        Of the noise that it would use.
    accuracy : float
        The planning score: expected share of right labels, of two classes against each other,
        under a public prior. It ranks kinds, and forecasts nothing of data unlike the prior's.
    measured : {"tables", "residuals", "labels", "pool", "residual pool"}
        What is measured, where attributes are screened first: if all of them are kept.
    screening : Screening or None
        How attributes would be chosen first.
    lag : float
        By how much screening may be behind and is taken.
    """

    name: str
    budget: Budget
    accuracy: float
    measured: Measured
    screening: Screening | None = None
    lag: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the forecast as plain values, ready for JSON."""
        return {
            "kind": self.name,
            "measured": self.measured,
            "screened": self.screening is not None,
            "budget": repr(self.budget),
            "planning_score": self.accuracy,
            "expected_accuracy": self.accuracy,  # the score's name in records of before
        }


@dataclass(frozen=True)
class PrivatePlan:
    """What will be measured and why, decided without data.

    Attributes
    ----------
    domain : Domain
        Over which is measured and predicted.
    neighboring : {"add_remove", "replace_one"}
    n_records : int or None
        Where it is public.
    delta : float
        The δ that the claim is stated for, where the budget is zCDP.
    forecasts : tuple of Forecast
        Of every kind, the one that is taken first.
    left_out : str or None
        What was not considered, because data that are counted as they pass cannot serve it.
    balance : ResidualStep or None
        The choice of how rare the rarer of two classes is, which comes first; what follows is
        planned anew by `planned_for`.
    announced : PrivatePlan or None
        The plan before that choice, where it was made: it has the whole budget.
    even_records : int or None
        Records of even classes that tell as much, as that choice says.
    coarser : tuple of str
        Attributes of fewer codes here than in the domain that was given.
    """

    domain: Domain
    neighboring: str
    n_records: int | None
    delta: float
    forecasts: tuple[Forecast, ...]
    left_out: str | None = None
    balance: ResidualStep | None = None
    announced: "PrivatePlan | None" = None
    even_records: int | None = None
    coarser: tuple[str, ...] = ()

    @property
    def chosen(self) -> Forecast:
        """The kind that is taken."""
        return self.forecasts[0]

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return (self.announced or self).chosen.budget

    @property
    def choices(self) -> tuple[ResidualStep, ...]:
        """Every choice before the forest that has been planned, in the order they are made."""
        first = None if self.announced is None else self.announced.balance
        screening = self.chosen.screening
        return (
            *(() if first is None else (first,)),
            *(() if screening is None else screening.steps),
        )

    @property
    def makes_choices(self) -> bool:
        """Whether anything is chosen from the records before the forest."""
        return self.balance is not None or self.chosen.screening is not None

    @property
    def takes_records(self) -> bool:
        """Whether records are needed by themselves, for this forest or one that may follow."""
        later = self.balance is not None and self.left_out is None
        return later or self.chosen.measured in OF_RESIDUALS

    @property
    def is_rare(self) -> bool:
        """Whether an earlier choice said that one class is rare."""
        return self.even_records not in (None, self.n_records)

    @property
    def is_faint(self) -> bool:
        """Whether records times ε alone say that hardly anything can be learned."""
        return self.verdict.is_faint

    @property
    def verdict(self) -> Verdict:
        """What noise leaves: of the whole budget, whatever is chosen on the way."""
        return verdict_of(self)

    @property
    def after_balance(self) -> Budget:
        """What the choice of how rare the rarer class is leaves, where it is made."""
        budget = self.chosen.budget
        return (
            budget if self.balance is None else budget.of(budget.exact - self.balance.budget.exact)
        )

    @property
    def rest(self) -> Budget:
        """What is left for the forest beside screening."""
        return screening_share(self.chosen.screening, self.chosen.budget)

    @property
    def reason(self) -> str:
        """Why, in a sentence or two."""
        told = self._compared
        if self.even_records is not None and self.chosen.measured in POOLS:
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
    def _compared(self) -> str:
        """The kind that is taken, beside the next."""
        first, *others = self.forecasts
        told = f"{first.name}: planning score {first.accuracy:.3f} ({PRIOR})"
        if not others:
            return f"{told}; no other kind is considered for this domain and budget."
        second = others[0]
        told += f"; the runner-up, {second.name}, would have {second.accuracy:.3f}"
        if second.accuracy > first.accuracy and first.screening is not None:
            told += f" (screening may be {first.lag:g} behind: it finds out more than is expected)"
        elif second.accuracy > first.accuracy and first.measured in BY_SIGNAL:
            told += " (taken at such a signal: there kinds without a tree lagged on public data)"
        elif second.accuracy > first.accuracy and self.is_rare:
            told += " (the kind is the one that leads where classes are even)"
        elif second.accuracy > first.accuracy:
            told += f" (residuals must be {RESIDUALS_LEAD:g} ahead)"
        return f"{told}."

    def to_dict(self) -> dict[str, object]:
        """Return the plan's figures as plain values, ready for JSON."""
        first, *others = self.forecasts
        return {
            "mode": "private",
            "budget": repr(self.budget),
            "delta": self.delta,
            "claim": self.budget.claim(self.delta),
            "neighboring": self.neighboring,
            "attributes": self.domain.n_attributes,
            "cells": self.domain.size,
            "classes": self.domain.n_classes,
            "records": self.n_records,
            "coarser": list(self.coarser),
            "kind": first.name,
            "runner_up": others[0].name if others else None,
            "reason": self.reason,
            "forecasts": [one.to_dict() for one in self.forecasts],
        }

    def __str__(self) -> str:
        return self.reason
