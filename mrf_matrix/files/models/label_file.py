"""A tree of labels as JSON: the plan, the cut of every node, and what the cells said.

Their noisy class counts, where there are any, are an array.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from mrf_matrix.base.arrays import Longs, Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    integer_of,
    list_of,
    number_of,
    object_of,
    versioned_of,
    whole_numbers,
)
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
from mrf_matrix.estimators.labelled.report import label_report
from mrf_matrix.estimators.released.released_labels import ReleasedLabelTreeClassifier
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.files.container import Container
from mrf_matrix.files.models.answers import check_answers
from mrf_matrix.files.models.report import LARGEST_DELTA, records_of, report_of
from mrf_matrix.files.models.report_claims import check_follows
from mrf_matrix.files.release_record import check_covered
from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.forests.sources.cuts import Cut, usable_attributes
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.labels.plan import why_no_labels
from mrf_matrix.mechanisms import NEIGHBORING
from mrf_matrix.mechanisms.budgets.budget import budget_of

LABEL_FORMAT = "mrf_matrix.label_model"
LABEL_VERSION = 7
COUNTS = "<i8"
KEYS = {
    "format", "schema_version", "domain", "budget", "delta", "neighboring", "noise", "n_records",
    "cuts", "labels", "report",
}  # fmt: skip

LabelModel = LabelTreeClassifier | ReleasedLabelTreeClassifier


def label_content(model: LabelModel) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON of a fitted tree of labels, and its counts."""
    plan, tree = model.plan_, model.tree_
    content: JsonObject = {
        "format": LABEL_FORMAT,
        "schema_version": LABEL_VERSION,
        "domain": model.domain_.to_dict(),
        "budget": plan.budget.to_dict(),
        "delta": plan.delta,
        "neighboring": plan.neighboring,
        "noise": model.privacy_report_.noise,
        "n_records": records_of(plan.n_records),
        "cuts": [
            {"attribute": cut.attribute, "upper": np.flatnonzero(cut.upper).tolist()}
            for cut in tree.cuts
        ],
        "labels": tree.labels.tolist(),
        "report": model.privacy_report_.to_dict(),
    }
    return content, {} if tree.counts is None else {"counts": tree.counts.astype(COUNTS)}


def label_of(container: Container) -> ReleasedLabelTreeClassifier:
    """Return the tree of labels of a file.

    Raises FieldError, ValueError, TypeError, KeyError, ArithmeticError if something is missing, of
    another type, too large, or does not agree.
    """
    data = versioned_of(container.data, "model.json", LABEL_FORMAT, LABEL_VERSION, KEYS)
    domain = Domain.from_dict(data["domain"])
    plan = _plan(domain, data)
    counts = _counts(container, plan)
    nodes = list_of(data["cuts"], "cuts", plan.n_cells - 1, plan.n_cells - 1)
    usable = set(usable_attributes(domain))
    cuts = tuple(_cut(domain, usable, node) for node in nodes)
    labels = whole_numbers(data["labels"], "labels", most=domain.n_classes - 1, length=plan.n_cells)
    noise = one_word("noise", data["noise"], ("exact", "research", "none"))
    if plan.budget.is_infinite != (noise == "none"):
        raise FieldError("noise: expected 'none' with an infinite budget only.")
    claimed = report_of(data["report"])
    check_covered(claimed.claim, plan.budget, plan.neighboring, noise)
    known = claimed.provenance | domain.provenance
    report = check_follows(claimed, label_report(plan, known))
    tree = LabelTree(cuts, np.array(labels, dtype=np.int64), counts, known)
    return ReleasedLabelTreeClassifier(replace(plan, cuts=cuts), tree, domain, report)


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


def _counts(container: Container, plan: LabelPlan) -> Longs | None:
    """Return the noisy class counts of the cells, where the plan releases them."""
    expected = set() if plan.counts is None else {"counts"}
    if container.names != expected:
        raise FieldError("it has other arrays than its plan releases.")
    if plan.counts is None:
        return None
    counts = container.array("counts", COUNTS, (plan.n_cells, plan.n_classes)).astype(np.int64)
    check_answers(counts)
    return counts


def _cut(domain: Domain, usable: set[int], node: object) -> Cut:
    """Return the cut of a node, with codes on both sides and the first below."""
    data = object_of(node, "cuts", {"attribute", "upper"})
    attribute = integer_of(data["attribute"], "attribute", most=domain.n_attributes - 1)
    if attribute not in usable:  # sides are written out below
        raise FieldError("attribute: expected one of 2 codes or more that can be cut.")
    size = domain.sizes[attribute]
    upper = whole_numbers(data["upper"], "upper", least=1, most=size - 1)
    if not upper or any(one >= following for one, following in pairwise(upper)):
        raise FieldError("upper: expected some codes, each after the one before.")
    above = np.zeros(size, dtype=np.bool_)
    above[list(upper)] = True
    return Cut.of(attribute, above)
