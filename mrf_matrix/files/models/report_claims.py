"""What a report in a file claims, held against everything else that the file says.

A file cannot prove that noise was drawn, nor which strategy was measured where it does not hold
one. What it says must agree all the same: a charge in its provenance covers the budgets of the
measurements, the statement follows from both, each law is what its sensitivity and budget need, and
the expected error is that of the leaves.
"""

from collections.abc import Sequence
from math import isclose

import numpy as np

from mrf_matrix.base.fields import FieldError
from mrf_matrix.base.provenance import Spending
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms.budgets.budget import total_budget
from mrf_matrix.mechanisms.budgets.claim import squared_factor
from mrf_matrix.mechanisms.measurement.mechanism import noise_for
from mrf_matrix.reports.privacy_report import (
    Measurement,
    PrivacyReport,
    root_mean,
    stated_budget,
)
from mrf_matrix.voting.leaf_noise import LeafNoise

PRINTED = 1e-5  # relative rounding of a scale in print

AGREEMENT = 1e-2
"""Relative difference of the expected error from that of the leaves: a rounded strategy's."""


def check_consistent(report: PrivacyReport, noises: Sequence[tuple[Forest, LeafNoise]]) -> None:
    """Refuse a report that contradicts itself or the noise of the leaves in its file.

    `noises`: the noise of each ensemble's leaves.

    Raises FieldError, ValueError, ArithmeticError if they disagree.
    """
    if len(report.measurements) != len(noises):
        raise FieldError(
            f"report: {len(report.measurements)} measurements of {len(noises)} ensembles: "
            f"expected one for each."
        )
    spent = total_budget([stated_budget(one.budget) for one in report.measurements])
    own = [one for one in report.claim.spendings if one.covers(spent, one.neighboring, one.noise)]
    if not own:
        raise FieldError(
            f"report: budget {report.budget!r}; those of its measurements add up to {spent!r}, "
            f"which no charge in its provenance covers."
        )
    paid = own[0]
    for measurement in report.measurements:
        _check_law(measurement, paid)
    _check_errors(report, noises, paid.noise)


def _check_law(measurement: Measurement, report: Spending) -> None:
    """Refuse noise that is smaller than the measurement's budget needs."""
    budget = stated_budget(measurement.budget)
    if budget.is_infinite != (report.noise == "none"):
        raise FieldError(
            f"report: noise {report.noise!r} with {budget!r}: expected 'none' with an infinite "
            f"budget only."
        )
    factor = squared_factor(report.neighboring, budget.norm, nonnegative=True)  # the least it is
    needed = noise_for(measurement.column_sum, factor, budget)
    name, _, scale = measurement.law.partition(" of scale ")
    if name != needed.name or (scale and not float(scale) >= float(needed.scale) * (1 - PRINTED)):
        raise FieldError(
            f"report: law {measurement.law!r}: {budget!r} under {report.neighboring} neighbours "
            f"needs {needed} for column sums of {measurement.column_sum}."
        )
    if bool(scale) == budget.is_infinite:
        raise FieldError(f"report: law {measurement.law!r}: expected {str(needed)!r}.")


def _check_errors(
    report: PrivacyReport, noises: Sequence[tuple[Forest, LeafNoise]], drawn: str
) -> None:
    """Refuse an expected error that is not that of the leaves, and noise that is not there."""
    known = [noise.node_variances[forest.leaves] for forest, noise in noises]
    for variances in known:
        if bool(variances.any()) != (drawn != "none"):
            raise FieldError(f"report: noise {drawn!r}: not that of the node_variances.")
    claimed = report.expected_rms_per_leaf
    found = root_mean(float(sum(map(np.sum, known))), sum(map(len, known)))
    if claimed is None or not isclose(claimed, found, rel_tol=AGREEMENT):
        raise FieldError(
            f"report: expected_rms_per_leaf={claimed}; the node_variances give {found:.6g}."
        )
