"""A claim of privacy in plain words."""

from math import exp

from mrf_matrix.mechanisms import ZCDP
from mrf_matrix.reports.page import Section
from mrf_matrix.reports.privacy_report import PUBLIC_NUMBER, PrivacyReport
from mrf_matrix.reports.stated_budget import spent_by

SAID_DELTA = 1e-6  # the δ at which zCDP is put into words where the claim has none

ONE_RECORD = "One record is one row of the table. What is protected is "
WHETHER = "whether a row was in it at all, and so everything that the row said"


def guarantee_section(report: PrivacyReport) -> Section:
    """Return what a report claims, for somebody who knows no mathematics."""
    title = "What is guaranteed"
    if not report.is_private:
        reason = "Nothing that is said below makes it private: do not publish it."
        return Section(title, ("No privacy is claimed of this release.", reason))
    return Section(title, (odds(report), protected(report), *_people(report)))


def protected(report: PrivacyReport) -> str:
    """Return what of a record is protected, and whether the number of records is."""
    if report.neighboring == "replace_one":
        return f"{ONE_RECORD}what the row said; how many rows there were is not."
    if PUBLIC_NUMBER in report.public:
        return (
            f"{ONE_RECORD}{WHETHER}. How many rows there were was stated as public before the "
            "fit, and is not protected."
        )
    return f"{ONE_RECORD}{WHETHER}, and how many rows there were."


def odds(report: PrivacyReport) -> str:
    """Return by how much a release may change what somebody believes of one record.

    Where neighbours differ by one record more or less, two things that it may have said are two
    steps apart: twice ε, or four times ρ.
    """
    budget = spent_by(report)
    is_zcdp = isinstance(budget, ZCDP)
    delta = (report.delta or SAID_DELTA) if is_zcdp else 0.0
    there, said = "whether the remaining record was there at all", "which of two things it said"
    asked = {there: budget, said: budget * (4 if is_zcdp else 2)}
    if report.neighboring == "replace_one":
        asked = {"which of two things the remaining record said": budget}
    bounds = (
        f"{question}, {_bound(float(one.claimed_epsilon(delta)), delta)}"
        for question, one in asked.items()
    )
    return (
        "Take somebody who sees all that was released, knows every other record, and computes for "
        f"as long as they like. Asked {'. Asked '.join(bounds)}."
    )


def _bound(epsilon: float, delta: float) -> str:
    """Return how well a question is answered whose two answers are (ε, δ) apart.

    Of answers that are as likely beforehand, (e^ε + δ)/(1 + e^ε) are right at most. That odds
    change by more than e^ε has another probability than δ, and it may be larger.
    """
    right = 100 * (1 + delta * exp(-epsilon)) / (1 + exp(-epsilon))
    known = f"ε = {epsilon:.4g}" + (f" at δ = {delta:g}" if delta else "")
    guess = f"with both as likely before, they are right with a chance of at most {right:.4g} %"
    if delta:
        return f"{guess} ({known})"
    change = f"their odds change by a factor of at most {_factor(epsilon)}"
    return f"{change} (e to the power {known}); {guess}"


def _people(report: PrivacyReport) -> tuple[str, ...]:
    times = "r²" if isinstance(spent_by(report), ZCDP) else "r"
    return (
        f"A person who gave r rows is protected at {times} times the budget: count rows per person "
        "before you sign.",
    )


def _factor(epsilon: float) -> str:
    return f"{exp(epsilon):.3g}" if epsilon < 700 else "more than 1e300"
