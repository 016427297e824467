"""The privacy report of a `PrivateForestClassifier`: choices, releases, and why."""

from collections.abc import Sequence
from dataclasses import replace

from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.residual.report import of_choice
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.planning.private import PrivatePlan
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.residual.step import ResidualStep


def private_report(
    forest: PrivacyReport,
    choices: Sequence[ResidualStep],
    provenance: Provenance,
    delta: float,
    notes: Sequence[str],
) -> PrivacyReport:
    """Return the report of a forest and of the choices before it.

    `forest`: of the forest alone; `choices`: that were made before; `provenance`: of all that was
    released; `delta`: the δ that the claim is stated for, where the budget is zCDP; 0 for none;
    `notes`: what comes before the forest's own notes.
    """
    made = (*map(of_choice, choices), *forest.measurements)
    if choices:
        forest = forest.with_structure_that_was_paid_for()
    claim = Claim(forest.provenance | provenance, tuple(one.law for one in made), delta)
    return replace(
        forest,
        claim=claim,
        measurements=made,
        public=(*forest.public, *(["the shares of all choices"] if choices else [])),
        notes=(*notes, *forest.notes),
    )


def what_was_chosen(
    plan: PrivatePlan, domain: Domain, screened: tuple[int, ...] | None
) -> list[str]:
    """Say what screening came to; `screened`: attributes that were kept, None for all."""
    if screened is not None:
        return [f"screening kept {', '.join(str(domain.names[i]) for i in screened)}"]
    if plan.chosen.screening is not None:
        return ["screening: few attributes do not tell enough, all are used"]
    return []
