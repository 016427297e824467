"""An evaluation on private test records that was paid for, from its JSON record."""

from collections.abc import Hashable, Sequence
from math import isclose, sqrt

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import FieldError, JsonObject, line_of_text, list_of, number_of
from mrf_matrix.mechanisms.claim import checked_neighboring, squared_factor
from mrf_matrix.mechanisms.measurement.mechanism import noise_for
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS
from mrf_matrix.mechanisms.statement import Claim, provenance_of
from mrf_matrix.reports.ledger_page import evaluation_words
from mrf_matrix.reports.page import Section, reliability_plot
from mrf_matrix.reports.privacy_report import stated_budget

EVALUATION = "Evaluation on test records."
"""How every statement on test records begins."""

MOST_BINS = 1000
SEEN = 4
"""A bin is drawn where its noisy count is so many times the noise's scale."""


def evaluation_section(
    record: JsonObject, classes: Sequence[Hashable], model_hash: str | None = None
) -> Section:
    """Return figures, intervals and calibration of a record that `mrf-matrix evaluate` wrote.

    `classes`, `model_hash`: of the model that the page is about, and of its file.

    Raises FieldError if it is no such record, or another model's.
    """
    figures = record.get("figures")
    if not isinstance(figures, dict):
        raise FieldError("evaluation: expected the JSON that `mrf-matrix evaluate --output` wrote.")
    rows = []
    for name, figure in list(figures.items())[:50]:
        if not isinstance(figure, dict):
            raise FieldError("evaluation: figures: expected objects.")
        rows.append((line_of_text(name, "figures").replace("_", " "), *_cells(figure)))
    header = ("figure", "value", "interval for the noise", "error of sampling")
    words = (
        _claim(record),
        evaluation_words(record, model_hash, classes),
        "The interval holds what noise leaves open about these test records; the error of sampling "
        "is what other test records would change.",
    )
    return Section("Calibration and accuracy", words, tuple(rows), header, _calibration(record))


def _claim(record: JsonObject) -> str:
    """Return the statement; refuse one that does not follow from the record's own figures."""
    statement = line_of_text(record.get("statement"), "evaluation: statement")
    budget = stated_budget(line_of_text(record.get("budget"), "evaluation: budget"))
    neighboring = checked_neighboring(record.get("neighboring"))
    delta = number_of(record.get("delta"), "evaluation: delta", most=1)
    law = noise_for(1, squared_factor(neighboring, budget.norm, nonnegative=True), budget)
    noise = one_word("evaluation: noise", record.get("noise"), NOISE_KINDS)
    claim = Claim(provenance_of(record.get("provenance")), (str(law),), delta)
    try:
        claim.check_covers(budget, neighboring, noise)
    except ValueError as error:
        raise FieldError(f"evaluation: {error}") from error
    follows = f"{EVALUATION} {claim.statement}"
    scale = number_of(record.get("noise_scale"), "evaluation: noise_scale")
    if statement != follows or not isclose(scale, float(law.scale), rel_tol=1e-9):
        raise FieldError(
            f"evaluation: statement {statement[:300]!r} with noise_scale={scale}: the budget and "
            f"neighbours beside it give {follows!r} and {float(law.scale)}."
        )
    return statement


def _cells(figure: JsonObject) -> tuple[str, str, str]:
    names = ("value", "low", "high", "sampling_error")
    value, low, high, error = (
        None if figure.get(name) is None else number_of(figure[name], name, least=-1e9)
        for name in names
    )
    if value is None:
        return "too few records are seen through the noise", "", ""
    between = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    return f"{value:.3f}", between, "" if error is None else f"±{error:.3f}"


def _calibration(record: JsonObject) -> tuple[str, ...]:
    """Draw shares of the second class by bin; only of two classes, where a bin says which."""
    edges = _numbers(record.get("edges"), "edges")
    rows = list_of(record.get("noisy_counts"), "noisy_counts", MOST_BINS)
    counts = [_numbers(row, "noisy_counts") for row in rows]
    if len(counts) + 1 != len(edges) or any(len(row) != 2 for row in counts):
        return ()
    scale = number_of(record.get("noise_scale"), "noise_scale")
    table = np.array(counts)
    totals = table.sum(axis=1)
    clear = totals > SEEN * max(scale, 1.0)
    if not clear.any():
        return ()
    said = ((edges[1:] + edges[:-1]) / 2)[clear]
    seen = table[clear, 1] / totals[clear]
    laplace = "PureDP" in line_of_text(record.get("budget"), "evaluation: budget")
    deviation = scale * (sqrt(2) if laplace else 1)
    half = 2 * deviation * np.sqrt(seen**2 + (1 - seen) ** 2) / totals[clear]
    return (reliability_plot(said, seen, half),)


def _numbers(data: object, where: str) -> Array:
    listed = list_of(data, where, MOST_BINS)
    return np.array([number_of(one, where, least=-1e18, most=1e18) for one in listed])
