"""The privacy report of releases: whatever it says is worked out from them."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

from mrf_matrix.base.provenance import Provenance, join
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.planning.blocks.block_part import BlockPart
from mrf_matrix.reports.privacy_report import Measurement, PrivacyReport


def report_of_releases(
    releases: Sequence[Release],
    measurements: Sequence[Measurement],
    delta: float,
    *rests_on: Provenance,
    **said: Any,
) -> PrivacyReport:
    """Return the report of releases, whose figures come from them.

    `delta`: that of the claim, or 0; `rests_on`: what else the claim rests on; `**said`: what else
    it says.
    """
    known = join([*(release.provenance for release in releases), *rests_on])
    claim = Claim(known, tuple(one.law for one in measurements), delta)
    return PrivacyReport(claim, tuple(measurements), **said)


def posterior_report(plan: BlockPart, release: Release, chosen: str, delta: float) -> PrivacyReport:
    """Return the report of the release; every figure comes from the release itself.

    `chosen`: how the blocks were chosen, in words; `delta`: that of the claim, or 0.
    """
    leaf, used = plan.weights[0], sum(map(len, plan.blocks))
    tables = f"tables of {len(plan.blocks)} blocks of {used} attributes, and class totals"
    report = report_of_releases(
        [release], [Measurement.of(release, tables, weight=leaf)], delta,
        expected_rms_per_leaf=sqrt(release.variance) / (leaf * float(release.scale)),
        notes=(
            chosen,
            "labels and probabilities are posteriors under a model: they have no expected error "
            "known without data",
        ),
    )  # fmt: skip
    paid = plan.forest.is_data_dependent
    return report.with_structure_that_was_paid_for() if paid else report


def root_mean(squares: float, count: int) -> float:
    """Return the root of a mean square from a sum of squares."""
    return sqrt(squares / count) if count else 0.0
