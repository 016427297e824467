"""The plan of a residual forest: every share, sensitivity and law, before any data is seen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from mrf_matrix.base.checks import shorten
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budget import checked_neighboring, claiming_budgets
from mrf_matrix.release.step_table import StepTable, share_of
from mrf_matrix.residual.step import (
    ASSUMED_RECORDS,
    Budget,
    FirstPass,
    Kind,
    PairSteps,
    ResidualPass,
    ResidualSettings,
    ResidualStep,
    n_pair_tables,
    n_passes,
    residual_signal,
    settings_for,
    table_shares,
)

LARGEST_PAIR, OF_SEVERAL = 400, 64
"""Most cells of a pair that may be chosen: of two classes, and at least of any number of them."""

MOST_CODES = 2000  # codes of an attribute of two classes: a visit takes seconds


def largest_pair(n_classes: int) -> int:
    """Return the cells of a pair that may be chosen: a visit takes as long for every class."""
    return max(2 * LARGEST_PAIR // n_classes, OF_SEVERAL)


def most_codes(n_classes: int) -> int:
    """Return the codes of an attribute with which a visit of so many classes takes as long."""
    return MOST_CODES if n_classes == 2 else round(MOST_CODES * float(n_classes) ** (-1 / 3))


LONGEST_NAME = 60  # characters of an attribute in the words of a step


@dataclass(frozen=True)
class ResidualPlan(StepTable):
    """A sequence of steps whose budgets add up to the whole.

    Which table a later step measures, and which integers the records add to it, depends on
    earlier releases alone. How much each step spends does not depend on anything: the claim is
    the adaptive composition of the announced shares.
    """

    title = "residual forest"

    domain: Domain
    budget: Budget
    neighboring: str
    n_records: int | None  # where it is public
    settings: ResidualSettings
    totals: ResidualStep
    counts: tuple[ResidualStep, ...]  # one-way counts without class, one an attribute
    first: FirstPass
    passes: tuple[ResidualPass, ...]  # those after the first
    pairs: PairSteps | None
    delta: float = 0.0  # the δ that the claim is stated for, where the budget is zCDP; 0 for none
    # records of even classes that tell as much, where an earlier release said so
    even_records: int | None = None

    def __repr__(self) -> str:
        return (
            f"ResidualPlan({len(self.steps)} steps over {self.domain.n_attributes} attributes, "
            f"{self.budget!r} under {self.neighboring} neighbours)"
        )

    @property
    def steps(self) -> tuple[ResidualStep, ...]:
        found = [self.totals, *self.counts, *self.first.visits, self.first.scale]
        for one in self.passes:
            found += [one.curvature, *one.visits]
        if self.pairs is not None:
            found += [self.pairs.curvature, *self.pairs.choices]
            for counts, residuals in zip(self.pairs.counts, self.pairs.residuals, strict=True):
                found += [counts, residuals]
        return tuple(found)

    @property
    def signal(self) -> float:
        """How far records outweigh noise: what passes and pairs are planned for."""
        reckoned = self.even_records or self.n_records or ASSUMED_RECORDS
        return residual_signal(reckoned, self.budget, self.domain.n_attributes, self.n_classes)

    @property
    def n_classes(self) -> int:
        return self.domain.n_classes

    @property
    def most_measurements(self) -> int:
        """Noisy sums of all steps, at most: which tables they hold is known as they are taken."""
        sizes = sorted(self.domain.sizes, reverse=True)
        columns = self.first.visits[0].n_columns
        visits = sum(sizes) * columns
        visits += sum(sum(sizes[: len(one.visits)]) * columns + 1 for one in self.passes)
        tables = 0 if self.pairs is None else len(self.pairs.residuals)
        pairs = tables * (1 + columns) * largest_pair(self.n_classes) + (tables > 0)
        return self.n_classes + sum(sizes) + visits + pairs

    def to_dict(self) -> dict[str, object]:
        return {
            "kind": "additive",
            "voting": "posterior",
            **self.claim_fields(),
            "cells": self.domain.size,
            "classes": self.n_classes,
            "records": self.n_records,
            "measurements_at_most": self.most_measurements,
            "steps": [
                {
                    "measured": step.measured,
                    "budget": repr(step.budget),
                    "sensitivity": step.sensitivity,
                    "rms": step.rms,
                }
                for step in self.steps
            ],
        }

    def _with_budget(self, budget: Budget, delta: float) -> "ResidualPlan":
        def rescale(part: Any) -> Any:
            if isinstance(part, ResidualStep):
                return replace(part, budget=share_of(part.budget, self.budget, budget))
            if isinstance(part, FirstPass | ResidualPass | PairSteps):
                return replace(part, **{name: rescale(one) for name, one in vars(part).items()})
            return tuple(map(rescale, part)) if isinstance(part, tuple) else part

        parts = {name: rescale(one) for name, one in vars(self).items()}
        found = replace(self, **parts | {"budget": budget, "delta": delta})
        _check_noise(found)
        return found


@dataclass(frozen=True)
class _Shares:
    """Steps from exact shares of one budget."""

    budget: Budget
    neighboring: str
    n_classes: int

    def step(self, kind: Kind, measured: str, share: Fraction) -> ResidualStep:
        spent = self.budget * share
        return ResidualStep(kind, measured, spent, self.neighboring, self.n_classes)

    def steps(
        self, kind: Kind, measured: Sequence[str], share: Fraction
    ) -> tuple[ResidualStep, ...]:
        return tuple(self.step(kind, text, share / len(measured)) for text in measured)


def residual_plan(
    domain: Domain,
    budget: Budget,
    structure: np.random.Generator,
    *,
    n_records: int | None,
    neighboring: str = "add_remove",
    delta: float = 0.0,
    settings: ResidualSettings | None = None,
    even_records: int | None = None,
) -> ResidualPlan:
    """Return the plan of a residual forest. No data is needed.

    `domain`: with its classes. `budget`: Laplace or Gaussian noise. `structure`: draws the
    order of visits. `n_records`: Where it is public. Else passes and pairs are planned for
    `ASSUMED_RECORDS`. `neighboring`: {"add_remove", "replace_one"}. `delta`: the δ that the claim
    is stated for. `even_records`: records of even classes that tell as much: passes and pairs are
    planned for them.

    Raises ValueError if an attribute has more than `most_codes` codes, or the noise would not fit
    64 bits.
    """
    _check_codes(domain)
    known = settings_for(budget) if settings is None else settings
    n_attributes = domain.n_attributes
    reckoned = even_records or n_records or ASSUMED_RECORDS
    signal = residual_signal(reckoned, budget, n_attributes, domain.n_classes)
    passes, tables = n_passes(known, signal), n_pair_tables(signal, n_attributes)
    shares = _Shares(budget, checked_neighboring(neighboring), domain.n_classes)
    rest = 1 - known.totals - known.counts - known.scale - (known.choice if tables else 0)
    curvatures = passes - 1 + (tables > 0)
    each_curvature = known.curvature / max(curvatures, 1)
    rest -= known.curvature if curvatures else 0
    for_pairs = rest * known.pairs if tables else Fraction(0)
    of_singles, each = rest - for_pairs, table_shares(domain.sizes, budget, signal)
    names = [shorten(name, LONGEST_NAME) for name in domain.names]
    plan = ResidualPlan(
        domain=domain,
        budget=budget,
        neighboring=shares.neighboring,
        n_records=n_records,
        settings=known,
        totals=shares.step("totals", "class totals", known.totals),
        counts=shares.steps("counts", [f"counts of {name}" for name in names], known.counts),
        first=_first_pass(
            shares, known, of_singles * known.pass_share(0, passes, signal), each, names
        ),
        passes=tuple(
            _pass(
                shares,
                number,
                known.n_visits(number, n_attributes, signal),
                each_curvature,
                of_singles * known.pass_share(number, passes, signal),
                each,
                names,
                structure,
            )
            for number in range(1, passes)
        ),
        pairs=_pairs(shares, known, tables, each_curvature, for_pairs) if tables else None,
        delta=delta,
        even_records=even_records,
    )
    _check_noise(plan)
    return plan


def _check_codes(domain: Domain) -> None:
    """Refuse attributes of more codes than their effects' covariance may have."""
    largest, most = max(domain.sizes), most_codes(domain.n_classes)
    if largest > most:
        raise ValueError(
            f"an attribute has {largest} codes: expected at most {most}, for the covariance "
            f"of their effects is factored at every visit. Group codes, or give fewer edges."
        )


def _check_noise(plan: ResidualPlan) -> None:
    """Refuse a budget for which some step's noise could not be drawn, before any step is taken."""
    for step in plan.steps:
        if step.kind != "choice":
            _ = step.law  # refuses noise beyond 64 bits
        elif not step.can_be_drawn:
            raise ValueError(
                f"{plan.budget!r} is too large for exact choices: expected a smaller one, or "
                f"float('inf') for no noise."
            )


def _first_pass(
    shares: _Shares,
    settings: ResidualSettings,
    share: Fraction,
    each: Sequence[Fraction],
    names: Sequence[str],
) -> FirstPass:
    """Return the first pass: over all attributes, then the choice of a scale."""
    visits = (
        shares.step("residuals", f"pass 1: residuals of {name}", share * own)
        for name, own in zip(names, each, strict=True)
    )
    return FirstPass(
        visits=tuple(visits),
        scale=shares.step("choice", "pass 1: scale of all effects", settings.scale),
    )


def _pass(
    shares: _Shares,
    number: int,
    count: int,
    curvature: Fraction,
    share: Fraction,
    each: Sequence[Fraction],
    names: Sequence[str],
    structure: np.random.Generator,
) -> ResidualPass:
    """Return one pass after the first: over so many attributes, those of the largest effects.

    `each`: share of every attribute's table where all are visited.
    """
    name, order = f"pass {number + 1}", tuple(structure.permutation(len(each)).tolist())
    visits: tuple[ResidualStep, ...]
    if count < len(each):
        tables = [f"{name}: residuals, table {visit + 1}" for visit in range(count)]
        visits = shares.steps("residuals", tables, share)
    else:
        visits = tuple(
            shares.step("residuals", f"{name}: residuals of {names[i]}", share * each[i])
            for i in order
        )
    return ResidualPass(
        curvature=shares.step("curvature", f"{name}: mean curvature", curvature),
        visits=visits,
        order=order,
    )


def _pairs(
    shares: _Shares, settings: ResidualSettings, tables: int, curvature: Fraction, share: Fraction
) -> PairSteps:
    names = [f"pairs and triples, table {number + 1}" for number in range(tables)]
    counted = share * settings.pair_counts
    return PairSteps(
        curvature=shares.step("curvature", "pairs and triples: mean curvature", curvature),
        choices=shares.steps("choice", [f"{name}: which" for name in names], settings.choice),
        counts=shares.steps("counts", [f"{name}: counts" for name in names], counted),
        residuals=shares.steps(
            "residuals", [f"{name}: residuals" for name in names], share - counted
        ),
    )


def sequence_budget(
    epsilon: object,
    delta: object,
    rho: object,
    n_attributes: int,
    n_records: int | None,
    n_classes: int = 2,
) -> Budget:
    """Return the budget of the noise law that serves a claim of ε, (ε, δ) or ρ best.

    Raises BudgetError, TypeError if δ stands beside ρ, or a number is impossible.
    """
    first, *others = claiming_budgets(epsilon, delta, rho)
    if not others:
        return first
    return residual_budget(first, others[0], n_attributes, n_records, n_classes)


def residual_budget(
    pure: Budget,
    concentrated: Budget,
    n_attributes: int,
    n_records: int | None,
    n_classes: int = 2,
) -> Budget:
    """Return which of two budgets with the same claim buys more knowledge of the largest effects.

    A visit teaches one over the variance of its noise, and visits add. So a budget is worth
    ``Σ 1 / v`` over the passes, for an attribute that all of them visit. Laplace noise is ahead
    where there are few passes over few attributes.
    """
    if pure.is_infinite:
        return pure
    worth = [_worth(one, n_attributes, n_records, n_classes) for one in (pure, concentrated)]
    return pure if worth[0] >= worth[1] else concentrated


def _worth(budget: Budget, n_attributes: int, n_records: int | None, n_classes: int) -> float:
    settings = settings_for(budget)
    signal = residual_signal(n_records or ASSUMED_RECORDS, budget, n_attributes, n_classes)
    visits, passes = [], n_passes(settings, signal)
    for number in range(passes):
        visited = settings.n_visits(number, n_attributes, signal)
        share = settings.pass_share(number, passes, signal) / visited
        visits.append(ResidualStep("residuals", "", budget * share, "add_remove", n_classes))
    # of several classes that are alike, a record's residuals have this larger weights under "l2"
    heavier = 1.0
    if n_classes > 2 and budget.norm == "l2":
        heavier = 4 * (n_classes - 1) / n_classes
    return heavier * sum(1 / max(visit.variance, 1e-300) for visit in visits)
