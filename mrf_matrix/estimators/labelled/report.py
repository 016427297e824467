"""The privacy report of a `LabelTreeClassifier`: choices of trees and labels, and counts."""

from mrf_matrix.base.provenance import Provenance
from mrf_matrix.estimators.residual.report import of_choice, of_table, report_of_steps
from mrf_matrix.labels import LabelPlan
from mrf_matrix.reports.privacy_report import PrivacyReport

PUBLIC = (
    "the domain and the classes",
    "the cuts that a node may have, and the depth",
    "the sensitivity and the rate of the draw",
    "the neighbouring relation and the budget",
)

ONE_CHOICE = (
    "tree and labels are one choice in each round: all are weighed by how many records they are "
    "right on"
)
TWO_ROUNDS = (
    "the labels of the first tree are forgotten; below each of its cells another one is drawn, of "
    "the records of that cell alone"
)
PROBABILITIES = (
    "probabilities are what {said} of such a law are worth under a public prior of the classes' "
    "shares in a cell: nothing but the tree and its {said} is released"
)


def label_report(plan: LabelPlan, provenance: Provenance) -> PrivacyReport:
    """Return the report of a tree of labels, whose releases are of this provenance."""
    made = [of_choice(one.step) for one in plan.rounds]
    if plan.counts is not None:
        made.append(of_table(plan.counts, plan.n_cells))
    said = "labels" if plan.counts is None else "labels and counts"
    rounds = (TWO_ROUNDS,) if len(plan.rounds) > 1 else ()
    notes = (ONE_CHOICE, *rounds, PROBABILITIES.format(said=said))
    return report_of_steps(plan, provenance, made, PUBLIC, notes)
