"""The privacy report of a `ResidualForestClassifier`: every release of the sequence."""

from collections.abc import Sequence

from mrf_matrix.base.provenance import Provenance, join
from mrf_matrix.labels import LabelPlan
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.planning.plans.verdict import with_verdict
from mrf_matrix.reports.privacy_report import CHOICE_LAW, Measurement, PrivacyReport
from mrf_matrix.residual import ResidualPlan, ResidualStep
from mrf_matrix.residual.step import CHOICES

PUBLIC = (
    "the domain and the classes",
    "the order of visits, and every step's share, sensitivity and noise",
    "the scales among which one is chosen, and how usual each is",
    "the neighbouring relation and the budget",
)


def residual_report(
    plan: ResidualPlan, releases: Sequence[Release], provenance: Provenance
) -> PrivacyReport:
    """Return the report of a sequence of releases.

    `releases`: one for each step that measures a table, in their order; `provenance`: of all that
    was released, choices among it.
    """
    left = iter(releases)
    made = [
        of_choice(step)
        if step.kind in CHOICES
        else Measurement.of(next(left), step.measured, weight=step.units)
        for step in plan.steps
    ]
    notes = (
        "adaptive composition: each step's share was fixed before the data; which table it "
        "measures, and what a record adds to it, follow from releases and choices before it",
        f"sums of residuals are in units of 1/{max(step.units for step in plan.steps)} record",
        "labels and probabilities are posteriors under a model: they have no expected error "
        "known without data",
    )
    known = join([provenance, *(one.provenance for one in releases)])
    return report_of_steps(plan, known, made, PUBLIC, notes)


def report_of_steps(
    plan: ResidualPlan | LabelPlan,
    provenance: Provenance,
    made: Sequence[Measurement],
    public: tuple[str, ...],
    notes: tuple[str, ...],
) -> PrivacyReport:
    """Return the report of a plan's steps, with the verdict where records are public."""
    claim = Claim(provenance, tuple(one.law for one in made), plan.delta)
    report = PrivacyReport(claim, tuple(made), public=public, notes=notes)
    return with_verdict(report, plan)


def of_table(step: ResidualStep, n_cells: int) -> Measurement:
    """Return the figures of a table of so many cells, before it is released."""
    mechanism, n_answers = step.mechanism(n_cells), n_cells * step.n_columns
    return Measurement.by(mechanism, step.measured, n_answers, weight=step.units)


def of_choice(step: ResidualStep) -> Measurement:
    """Return the figures of a choice."""
    return Measurement(
        measured=step.measured,
        budget=repr(step.budget),
        law=f"{CHOICE_LAW} of rate {float(step.choice_rate):.6g}",
        sensitivity=step.sensitivity,
        n_answers=1,
        column_sum=step.column_sum,
    )
