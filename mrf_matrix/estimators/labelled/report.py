"""The privacy report of a `LabelTreeClassifier`: one choice among trees and labels."""

from mrf_matrix.estimators.residual.report import of_choice, report_of_steps
from mrf_matrix.labels import LabelPlan
from mrf_matrix.reports.privacy_report import PrivacyReport

PUBLIC = (
    "the domain and the classes",
    "the cuts that a node may have, and the depth",
    "the sensitivity and the rate of the draw",
    "the neighbouring relation and the budget",
)

NOTES = (
    "tree and labels are one choice: all of them are weighed by how many records they are right on",
    "probabilities are what labels of such a law are worth under a public prior of the classes' "
    "shares in a cell: nothing but the tree and its labels is released",
)


def label_report(plan: LabelPlan, noise: str) -> PrivacyReport:
    """Return the report of a tree of labels.

    `noise` {"exact", "research"}: of a finite budget.
    """
    made = [of_choice(step) for step in plan.steps]
    drawn = "none" if plan.budget.is_infinite else noise
    return report_of_steps(plan, drawn, made, PUBLIC, NOTES)
