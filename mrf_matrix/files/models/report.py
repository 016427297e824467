"""A privacy report read from a file: texts and numbers of bounded size, nothing that acts."""

from dataclasses import fields
from math import isfinite
from typing import Any

from mrf_matrix.files.fields import line_of_text, one_of
from mrf_matrix.files.models.errors import ModelFileError
from mrf_matrix.mechanisms import NEIGHBORING
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS
from mrf_matrix.reports.privacy_report import Measurement, PrivacyReport

MOST = 10_000
DERIVED = {"law", "sensitivity", "n_answers", "measured"}
"""What follows from the measurements, for those who read the file by other means."""


def report_of(data: object) -> PrivacyReport:
    """Return the report that `PrivacyReport.to_dict` wrote.

    Raises
    ------
    ModelFileError
        If something is missing, of another type, too long, or cannot be printed.
    """
    if not isinstance(data, dict):
        raise ModelFileError("report: expected an object.")
    report = PrivacyReport(
        statement=_text(data.get("statement"), "statement"),
        budget=_text(data.get("budget"), "budget"),
        neighboring=one_of(data.get("neighboring"), NEIGHBORING, "report: neighboring"),
        noise=one_of(data.get("noise"), NOISE_KINDS, "report: noise"),
        measurements=tuple(map(_measurement, _list(data.get("measurements"), "measurements"))),
        expected_rms_per_leaf=_number(data.get("expected_rms_per_leaf")),
        expected_rms_per_vote=_number(data.get("expected_rms_per_vote")),
        public=tuple(_text(item, "public") for item in _list(data.get("public"), "public")),
        notes=tuple(_text(item, "notes") for item in _list(data.get("notes"), "notes")),
    )
    follows = report.to_dict()
    old = report.measurements and report.sensitivity is None
    for name in (DERIVED - ({"sensitivity"} if old else set())) & set(data):
        if data[name] != follows[name]:
            raise ModelFileError(f"report: {name} is not that of its measurements.")
    return report


def _measurement(data: object) -> Measurement:
    known = {field.name for field in fields(Measurement)}
    old = isinstance(data, dict) and set(data) == known - {"column_sum"}
    if not isinstance(data, dict) or not (old or set(data) == known):
        raise ModelFileError("report: measurements: expected objects of the known keys.")
    if old:  # the first files called the column sum a sensitivity
        data = data | {"column_sum": data["sensitivity"], "sensitivity": None}
    return Measurement(
        measured=_text(data["measured"], "measured"),
        budget=_text(data["budget"], "budget"),
        law=_text(data["law"], "law"),
        sensitivity=_number(data["sensitivity"]),
        n_answers=_integer(data["n_answers"]),
        column_sum=_integer(data["column_sum"]),
    )


def _text(data: object, where: str) -> str:
    return line_of_text(data, f"report: {where}")


def _list(data: object, where: str) -> list[Any]:
    if not isinstance(data, list) or len(data) > MOST:
        raise ModelFileError(f"report: {where}: expected a list of at most {MOST}.")
    return data


def _integer(data: object) -> int:
    if type(data) is not int or not 0 <= data < 10**1000:
        raise ModelFileError("report: expected a whole number that is not negative.")
    return data


def _number(data: Any) -> float | None:
    if data is None:
        return None
    if type(data) not in (int, float) or not isfinite(data) or data < 0:
        raise ModelFileError("report: expected a finite number that is not negative.")
    return float(data)
