"""Additive models: tables measured in turn, each on what earlier ones leave unexplained."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.stats import norm

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    list_of,
    whole_numbers,
)
from mrf_matrix.kinds.model import Kind, Known
from mrf_matrix.kinds.tables import MODEL
from mrf_matrix.posterior import (
    SCALES,
    ResidualPosterior,
    SeveralPosterior,
)
from mrf_matrix.release.curator import Curator
from mrf_matrix.release.plan import Transcript, records_of
from mrf_matrix.residual import ResidualPlan, residual_plan
from mrf_matrix.residual.learning import learned
from mrf_matrix.residual.questions import AskedSteps
from mrf_matrix.voting.intervals import Margins

PUBLIC = (
    "the domain and the classes",
    "the order of visits, and every step's share, sensitivity and noise",
    "the scales among which one is chosen, and how usual each is",
    "the neighbouring relation and the budget",
)
COMPOSITION = (
    "adaptive composition: each step's share was fixed before the data; which table it measures, "
    "and what a record adds to it, follow from releases and choices before it"
)

Sizes = tuple[int, ...]
AnyPosterior = ResidualPosterior | SeveralPosterior


@dataclass(frozen=True)
class Additive(Kind):
    """The kind: log odds as a sum of tables, each of residuals of those before it."""

    name: ClassVar[str] = "additive"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"orders", "even_records"})
    models_noise: ClassVar[bool] = True

    def learn(self, plan: ResidualPlan, curator: Curator) -> AnyPosterior:
        """Take every step; a later one asks for what earlier ones leave unexplained."""
        return learned(plan, AskedSteps(plan, curator))

    def probabilities(self, posterior: AnyPosterior, codes: Codes, sizes: Sizes) -> Array:
        """Return class probabilities, those of the posterior means of all effects, (b, k)."""
        return posterior.probabilities(codes)

    def log_odds(self, posterior: AnyPosterior, codes: Codes, sizes: Sizes) -> Array:
        """Return the log odds of the second of two classes, (b,), or of each class, (b, k)."""
        return posterior.log_odds(codes)

    def margins(self, posterior: AnyPosterior, codes: Codes, level: float) -> Margins:
        """Return leading classes, margins in log odds, and widths under the model."""
        first, ahead, variances = posterior.leading(codes)
        widths = float(norm.ppf(0.5 + level / 2)) * np.sqrt(variances)
        return first, ahead, widths, widths

    def public(self, plan: ResidualPlan) -> tuple[str, ...]:
        """Return what the claim takes for public."""
        return PUBLIC

    def notes(self, plan: ResidualPlan) -> tuple[str, ...]:
        """Return how it composes, and what is no claim."""
        units = max(step.units for step in plan.steps)
        return (COMPOSITION, f"sums of residuals are in units of 1/{units} record", MODEL)

    def numbers(self, posterior: AnyPosterior) -> Iterator[Array]:
        """Yield the arrays that must be finite."""
        for column in posterior.columns:
            yield np.array([column.base, column.shift])
            for block in column.blocks:
                yield from (block.mean, block.covariance)

    def structure(self, plan: ResidualPlan) -> JsonObject:
        """Return the orders of visits: all else follows from budget and domain."""
        even = records_of(plan.even_records, "even_records")
        return {"orders": [list(one.order) for one in plan.passes], "even_records": even}

    def plan_from(self, known: Known, structure: JsonObject) -> ResidualPlan:
        """Return the plan of orders."""
        even = records_of(structure["even_records"], "even_records")
        seed = np.random.default_rng(0)  # of orders, which are replaced
        plan = residual_plan(known.domain, known.budget, seed, **known.words, even_records=even)
        orders = list_of(structure["orders"], "orders", len(plan.passes), len(plan.passes))
        passes, places = [], set(range(known.domain.n_attributes))
        for one, order in zip(plan.passes, orders, strict=True):
            found = whole_numbers(order, "orders", length=len(places))
            if set(found) != places:
                raise FieldError("orders: expected each attribute once in each.")
            passes.append(one.in_order(found))
        return replace(plan, passes=tuple(passes))


ADDITIVE = Additive()


def scale_of(transcript: Transcript) -> float:
    """Return by how much of the sum of the first pass's effects was believed."""
    (place,) = transcript.choices[0]
    return float(SCALES[place])
