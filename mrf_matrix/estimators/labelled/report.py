"""The privacy report of a `LabelTreeClassifier`: which cells, and what they said."""

from mrf_matrix.estimators.residual.report import of_choice, report_of_steps
from mrf_matrix.labels import LabelPlan
from mrf_matrix.reports.privacy_report import PrivacyReport

PUBLIC = (
    "the domain and the classes",
    "the sets of attributes that may be chosen, and where each is cut",
    "the share, sensitivity and rate of the choice and of the labels",
    "the neighbouring relation and the budget",
)

NOTES = (
    "parallel composition: a record lies in one of the cells, so that each label is chosen at the "
    "whole rate",
    "probabilities are what labels of such a law are worth under a public prior of the classes' "
    "shares in a cell: nothing but labels is measured",
)


def label_report(plan: LabelPlan, noise: str) -> PrivacyReport:
    """Return the report of a tree of labels.

    `noise` {"exact", "research"}: of a finite budget.
    """
    made = [of_choice(step, plan.n_cells if step is plan.labels else 1) for step in plan.steps]
    drawn = "none" if plan.budget.is_infinite else noise
    return report_of_steps(plan, drawn, made, PUBLIC, NOTES)
