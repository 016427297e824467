"""A residual forest as JSON and one array: the plan, its releases, and what was chosen.

All else follows: the steps are taken again with the answers that were released. The constants of
the method are those of the schema's version, so that a later change of them makes a new version.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released_residual import ReleasedResidualForestClassifier
from mrf_matrix.estimators.residual.report import residual_report
from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.files.container import Container
from mrf_matrix.files.fields import checked_object, checked_version, one_of
from mrf_matrix.files.models.errors import ModelFileError
from mrf_matrix.files.models.report import report_of
from mrf_matrix.files.models.report_claims import check_follows
from mrf_matrix.files.release_record import budget_of
from mrf_matrix.mechanisms import NEIGHBORING, Release
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS, Noise
from mrf_matrix.residual import ResidualPlan, ResidualStep, residual_plan
from mrf_matrix.residual.learning import learned

RESIDUAL_FORMAT = "mrf_matrix.residual_model"
RESIDUAL_VERSION = 1
ANSWERS = "<i8"
LARGEST_ANSWER = 2**62
MOST_RECORDS = 10**15
KEYS = {
    "format",
    "schema_version",
    "domain",
    "budget",
    "delta",
    "neighboring",
    "noise",
    "n_records",
    "orders",
    "choices",
    "n_answers",
    "report",
}

Attributes = tuple[int, ...]
Floats = NDArray[np.float64]
ResidualModel = ResidualForestClassifier | ReleasedResidualForestClassifier


def residual_content(model: ResidualModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON and the arrays of a fitted residual forest."""
    plan = model.plan_
    answers = np.concatenate([release.answers.ravel() for release in model.releases_])
    content = {
        "format": RESIDUAL_FORMAT,
        "schema_version": RESIDUAL_VERSION,
        "domain": model.domain_.to_dict(),
        "budget": {plan.budget.parameter: str(plan.budget.amount)},
        "delta": plan.delta,
        "neighboring": plan.neighboring,
        "noise": model.releases_[0].noise,
        "n_records": plan.n_records,
        "orders": [list(one.order) for one in plan.passes],
        "choices": [found and list(found) for found in model.choices_],
        "n_answers": len(answers),
        "report": model.privacy_report_.to_dict(),
    }
    return content, {"answers": answers.astype(ANSWERS)}


def residual_of(container: Container) -> ReleasedResidualForestClassifier:
    """Return the residual forest of a file.

    Raises
    ------
    ModelFileError, ValueError, TypeError, KeyError, ArithmeticError
        If something is missing, of another type, too large, or does not agree.
    """
    data = checked_object(container.data, KEYS, "model.json")
    checked_version(data, RESIDUAL_FORMAT, RESIDUAL_VERSION)
    domain = Domain.from_dict(data["domain"])
    plan = _plan(domain, data)
    if container.names != {"answers"}:
        raise ModelFileError("it has members that are no arrays of its releases.")
    n_answers = _whole(data["n_answers"], "n_answers", 2**31)
    answers = container.array("answers", ANSWERS, (n_answers,)).astype(np.int64)
    if not bool(np.all(np.abs(answers) <= LARGEST_ANSWER)):
        raise ModelFileError(f"answers: expected whole numbers up to {LARGEST_ANSWER}.")
    again = ReplayedReleases(domain.sizes, answers, _choices(data["choices"]), _noise(plan, data))
    with np.errstate(all="ignore"):  # what overflows is found below
        posterior = learned(plan, again).posterior
    if again.used != n_answers:
        raise ModelFileError(f"n_answers={n_answers}: its plan takes {again.used}.")
    arrays = [one for block in posterior.blocks for one in (block.mean, block.covariance)]
    arrays.append(np.array([posterior.base, posterior.shift]))
    if not all(bool(np.isfinite(one).all()) for one in arrays):
        raise ModelFileError("no finite posterior follows from its answers.")
    expected = residual_report(plan, again.releases)
    report = check_follows(report_of(data["report"]), expected)
    return ReleasedResidualForestClassifier(
        plan, tuple(again.releases), again.choices, posterior, plan.domain, report
    )


@dataclass(eq=False)
class ReplayedReleases:
    """Takes the steps of a plan with answers that were released before; there are no records.

    Attributes
    ----------
    sizes : tuple of int
    answers : ndarray of int64
        Of all releases, one after another.
    choices : tuple of (tuple of int or None)
    noise : {"exact", "research", "none"}
    used : int
        Answers that were taken so far.
    releases : list of Release
    """

    sizes: tuple[int, ...]
    answers: NDArray[np.int64]
    choices: tuple[Attributes | None, ...]
    noise: Noise
    used: int = 0
    releases: list[Release] = field(default_factory=list)

    def add(self, attributes: Sequence[int], effects: Floats) -> None:
        """Do nothing: there are no records."""

    def totals(self, step: ResidualStep) -> Floats:
        """Return the class totals that were released."""
        return np.asarray(self._taken(step, 1, 2, (1,))[0])

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> Floats:
        """Return the table that was released."""
        n_cells = prod(self.sizes[i] for i in attributes)
        sizes = (n_cells,) if step.kind == "counts" else (n_cells, step.n_values)
        return np.asarray(self._taken(step, n_cells, 1, sizes)[:, 0])

    def _taken(
        self, step: ResidualStep, n_cells: int, n_columns: int, sizes: tuple[int, ...]
    ) -> Floats:
        end = self.used + n_cells * n_columns
        if end > len(self.answers):
            raise ModelFileError(f"n_answers={len(self.answers)}: its plan takes more.")
        answers = self.answers[self.used : end].reshape(n_cells, n_columns)
        self.used = end
        self.releases.append(Release(step.mechanism(n_cells), answers, self.noise, sizes))
        return np.asarray(self.releases[-1].values / step.units)

    def choose(
        self, steps: Sequence[ResidualStep], candidates: Sequence[Attributes], penalties: Floats
    ) -> list[Attributes | None]:
        """Return what was chosen, if it could be."""
        found = list(self.choices)
        chosen = [one for one in found if one is not None]
        if len(found) != len(steps) or len(set(chosen)) < len(chosen):
            raise ModelFileError(f"choices: expected {len(steps)}, each table at most once.")
        if not set(chosen) <= set(candidates):
            raise ModelFileError("choices: expected pairs and triples that could be chosen.")
        return found


def _plan(domain: Domain, data: dict[str, Any]) -> ResidualPlan:
    """Return the plan that domain, budget and number of records make, with the orders given."""
    delta = data["delta"]
    if type(delta) is not float or not 0 <= delta < 1:
        raise ModelFileError("delta: expected a number from 0 to below 1.")
    n_records = data["n_records"]
    if n_records is not None:
        n_records = _whole(n_records, "n_records", MOST_RECORDS)
    plan = residual_plan(
        domain,
        budget_of(data["budget"]),
        np.random.default_rng(0),
        n_records=n_records,
        neighboring=one_of(data["neighboring"], NEIGHBORING, "neighboring"),
        delta=delta,
    )
    if len(sorted_classes(domain)[0]) != domain.n_classes:
        raise ModelFileError("domain: two classes of the target are the same.")
    orders = data["orders"]
    if not isinstance(orders, list) or len(orders) != len(plan.passes):
        raise ModelFileError(f"orders: expected a list of {len(plan.passes)}.")
    places = list(range(domain.n_attributes))
    for order in orders:
        if (
            not isinstance(order, list)
            or any(type(i) is not int for i in order)
            or sorted(order) != places
        ):
            raise ModelFileError("orders: expected each attribute once in each.")
    passes = (replace(p, order=tuple(o)) for p, o in zip(plan.passes, orders, strict=True))
    return replace(plan, passes=tuple(passes))


def _choices(data: Any) -> tuple[Attributes | None, ...]:
    if not isinstance(data, list) or not all(
        one is None or (isinstance(one, list) and all(type(i) is int for i in one)) for one in data
    ):
        raise ModelFileError("choices: expected a list of lists of attributes, or null.")
    return tuple(None if one is None else tuple(one) for one in data)


def _noise(plan: ResidualPlan, data: dict[str, Any]) -> Noise:
    noise: Noise = one_of(data["noise"], NOISE_KINDS, "noise")  # type: ignore[assignment]
    if plan.budget.is_infinite != (noise == "none"):
        raise ModelFileError("noise: expected 'none' with an infinite budget only.")
    return noise


def _whole(data: Any, where: str, most: int) -> int:
    if type(data) is not int or not 0 < data <= most:
        raise ModelFileError(f"{where}: expected a whole number from 1 to {most}.")
    return data
