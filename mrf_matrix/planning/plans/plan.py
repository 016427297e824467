"""A plan: what a private forest will cost in error, memory and time, known without data."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mrf_matrix.base.arrays import Array, Seed
from mrf_matrix.base.checks import shorten
from mrf_matrix.error.expected_errors import least_amount
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import ZCDP, CellCounts, LeafCounts, PureDP, Release
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.planning.plain_values import plain_figures
from mrf_matrix.planning.plans.cost import ArraySize, array_sizes, peak_bytes, release_seconds
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.planned_errors import PlannedErrors
from mrf_matrix.planning.plans.signal_to_noise import Verdict, verdict_of
from mrf_matrix.plotting.style import AnswerDisplay
from mrf_matrix.release.curator import Live
from mrf_matrix.release.plan import KeptTable, KeptVotes
from mrf_matrix.release.step_table import AnnouncedStep, StepTable
from strategies import Strategy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_NAMES = 60  # characters of an ensemble's attributes
TITLES = {
    "matrix": "matrix forest",
    "tables": "posterior forest",
    "naive_bayes": "naive Bayes classifier",
    "batch": "batch of predictions",
    "subsample": "subsample-and-aggregate forest",
}
"""What is planned, by kind."""

SHARES = (0.1, 0.2, 0.5)
"""Leads whose flip probability a summary states, as shares of the records of an answer."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan(PlannedErrors, StepTable):
    """A design and everything that is known of its error before any record is seen.

    Its attributes and errors are those of `PlannedErrors`; here is what is done with it.
    """

    def voted_by(self, voting: str) -> "Plan":
        """Return the plan with another voting, where what is measured does not depend on it."""
        return replace(self, kind=replace(self.kind, voting=voting))

    @property
    def title(self) -> str:  # type: ignore[override]  # of the other plans one constant each
        return TITLES[self.kind.name]

    @property
    def questions(self) -> tuple[KeptTable, ...]:
        """The question of each step, one an ensemble, to tables that were counted before."""
        made = KeptVotes if self.kind.counts_votes else KeptTable
        forests = [part.ensemble.forest for part in self.parts]
        leaves = self.kind.is_disjoint
        sizes = [(one.n_leaves,) if leaves else one.domain.sizes for one in forests]
        return tuple(made(number, one, self.n_classes) for number, one in enumerate(sizes))

    def release(
        self, tables: Iterable[CellCounts | LeafCounts], *, noise: str, noise_state: Seed = None
    ) -> tuple[Release, ...]:
        """Measure every ensemble's private table, once, as a curator that charges nobody.

        Raises
        ------
        TypeError
            If several parties are to measure it.
        """
        if any(part.federation is not None for part in self.parts):
            raise TypeError(
                "the plan shares its noise among parties: expected run_federation(part.federation, "
                "tables), or the apps of mrf_matrix.federated.flower."
            )
        given = [one for one, _ in zip(tables, self.parts, strict=True)]
        stream: Any = np.random.default_rng(noise_state) if noise == "research" else noise_state
        taken = Live(self, given, nullcontext, noise, stream, provenance=self.provenance)
        with taken as curator:
            return curator.measure_all(self.questions)

    def answers(self, releases: Sequence[Release]) -> Array:
        """Return the answers from the releases: leaves of all ensembles, or votes added up."""
        found = [part.answers(one) for part, one in zip(self.parts, releases, strict=True)]
        if self.releases_leaves:
            return np.concatenate(found)
        total: Array = np.sum(found, axis=0)
        return total

    @property
    def forest(self) -> Forest:
        """The only ensemble's forest."""
        return self._only.ensemble.forest

    @property
    def strategy(self) -> Strategy | None:
        """The only ensemble's strategy; None for the baselines."""
        return self._only.strategy

    @property
    def _only(self) -> PlanPart:
        if len(self.parts) != 1:
            raise ValueError(
                f"the plan has {len(self.parts)} ensembles: expected one. Look at each of parts."
            )
        return self.parts[0]

    def meet_targets(self, limits: Array) -> "Plan":
        """Return the plan at the least budget at which every answer keeps its target, rounded up.

        Ensembles keep their shares, and noise is the exact discrete one. Errors fall as the budget
        grows: it is found by bisection.
        """

        def plan_at(amount: Fraction) -> Plan:
            return replace(self, parts=parts_at_budget(self.parts, self.budget.of(amount)))

        return plan_at(least_amount(lambda amount: bool((plan_at(amount).row_rms <= limits).all())))

    def _with_budget(self, budget: PureDP | ZCDP, delta: float) -> Self:
        """Return the plan at another budget, without new linear algebra."""
        return replace(self, parts=parts_at_budget(self.parts, budget), delta=delta)

    @property
    def announced_steps(self) -> tuple[AnnouncedStep, ...]:
        """The measurement of each ensemble, with the error of its typical answer."""
        return tuple(
            AnnouncedStep(
                words + part.claim_note,
                part.mechanism.budget,
                part.sensitivity,
                sqrt(part.answer_variances.mean()),
            )
            for words, part in zip(self._words, self.parts, strict=True)
        )

    @property
    def _words(self) -> list[str]:
        """What is measured; of several ensembles with the attributes of each."""
        if len(self.parts) == 1:
            return [one.measured for one in self.steps]
        names = (", ".join(part.forest.domain.names) for part in self.parts)
        pairs = zip(self.steps, names, strict=True)
        return [f"{step.measured}, over {shorten(name, LONGEST_NAMES)}" for step, name in pairs]

    def plot(self, ax: "Axes | None" = None) -> AnswerDisplay:  # type: ignore[override]
        """Draw the expected error of every answer, from the worst to the best, by ensemble."""
        variances = zip(self._words, (one.answer_variances for one in self.parts), strict=True)
        errors = [(words, np.sqrt(one).tolist()) for words, one in variances]
        unit = "leaf value" if self.releases_leaves else "vote"
        return AnswerDisplay(errors, unit, self.budget.claim(self.delta)).plot(ax)

    @property
    def array_sizes(self) -> tuple[ArraySize, ...]:
        """The large arrays of the release to come."""
        return array_sizes(self)

    @property
    def verdict(self) -> Verdict:
        """Signal and noise in words: whether to deploy it."""
        return verdict_of(self)

    @property
    def seconds(self) -> float:
        """Seconds that choosing the strategies took, and that the release is expected to take.

        The latter is right to a factor of 2 or 3 on the machine it was fitted to, with one thread
        of linear algebra: see `mrf_matrix.planning.plans.cost`. A classifier that selects its
        strategies itself takes both times; one made by `from_design` of this plan, the second.
        """
        return self.select_seconds + self.release_seconds

    @property
    def release_seconds(self) -> float:
        """Seconds that the release is expected to take."""
        return release_seconds(self)

    def to_dict(self, *, bound: bool = False) -> dict[str, Any]:
        """Return the plan's figures as plain values, ready for JSON; what is not finite is None.

        Parameters
        ----------
        bound : bool, default=False
            Compute the certified lower bound too, which may take longer than the plan.
        """
        figures: dict[str, Any] = {
            "kind": self.kind.name,
            "allocation": self.allocation,
            "voting": self.voting,
            **self.claim_fields(),
            "cells": self.domain.size,
            "classes": self.n_classes,
            "queries": int(self.multiplicity.sum()),
            "records": self.n_records,
            "sensitivity": self.sensitivity,
            "noise_scale": self.noise_scale,
            "expected_total_squared_error": self.total,
            "objective": self.objective,
            "objective_squared_error": self.error,
            "worst_row": self.worst_row,
            "worst_rms": self.worst_rms,
            "seconds": self.seconds,
            "peak_bytes": peak_bytes(self),
            "arrays": [size.to_dict() for size in self.array_sizes],
            "ensembles": [part.summary() for part in self.parts],
        }
        figures["signal_to_noise"] = str(self.verdict)
        if notes := dict.fromkeys(filter(None, (part.ensemble.depth_note for part in self.parts))):
            figures["notes"] = list(notes)
        if self.releases_leaves:
            figures["rms_per_leaf"] = self.rms_per_leaf
        if self.kind.votes_add:
            figures["rms_per_vote"] = self.rms_per_vote
        certified = all(part.is_certified for part in self.parts)
        if self.target_rms is not None:
            figures["target_rms"] = [self.target_rms.min(), self.target_rms.max()]
        if bound and certified:
            figures["lower_bound"] = self.lower_bound
            figures["certified_ratio"] = self.certified_ratio
            if self.target_rms is not None:
                figures["budget_bound"] = self.budget_bound
        if self.n_records is not None:
            figures["median_expected_records"] = float(np.median(self.expected_records))
            figures["median_signal_to_noise"] = float(np.median(self.signal_to_noise))
            flipped, normal = self._mean_flips(SHARES)
            figures["mean_flip_probability"] = {
                f"lead of {share:.0%} of records": value
                for share, value in zip(SHARES, flipped, strict=True)
            }
            figures["flips_by_normal_law"] = normal
        return plain_figures(figures)

    def __repr__(self) -> str:
        unit = "leaf" if self.releases_leaves else "vote"
        rms = self.rms_per_leaf if self.releases_leaves else np.sqrt(np.mean(self.row_variances))
        methods = ", ".join(sorted({part.method for part in self.parts}))
        methods = methods.replace("given", "a given strategy")
        trees = sum(part.forest.n_trees for part in self.parts)
        claimed = "".join(sorted({part.claim_note for part in self.parts}))
        return (
            f"Plan({self.kind.name}, {trees} trees in {len(self.parts)} ensemble"
            f"{'s' * (len(self.parts) > 1)}, {len(self.row_variances)} answers by {methods}, "
            f"{self.budget.claim(self.delta)} under {self.neighboring} neighbours, expected "
            f"error {rms:.4g} rms per {unit}{claimed})"
        )


def parts_at_budget(parts: Sequence[PlanPart], budget: PureDP | ZCDP) -> tuple[PlanPart, ...]:
    """Return the ensembles at another total budget of the same kind, each with its share."""
    spent = total_budget([part.mechanism.budget for part in parts])
    if spent.is_infinite:
        budgets = budget.split(len(parts))
    else:
        budgets = budget.split([part.mechanism.budget.exact for part in parts])
    pairs: Iterable[tuple[PlanPart, PureDP | ZCDP]] = zip(parts, budgets, strict=True)
    return tuple(part.at(share) for part, share in pairs)
