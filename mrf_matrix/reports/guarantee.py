"""A claim of privacy in plain words."""

from math import exp

from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.measurement.release import PRIVATE_NOISE
from mrf_matrix.reports.page import Section
from mrf_matrix.reports.privacy_report import DENIAL, PrivacyReport
from mrf_matrix.reports.stated_budget import stated_budget

SAID_DELTA = 1e-6  # the δ at which zCDP is put into words where the claim has none

ONE_RECORD = {
    "add_remove": "One record is one row of the table. What is protected is whether a row was in "
    "it at all, and so everything that the row said, and how many rows there were.",
    "replace_one": "One record is one row of the table. What is protected is what the row said; "
    "how many rows there were is not.",
}


def guarantee_section(report: PrivacyReport) -> Section:
    """Return what a report claims, for somebody who knows no mathematics."""
    title = "What is guaranteed"
    if report.noise not in PRIVATE_NOISE or report.statement.startswith(DENIAL):
        reason = "Nothing that is said below makes it one: do not publish it."
        return Section(title, ("This is no private release.", reason))
    return Section(title, (odds(report), ONE_RECORD[report.neighboring], *_people(report)))


def odds(report: PrivacyReport) -> str:
    """Return by how much a release may change what somebody believes of one record."""
    budget = _spent(report)
    delta = report.delta or (SAID_DELTA if isinstance(budget, ZCDP) else 0.0)
    epsilon = float(budget.claimed_epsilon(delta))
    unless = (
        f", except with a probability of at most {delta:g} (the claim at this δ)" if delta else ""
    )
    return (
        f"Take somebody who sees all that was released, knows every other record, and computes for "
        f"as long as they like. Their odds for or against any statement about the remaining record "
        f"change by a factor of at most {_factor(epsilon)} (e to the power ε = {epsilon:.4g})"
        f"{unless}. A chance of one half becomes at most {_percent(epsilon)} %."
    )


def _people(report: PrivacyReport) -> tuple[str, ...]:
    times = "r²" if isinstance(_spent(report), ZCDP) else "r"
    return (
        f"A person who gave r rows is protected at {times} times the budget: count rows per person "
        "before you sign.",
    )


def _spent(report: PrivacyReport) -> PureDP | ZCDP:
    """Return what was spent; reports on batches say of how much."""
    return stated_budget(report.budget.partition(" of ")[0])


def _factor(epsilon: float) -> str:
    return f"{exp(epsilon):.3g}" if epsilon < 700 else "more than 1e300"


def _percent(epsilon: float) -> str:
    return f"{100 / (1 + exp(-epsilon)):.4g}"
