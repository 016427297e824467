"""What was measured, what each part cost, and how noisy it is in records."""

import re
from math import log, sqrt

from mrf_matrix.base.checks import readable
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.reports.drawings import budget_bar
from mrf_matrix.reports.guarantee import Facts
from mrf_matrix.reports.page import Section
from mrf_matrix.reports.privacy_report import Measurement, PrivacyReport, alike, names_of
from mrf_matrix.reports.stated_budget import stated_budget

MOST = 60
LAPLACE_WIDTH, GAUSSIAN_WIDTH = log(20) / sqrt(2), 1.96
"""Half the width that holds 19 of 20 draws, in standard deviations."""


def noise_rms(one: Measurement) -> float | None:
    """Return the root mean square of the noise on one answer, in records.

    It is that of continuous noise, which the discrete noise that was drawn never exceeds. None for
    a choice, which adds no noise to sums.
    """
    budget = stated_budget(one.budget)
    if one.is_choice:
        return None
    if budget.is_infinite:
        return 0.0
    amount = float(budget.exact)
    return one.sensitivity * (
        sqrt(2) / amount if isinstance(budget, PureDP) else 1 / sqrt(2 * amount)
    )


def measured_section(report: PrivacyReport, facts: Facts) -> Section:
    """Return a row for each measurement, and the errors that are known without data."""
    words = []
    when = "Expected before any record was read"
    if not facts.has_public_base:
        when = "Expected before it was measured"
    elif facts.follows_choices or facts.rests_on_others:
        when = "Expected before it was measured, given what was chosen before"
    for error, what in (
        (report.expected_rms_per_leaf, "value of a leaf"),
        (report.expected_rms_per_vote, "vote"),
    ):
        if error is not None:
            words.append(
                f"{when}: the {what} is off by {error:.3g} records "
                "in the root mean square, for each class."
            )
    rows = [_row(group) for group in alike(report.measurements)]
    if len(rows) > MOST:
        words.append(f"{len(rows) - MOST} kinds of measurements more are not listed.")
    header = (
        "what was measured",
        "times",
        "budget each",
        "one record moves it by",
        "noise",
        "numbers",
    )
    return Section(
        "What was measured, and how noisy it is", tuple(words), tuple(rows[:MOST]), header
    )


def _figures(one: Measurement) -> tuple[str, ...]:
    budget = stated_budget(one.budget)
    spent = f"{'ε' if isinstance(budget, PureDP) else 'ρ'} = {readable(budget.amount)}"
    return spent, f"{one.sensitivity:.4g}", noise_words(one)


def _row(group: list[Measurement]) -> tuple[str, ...]:
    numbers = sum(one.n_answers for one in group)
    return names_of(group), str(len(group)), *_figures(group[0]), f"{numbers:,}"


def noise_words(one: Measurement) -> str:
    """Return how noisy a measurement is, in words and records."""
    rms = noise_rms(one)
    if rms is None:
        return "a choice at random, in which better ones are likelier"
    if not rms:
        return "none"
    pure = isinstance(stated_budget(one.budget), PureDP)
    wide = rms * (LAPLACE_WIDTH if pure else GAUSSIAN_WIDTH)
    most = "" if "parties" in one.law else "at most "  # parties who all stay add more than needed
    return f"{most}{rms:.3g} records rms; 19 of 20 within ±{wide:.3g}"


def shares_section(report: PrivacyReport, facts: Facts) -> Section | None:
    """Return how the budget was shared out; nothing where it is infinite or not shared."""
    costs: dict[str, float] = {}
    for one in report.measurements:
        budget = stated_budget(one.budget)
        if budget.is_infinite:
            return None
        what = _stage(one.measured)
        costs[what] = costs.get(what, 0.0) + float(budget.exact)
    total = sum(costs.values())
    spent = report.claim.budget
    if len(costs) < 2 or not total or (spent is not None and total > float(spent.amount) * 1.001):
        return None  # not shared: steps of different records spend the whole each
    parts = sorted(((name, cost / total) for name, cost in costs.items()), key=lambda one: -one[1])
    known = "before any record was read" if facts.has_public_base else "before it was measured"
    if facts.follows_choices:
        known = "by public rules: shares that follow a choice follow from what it came to"
    words = f"{report.budget} in all, shared out {known}."
    return Section("Where the budget went", (words,), pictures=(budget_bar(parts),))


def _stage(measured: str) -> str:
    """Return the stage that a measurement belongs to: what stands before its table's number."""
    before, colon, _ = measured.partition(":")
    return before.partition(", table")[0] if colon else re.sub(r" \d+$", "s", measured)
