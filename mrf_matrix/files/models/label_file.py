"""A tree of labels as JSON: the plan, which attributes are cut where, and what the cells said."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    list_of,
    number_of,
    versioned_of,
    whole_numbers,
)
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
from mrf_matrix.estimators.labelled.report import label_report
from mrf_matrix.estimators.released.released_labels import ReleasedLabelTreeClassifier
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.files.container import Container
from mrf_matrix.files.models.report import LARGEST_DELTA, records_of, report_of
from mrf_matrix.files.models.report_claims import check_follows
from mrf_matrix.forests.sources.halves import Halves, usable_attributes
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.labels.plan import why_no_labels
from mrf_matrix.mechanisms import NEIGHBORING
from mrf_matrix.mechanisms.budgets.budget import budget_of

LABEL_FORMAT = "mrf_matrix.label_model"
LABEL_VERSION = 1
KEYS = {
    "format", "schema_version", "domain", "budget", "delta", "neighboring", "noise", "n_records",
    "attributes", "upper", "labels", "report",
}  # fmt: skip

LabelModel = LabelTreeClassifier | ReleasedLabelTreeClassifier


def label_content(model: LabelModel) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON of a fitted tree of labels; it has no arrays."""
    plan, halves = model.plan_, model.halves_
    content: JsonObject = {
        "format": LABEL_FORMAT,
        "schema_version": LABEL_VERSION,
        "domain": model.domain_.to_dict(),
        "budget": plan.budget.to_dict(),
        "delta": plan.delta,
        "neighboring": plan.neighboring,
        "noise": model.privacy_report_.noise,
        "n_records": records_of(plan.n_records),
        "attributes": list(halves.attributes),
        "upper": [np.flatnonzero(side).tolist() for side in halves.upper],
        "labels": model.labels_.tolist(),
        "report": model.privacy_report_.to_dict(),
    }
    return content, {}


def label_of(container: Container) -> ReleasedLabelTreeClassifier:
    """Return the tree of labels of a file.

    Raises FieldError, ValueError, TypeError, KeyError, ArithmeticError if something is missing, of
    another type, too large, or does not agree.
    """
    data = versioned_of(container.data, "model.json", LABEL_FORMAT, LABEL_VERSION, KEYS)
    domain = Domain.from_dict(data["domain"])
    plan = _plan(domain, data)
    halves = _halves(domain, data, len(plan.candidates[0].attributes))
    plan = replace(plan, candidates=(halves,))
    if container.names:
        raise FieldError("it has arrays: expected none.")
    labels = whole_numbers(data["labels"], "labels", most=domain.n_classes - 1, length=plan.n_cells)
    noise = one_word("noise", data["noise"], ("exact", "research", "none"))
    if plan.budget.is_infinite != (noise == "none"):
        raise FieldError("noise: expected 'none' with an infinite budget only.")
    report = check_follows(report_of(data["report"]), label_report(plan, noise))
    return ReleasedLabelTreeClassifier(plan, np.array(labels, dtype=np.int64), domain, report)


def _plan(domain: Domain, data: JsonObject) -> LabelPlan:
    """Return the plan that domain, budget and number of records make."""
    n_records = records_of(data["n_records"])
    if (reason := why_no_labels(domain)) is not None:
        raise FieldError(reason)
    if len(sorted_classes(domain)[0]) != domain.n_classes:
        raise FieldError("domain: two of the classes are the same.")
    return label_plan(
        domain,
        budget_of(data["budget"]),
        np.random.default_rng(0),
        n_records=n_records,
        neighboring=one_word("neighboring", data["neighboring"], NEIGHBORING),
        delta=number_of(data["delta"], "delta", most=LARGEST_DELTA),
    )


def _halves(domain: Domain, data: JsonObject, n_cut: int) -> Halves:
    """Return which attributes are cut, each with codes on both sides."""
    most = domain.n_attributes - 1
    cut = whole_numbers(data["attributes"], "attributes", most=most, length=n_cut)
    if any(one >= following for one, following in pairwise(cut)):
        raise FieldError("attributes: expected each after the one before.")
    if not set(cut) <= set(usable_attributes(domain)):  # sides are written out below
        raise FieldError("attributes: expected some of 2 codes or more that can be cut.")
    sides = []
    for i, upper in zip(cut, list_of(data["upper"], "upper", n_cut, n_cut), strict=True):
        size = domain.sizes[i]
        above = set(whole_numbers(upper, "upper", most=size - 1))
        if not 0 < len(above) < size:
            raise FieldError("upper: expected some codes of each attribute, not all.")
        sides.append(tuple(code in above for code in range(size)))
    return Halves(cut, tuple(sides))
