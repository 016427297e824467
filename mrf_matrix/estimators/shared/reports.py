"""What a release may say of its privacy; every figure comes from the releases."""

from collections.abc import Sequence

from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.verdict import with_verdict
from mrf_matrix.reports.privacy_report import (
    Measurement,
    PrivacyReport,
    report_of_releases,
    root_mean,
)


def structure_notes(ensembles: Sequence[Ensemble]) -> tuple[str, ...]:
    """Return what structures cost within the claim, and where trees are less deep than asked."""
    spent = {one for part in ensembles for one in part.forest.provenance.spendings}
    told = sorted(f"the forest's structure cost {one.budget} of it, before this" for one in spent)
    depths = {one.depth_note: None for one in ensembles if one.depth_note is not None}
    return (*told, *depths)


def training_report(
    kind: Kind, parts: Sequence[PlanPart], releases: Sequence[Release], delta: float
) -> PrivacyReport:
    """Return the report of a training release, for a claim of δ; figures are the releases'."""
    measurements = [
        Measurement.of(release, _measured(kind, part))
        for part, release in zip(parts, releases, strict=True)
    ]
    report = report_of_releases(
        releases, measurements, delta, *(part.provenance for part in parts),
        expected_rms_per_leaf=expected_rms_per_leaf(parts),
        notes=structure_notes([part.ensemble for part in parts]),
    )  # fmt: skip
    paid = any(part.forest.is_data_dependent for part in parts)
    return report.with_structure_that_was_paid_for() if paid else report


def plan_report(plan: Plan, releases: Sequence[Release]) -> PrivacyReport:
    """Return the report, with signal and noise in words where the number of records is public."""
    report = training_report(plan.kind, plan.parts, releases, plan.delta)
    return with_verdict(report, plan)


def _measured(kind: Kind, part: PlanPart) -> str:
    family = f" by strategy {part.strategy.method!r}" if part.strategy else ""
    return kind.measured + family


def expected_rms_per_leaf(parts: Sequence[PlanPart]) -> float:
    """Return the root-mean-square error of one leaf value, in records, known without data."""
    return root_mean(
        sum(part.total_square for part in parts), sum(part.forest.n_leaves for part in parts)
    )
