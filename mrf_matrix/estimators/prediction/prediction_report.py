"""What may be claimed of all batches of queries that one fit has answered."""

from mrf_matrix.estimators.prediction.vote_book import FittedPrediction
from mrf_matrix.kinds.matrix import structure_notes
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.reports.privacy_report import (
    Measurement,
    PrivacyReport,
    report_of_releases,
    root_mean,
)


def prediction_report(fitted: FittedPrediction, note: str) -> PrivacyReport:
    """Return the report of everything released since `fit`; figures come from the releases.

    `note`: what the claim hangs on.
    """
    book, relation = fitted.book, fitted.bill.neighboring
    delta = fitted.measuring.delta
    answered = book.batches
    spent, lost = book.spent, book.n_charged - book.n_drawn
    notes: tuple[str, ...] = (note,)
    if lost:
        notes += (
            f"{lost} batch{'es' if lost > 1 else ''} failed after the charge: nothing came out, "
            f"but what was charged counts as spent",
        )
    planned = "" if spent is None else repr(book.budget)
    if not answered:
        claim = Claim(book.provenance, (), delta, relation)
        return PrivacyReport(claim, (), notes=notes, planned=planned)
    releases = [release for batch in answered for release in batch.releases]
    squares = sum(float(b.plan.multiplicity @ b.plan.row_variances) for b in answered)
    count = sum(int(b.plan.multiplicity.sum()) for b in answered)
    measurements = [
        Measurement.of(release, _measured(part))
        for batch in answered
        for part, release in zip(batch.plan.parts, batch.releases, strict=True)
    ]
    return report_of_releases(
        releases, measurements, delta, book.provenance, planned=planned,
        expected_rms_per_vote=root_mean(squares, count),
        notes=(*notes, *structure_notes(fitted.forests.ensembles)),
    )  # fmt: skip


def _measured(part: PlanPart) -> str:
    if part.strategy is None:
        return "every query"
    return f"votes by strategy {part.strategy.method!r}"
