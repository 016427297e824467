"""The privacy report of a `PosteriorForestClassifier`."""

from math import sqrt

from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockPart
from mrf_matrix.reports.privacy_report import Measurement, PrivacyReport, report_of_releases


def posterior_report(plan: BlockPart, release: Release, chosen: str, delta: float) -> PrivacyReport:
    """Return the report of the release; every figure comes from the release itself.

    `chosen`: how the blocks were chosen, in words; `delta`: that of the claim, or 0.
    """
    leaf, used = plan.weights[0], sum(map(len, plan.blocks))
    tables = f"tables of {len(plan.blocks)} blocks of {used} attributes, and class totals"
    return report_of_releases(
        [release], [Measurement.of(release, tables, weight=leaf)], release.budget, delta,
        expected_rms_per_leaf=sqrt(release.variance) / (leaf * float(release.scale)),
        notes=(
            chosen,
            "labels and probabilities are posteriors under a model: they have no expected error "
            "known without data",
        ),
    )  # fmt: skip
