"""The privacy report of a `PosteriorForestClassifier`."""

from math import sqrt

from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockPart
from mrf_matrix.reports.privacy_report import Measurement, PrivacyReport, statement_of


def posterior_report(plan: BlockPart, release: Release, chosen: str, delta: float) -> PrivacyReport:
    """Return the report of the release; every figure comes from the release itself.

    `chosen`: how the blocks were chosen, in words; `delta`: that of the claim, or 0.
    """
    blocks = plan.blocks
    used = sum(map(len, blocks))
    leaf = plan.weights[0] * float(release.scale)
    report = PrivacyReport(
        statement=statement_of([release], release.budget, delta),
        budget=repr(release.budget),
        neighboring=release.neighboring,
        noise=release.noise,
        measurements=(
            Measurement.of(
                release,
                f"tables of {len(blocks)} blocks of {used} attributes, and class totals",
                weight=plan.weights[0],
            ),
        ),
        expected_rms_per_leaf=sqrt(release.variance) / leaf,
        notes=(
            chosen,
            "labels and probabilities are posteriors under a model: they have no expected error "
            "known without data",
        ),
        delta=delta,
    )
    return report.of_releases([release])
