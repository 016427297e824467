"""What a report in a file claims, held against everything else that the file says.

A file cannot prove that noise was drawn, nor which strategy was measured where it does not hold
one. What it says must agree all the same: the statement with budget, relation and laws, the budget
with those of the measurements, each law with what its sensitivity and budget need, and the expected
error with the noise of the leaves. Where the file holds the release, the report follows from it.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from math import isclose

import numpy as np

from mrf_matrix.base.fields import FieldError
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms.budgets.budget import total_budget
from mrf_matrix.mechanisms.budgets.claim import squared_factor
from mrf_matrix.mechanisms.measurement.mechanism import noise_for
from mrf_matrix.mechanisms.measurement.release import READ_OFF
from mrf_matrix.reports.privacy_report import (
    DENIAL,
    PUBLIC_NUMBER,
    Measurement,
    PrivacyReport,
    private_claim,
)
from mrf_matrix.reports.release_report import root_mean
from mrf_matrix.reports.stated_budget import stated_budget
from mrf_matrix.voting.leaf_noise import LeafNoise

PRINTED = 1e-5  # relative rounding of a scale in print

AGREEMENT = 1e-2
"""Relative difference of the expected error from that of the leaves: a rounded strategy's."""


def check_follows(report: PrivacyReport, expected: PrivacyReport) -> PrivacyReport:
    """Return the report that a file's release implies, with the notes of the one that it claims.

    `report`: what the file claims. It may deny more: that its domain was read off the records, or
    that their number was public; `expected`: what follows from its release. Older files do not say
    of a public number that it was.

    Raises FieldError if the two differ in more than the notes.
    """
    if report.statement == READ_OFF != expected.statement:
        expected = expected.without_claim()
    if PUBLIC_NUMBER in (*report.public, *expected.public):
        report, expected = report.with_public_number(), expected.with_public_number()
    for field in fields(PrivacyReport):
        claimed, follows = getattr(report, field.name), getattr(expected, field.name)
        if field.name != "notes" and not _agree(claimed, follows):
            raise FieldError(
                f"report: {field.name}: {str(claimed)[:200]!r}; its release gives {str(follows)!r}."
            )
    return replace(expected, notes=report.notes)


def _agree(claimed: object, follows: object) -> bool:
    if isinstance(claimed, float) and isinstance(follows, float):
        return isclose(claimed, follows, rel_tol=1e-9)  # a root may be rounded elsewhere otherwise
    return bool(claimed == follows)


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
    for measurement in report.measurements:
        _check_law(measurement, report)
    spent = total_budget([stated_budget(one.budget) for one in report.measurements])
    if report.budget != repr(spent):
        raise FieldError(
            f"report: budget {report.budget!r}; those of its measurements add up to {spent!r}."
        )
    _check_statement(report)
    _check_errors(report, noises)


def _check_law(measurement: Measurement, report: PrivacyReport) -> None:
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


def _check_statement(report: PrivacyReport) -> None:
    """Refuse a claim of privacy that does not follow from the rest; denials need no proof."""
    if report.statement.startswith(DENIAL):
        return
    laws = [one.law for one in report.measurements]
    expected = private_claim(
        stated_budget(report.budget).claim(report.delta), report.neighboring, laws
    )
    if report.noise != "exact" or report.statement != expected:
        follows = expected if report.noise == "exact" else f"{DENIAL}: {report.noise} noise"
        raise FieldError(
            f"report: statement {report.statement[:300]!r}; the rest of it gives {follows!r}."
        )


def _check_errors(report: PrivacyReport, noises: Sequence[tuple[Forest, LeafNoise]]) -> None:
    """Refuse an expected error that is not that of the leaves, and noise that is not there."""
    known = [noise.node_variances[forest.leaves] for forest, noise in noises]
    for variances in known:
        if bool(variances.any()) != (report.noise != "none"):
            raise FieldError(f"report: noise {report.noise!r}: not that of the node_variances.")
    claimed = report.expected_rms_per_leaf
    found = root_mean(float(sum(map(np.sum, known))), sum(map(len, known)))
    if claimed is None or not isclose(claimed, found, rel_tol=AGREEMENT):
        raise FieldError(
            f"report: expected_rms_per_leaf={claimed}; the node_variances give {found:.6g}."
        )
