"""A privacy report read from a file: texts and numbers of bounded size, nothing that acts."""

from dataclasses import fields

from mrf_matrix.base.fields import (
    FieldError,
    integer_of,
    line_of_text,
    list_of,
    number_of,
    object_of,
)
from mrf_matrix.base.shown import shown
from mrf_matrix.mechanisms.statement import Claim, provenance_of
from mrf_matrix.release.plan import LARGEST_DELTA
from mrf_matrix.reports.privacy_report import DERIVED, Measurement, PrivacyReport

ERRORS = {"expected_rms_per_leaf", "expected_rms_per_vote"}
CLAIMED = {field.name for field in fields(PrivacyReport)} - ERRORS - {"claim", "planned"}
CLAIMED |= {"provenance", "delta"}
MEASURED = {field.name for field in fields(Measurement)}
LARGEST = 10**1000


def report_of(given: object) -> PrivacyReport:
    """Return the report that `PrivacyReport.to_dict` wrote.

    Raises FieldError if something is missing, of another type, too long, or cannot be printed.
    """
    data = object_of(given, "report", CLAIMED, DERIVED | ERRORS)
    made = tuple(map(_measurement, list_of(data["measurements"], "report: measurements")))
    provenance = provenance_of(data["provenance"], "report: provenance")
    if not provenance.released:
        raise FieldError("report: provenance: expected the charge for what was released.")
    delta = number_of(data["delta"], "report: delta", most=LARGEST_DELTA)
    report = PrivacyReport(
        Claim(provenance, tuple(one.law for one in made), delta),
        made,
        expected_rms_per_leaf=_error(data.get("expected_rms_per_leaf")),
        expected_rms_per_vote=_error(data.get("expected_rms_per_vote")),
        public=_texts(data["public"], "report: public"),
        notes=_texts(data["notes"], "report: notes"),
    )
    follows = report.to_dict()
    for name in DERIVED & set(data):
        if data[name] != follows[name]:
            raise FieldError(
                f"report: {name} {shown(data[name])}; its provenance and measurements give "
                f"{shown(follows[name])}."
            )
    return report


def _measurement(given: object) -> Measurement:
    data = object_of(given, "report: measurement", MEASURED)
    return Measurement(
        measured=line_of_text(data["measured"], "report: measured"),
        budget=line_of_text(data["budget"], "report: budget"),
        law=line_of_text(data["law"], "report: law"),
        sensitivity=number_of(data["sensitivity"], "report: sensitivity"),
        n_answers=integer_of(data["n_answers"], "report: n_answers", most=LARGEST),
        column_sum=integer_of(data["column_sum"], "report: column_sum", most=LARGEST),
    )


def _texts(data: object, where: str) -> tuple[str, ...]:
    return tuple(line_of_text(item, where) for item in list_of(data, where))


def _error(data: object) -> float | None:
    return None if data is None else number_of(data, "report: expected error")
