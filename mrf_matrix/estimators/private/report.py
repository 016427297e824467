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
    last: ResidualStep | None,
    provenance: Provenance,
    delta: float,
    notes: Sequence[str],
) -> PrivacyReport:
    """Return the report of a forest and of the choices before and after it.

    `forest`: of the forest alone; `choices`: that were made before; `last`: one made after;
    `provenance`: of all that was released; `delta`: the δ that the claim is stated for, where the
    budget is zCDP; 0 for none; `notes`: what comes before the forest's own notes.
    """
    after = () if last is None else (last,)
    made = (*map(of_choice, choices), *forest.measurements, *map(of_choice, after))
    if choices:
        forest = forest.with_structure_that_was_paid_for()
    claim = Claim(forest.provenance | provenance, tuple(one.law for one in made), delta)
    return replace(
        forest,
        claim=claim,
        measurements=made,
        public=(*forest.public, *(["the shares of all choices"] if choices or after else [])),
        notes=(*notes, *forest.notes),
    )


def what_was_chosen(
    plan: PrivatePlan, domain: Domain, screened: tuple[int, ...] | None, trust: float | None
) -> list[str]:
    """Say what the choices of a plan came to.

    `screened`: attributes that were kept; None for all; `trust`: the factor of votes, if any.
    """
    told = []
    if screened is not None:
        told.append(f"screening kept {', '.join(str(domain.names[i]) for i in screened)}")
    elif plan.chosen.screening is not None:
        told.append("screening: few attributes do not tell enough, all are used")
    if trust is not None:
        told.append(f"votes are believed {trust:.3g} times as far as their tables imply")
    return told
