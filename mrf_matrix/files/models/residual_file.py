"""A residual forest as JSON and one array: the plan, its releases, and what was chosen.

All else follows: the steps are taken again with the answers that were released. The constants of
the method are those of the schema's version, so that a later change of them makes a new version.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from mrf_matrix.base.arrays import Array, Longs, Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    integer_of,
    list_of,
    number_of,
    versioned_of,
    whole_numbers,
)
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released_residual import ReleasedResidualForestClassifier
from mrf_matrix.estimators.residual.report import residual_report
from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.files.container import Container
from mrf_matrix.files.models.answers import check_answers
from mrf_matrix.files.models.report import LARGEST_DELTA, records_of, report_of
from mrf_matrix.files.models.report_claims import check_follows
from mrf_matrix.files.release_record import again_released, check_covered
from mrf_matrix.mechanisms import NEIGHBORING, Release
from mrf_matrix.mechanisms.budgets.budget import budget_of
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS, Noise
from mrf_matrix.posterior import SCALES, SumOfEffects
from mrf_matrix.residual import ResidualPlan, ResidualStep, residual_plan
from mrf_matrix.residual.learning import learned

RESIDUAL_FORMAT = "mrf_matrix.residual_model"
RESIDUAL_VERSION = 5
ANSWERS = "<i8"
KEYS = {
    "format", "schema_version", "domain", "budget", "delta", "neighboring", "noise", "n_records",
    "orders", "scale", "choices", "n_answers", "report",
}  # fmt: skip

Attributes = tuple[int, ...]
ResidualModel = ResidualForestClassifier | ReleasedResidualForestClassifier


def residual_content(model: ResidualModel) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON and the arrays of a fitted residual forest."""
    plan = model.plan_
    answers = np.concatenate([release.answers.ravel() for release in model.releases_])
    content: JsonObject = {
        "format": RESIDUAL_FORMAT,
        "schema_version": RESIDUAL_VERSION,
        "domain": model.domain_.to_dict(),
        "budget": plan.budget.to_dict(),
        "delta": plan.delta,
        "neighboring": plan.neighboring,
        "noise": model.releases_[0].noise,
        "n_records": records_of(plan.n_records),
        "orders": [list(one.order) for one in plan.passes],
        "scale": int(np.argmin(np.abs(SCALES - model.scale_))),
        "choices": [found and list(found) for found in model.choices_],
        "n_answers": len(answers),
        "report": model.privacy_report_.to_dict(),
    }
    if plan.even_records is not None:
        content["even_records"] = plan.even_records
    return content, {"answers": answers.astype(ANSWERS)}


def residual_of(container: Container) -> ReleasedResidualForestClassifier:
    """Return the residual forest of a file.

    Raises FieldError, ValueError, TypeError, KeyError, ArithmeticError if something is missing, of
    another type, too large, or does not agree.
    """
    data = versioned_of(
        container.data, "model.json", RESIDUAL_FORMAT, RESIDUAL_VERSION, KEYS, ("even_records",)
    )
    domain = Domain.from_dict(data["domain"])
    plan = _plan(domain, data)
    if container.names != {"answers"}:
        raise FieldError("it has members that are no arrays of its releases.")
    n_answers = integer_of(data["n_answers"], "n_answers", least=1)
    answers = container.array("answers", ANSWERS, (n_answers,)).astype(np.int64)
    check_answers(answers)
    scale = float(SCALES[integer_of(data["scale"], "scale", 0, len(SCALES) - 1)])
    chosen = _choices(data["choices"])
    claimed, noise = report_of(data["report"]), _noise(plan, data)
    check_covered(claimed.claim, plan.budget, plan.neighboring, noise)
    known = claimed.provenance | domain.provenance
    again = ReplayedReleases(domain.sizes, answers, scale, chosen, noise, known)
    with np.errstate(all="ignore"):  # what overflows is found below
        posterior = learned(plan, again)
    if again.used != n_answers:
        raise FieldError(f"n_answers={n_answers}: its plan takes {again.used}.")
    blocks = [block for column in posterior.columns for block in column.blocks]
    arrays = [one for block in blocks for one in (block.mean, block.covariance)]
    arrays += [np.array([column.base, column.shift]) for column in posterior.columns]
    if not all(bool(np.isfinite(one).all()) for one in arrays):
        raise FieldError("no finite posterior follows from its answers.")
    report = check_follows(claimed, residual_report(plan, again.releases, known))
    return ReleasedResidualForestClassifier(
        plan, tuple(again.releases), scale, chosen, posterior, plan.domain, report
    )


@dataclass(eq=False)
class ReplayedReleases:
    """Takes the steps of a plan with answers that were released before; there are no records."""

    sizes: tuple[int, ...]
    answers: Longs  # of all releases, one after another
    chosen_scale: float
    choices: tuple[Attributes | None, ...]
    noise: Noise
    provenance: Provenance
    used: int = 0  # answers that were taken so far
    releases: list[Release] = field(default_factory=list)

    def add(self, attributes: Sequence[int], effects: Array) -> None:
        """Do nothing: there are no records."""

    def totals(self, step: ResidualStep) -> Array:
        """Return the class totals that were released."""
        return np.asarray(self._taken(step, 1, (1,))[0])

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> Array:
        """Return the table that was released."""
        n_cells = prod(self.sizes[i] for i in attributes)
        sizes = (n_cells,) if step.kind == "counts" else (n_cells, step.n_values)
        return self._taken(step, n_cells, sizes)

    def _taken(self, step: ResidualStep, n_cells: int, sizes: tuple[int, ...]) -> Array:
        end = self.used + n_cells * step.n_columns
        if end > len(self.answers):
            raise FieldError(f"n_answers={len(self.answers)}: its plan takes more.")
        answers = self.answers[self.used : end].reshape(n_cells, step.n_columns)
        self.used = end
        mechanism = step.mechanism(n_cells)
        release = again_released(mechanism, answers, self.noise, sizes, self.provenance)
        self.releases.append(release)
        return np.asarray(self.releases[-1].values / step.units)

    def scale(self, step: ResidualStep, effects: SumOfEffects) -> float:
        """Return the scale that was chosen."""
        return self.chosen_scale

    def choose(
        self, steps: Sequence[ResidualStep], candidates: Sequence[Attributes], penalties: Array
    ) -> list[Attributes | None]:
        """Return what was chosen, if it could be."""
        found = list(self.choices)
        chosen = [one for one in found if one is not None]
        if len(found) != len(steps) or len(set(chosen)) < len(chosen):
            raise FieldError(f"choices: expected {len(steps)}, each table at most once.")
        if not set(chosen) <= set(candidates):
            raise FieldError("choices: expected pairs and triples that could be chosen.")
        return found


def _plan(domain: Domain, data: JsonObject) -> ResidualPlan:
    """Return the plan that domain, budget and number of records make, with the orders given."""
    n_records = records_of(data["n_records"])
    even = None
    if "even_records" in data:
        even = records_of(data["even_records"], "even_records")
    plan = residual_plan(
        domain,
        budget_of(data["budget"]),
        np.random.default_rng(0),
        n_records=n_records,
        neighboring=one_word("neighboring", data["neighboring"], NEIGHBORING),
        delta=number_of(data["delta"], "delta", most=LARGEST_DELTA),
        even_records=even,
    )
    if len(sorted_classes(domain)[0]) != domain.n_classes:
        raise FieldError("domain: two of the classes are the same.")
    orders = list_of(data["orders"], "orders", len(plan.passes), len(plan.passes))
    places = set(range(domain.n_attributes))
    passes = []
    for one, given in zip(plan.passes, orders, strict=True):
        order = whole_numbers(given, "orders", length=len(places))
        if set(order) != places:
            raise FieldError("orders: expected each attribute once in each.")
        passes.append(one.in_order(order))
    return replace(plan, passes=tuple(passes))


def _choices(data: object) -> tuple[Attributes | None, ...]:
    given = list_of(data, "choices")
    return tuple(None if one is None else whole_numbers(one, "choices") for one in given)


def _noise(plan: ResidualPlan, data: JsonObject) -> Noise:
    noise: Noise = one_word("noise", data["noise"], NOISE_KINDS)
    if plan.budget.is_infinite != (noise == "none"):
        raise FieldError("noise: expected 'none' with an infinite budget only.")
    return noise
