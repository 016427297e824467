"""The privacy report of a `PrivateForestClassifier`: choices, releases, and why."""

from collections.abc import Sequence
from dataclasses import replace

from mrf_matrix.estimators.residual.report import of_choice, sequence_statement
from mrf_matrix.mechanisms.measurement.release import READ_OFF
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.residual.settings import Budget
from mrf_matrix.residual.step import ResidualStep


def private_report(
    forest: PrivacyReport,
    choices: Sequence[ResidualStep],
    last: ResidualStep | None,
    budget: Budget,
    delta: float,
    notes: Sequence[str],
) -> PrivacyReport:
    """Return the report of a forest and of the choices before and after it.

    `forest`: of the forest alone; `choices`: that were made before; `last`: one made after;
    `budget`: the whole; `delta`: the δ that the claim is stated for, where the budget is zCDP; 0
    for none; `notes`: what comes before the forest's own notes.
    """
    after = () if last is None else (last,)
    made = (*map(of_choice, choices), *forest.measurements, *map(of_choice, after))
    statement = forest.statement
    if statement != READ_OFF and (choices or after or delta):
        laws = [one.law for one in made]
        claim = budget.claim(delta)
        statement = sequence_statement(claim, forest.neighboring, forest.noise, laws)
    return replace(
        forest,
        statement=statement,
        budget=repr(budget),
        measurements=made,
        public=(*forest.public, *(["the shares of all choices"] if choices or after else [])),
        notes=(*notes, *forest.notes),
        delta=delta,
    )
