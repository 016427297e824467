"""What a page shows beside a model: a ledger, and an evaluation.

Neither belongs to the model by itself. A ledger that paid for nothing looks like one that has much
left, and another model's accuracy looks like this one's. A charge is known by its identity, which
the provenance of what it paid for carries, or by the SHA-256 of the model's file. An evaluation is
known by the latter.
"""

from collections.abc import Hashable, Sequence
from math import isclose, sqrt

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import FieldError, JsonObject, line_of_text, list_of, number_of
from mrf_matrix.base.provenance import Spending
from mrf_matrix.mechanisms import PrivacyLedger
from mrf_matrix.mechanisms.budget import checked_neighboring
from mrf_matrix.mechanisms.ledger.charge import HEADER, Charge, rows_of
from mrf_matrix.mechanisms.measurement.mechanism import noise_for, squared_factor
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS
from mrf_matrix.mechanisms.statement import Claim, compose_budgets, pays, provenance_of
from mrf_matrix.reports.page import ReportPage, Section, budget_bar, reliability_plot
from mrf_matrix.reports.privacy_report import stated_budget

NAMELESS_EVALUATION = (
    "It names no model: that it is of this one is the word of whoever kept it. `mrf-matrix "
    "evaluate` writes the SHA-256 of the model's file."
)
ANOTHER_FILE = (
    "The ledger on this page has the charge that this model names, and it names another model's "
    "file. Ask whoever fitted the model which of the two files is the one that was paid for."
)
MOST_NAMED = 5


def ledger_warnings(ledger: PrivacyLedger, model_hash: str | None, claim: Claim) -> tuple[str, ...]:
    """Return warnings for the signer where a ledger has not paid for a model.

    Budgets are compared by what they imply under the ledger's relation, in its kind.

    `model_hash`: SHA-256 of the model's file, None where it is from no file; `claim`: the model's,
    with every charge that it adds up.
    """
    charges = ledger.charges
    paid = [[one for one in charges if one.has_paid(spending)] for spending in claim.spendings]
    unpaid = [one for one, by in zip(claim.spendings, paid, strict=True) if not by]
    named = charges_for_model(charges, model_hash)
    if not unpaid and model_hash and not named and all(one.model for by in paid for one in by):
        return (ANOTHER_FILE,)
    if not unpaid or _covers(named, unpaid):
        return ()
    return (_too_little_warning(named, claim, ledger) if named else _no_charge_warning(unpaid),)


def charges_for_model(charges: Sequence[Charge], model_hash: str | None) -> list[Charge]:
    """Return the charges that name a model's file."""
    return [one for one in charges if model_hash and one.model.lower() == model_hash.lower()]


def _covers(named: Sequence[Charge], unpaid: Sequence[Spending]) -> bool:
    """Tell whether charges that name the file imply all that they do not know by identity."""
    budgets = [one.budget for one in named if one.is_private]
    if not budgets or any(one.noise != "exact" and one.noise != "shares" for one in unpaid):
        return False
    total, relation = compose_budgets([Spending(b, named[0].neighboring, "exact") for b in budgets])
    return pays(total, relation, *compose_budgets(unpaid))


def _no_charge_warning(unpaid: Sequence[Spending]) -> str:
    told = ", ".join(f"{one.budget!r} for {one.what}" for one in unpaid[:MOST_NAMED])
    return (
        f"The ledger on this page has no charge for what this model rests on: {told}. What it says "
        f"is spent and left does not count that. Ask for the ledger that was charged when it was "
        f"fitted."
    )


def _too_little_warning(named: Sequence[Charge], claim: Claim, ledger: PrivacyLedger) -> str:
    paid = ", ".join(repr(one.budget) for one in named)
    return (
        f"The ledger on this page was charged {paid} under {ledger.neighboring} neighbours for "
        f"this model, which states that it spent {claim.budget!r} under {claim.neighboring} "
        f"neighbours: the ledger counts less than was spent."
    )


def evaluation_words(
    record: JsonObject, model_hash: str | None, classes: Sequence[Hashable]
) -> str:
    """Return how an evaluation is known to be a model's, or that it is not.

    `record`: what `mrf-matrix evaluate --output` wrote; `classes`: the model's.

    Raises FieldError if it is another model's.
    """
    if record.get("classes") != list(classes):
        raise FieldError(
            "evaluation: its classes are not those of this model, so it is another model's. "
            "Expected an evaluation of this very model, by `mrf-matrix evaluate`."
        )
    if record.get("model") is None:
        return NAMELESS_EVALUATION
    named = line_of_text(record["model"], "evaluation: model")
    if model_hash is None:
        return f"It is of the model file with SHA-256 {named}; this page is of no file."
    if named.lower() != model_hash.lower():
        raise FieldError(
            f"evaluation: it is of another model, whose file has SHA-256 {named[:100]}; that of "
            f"this model has {model_hash}. Expected an evaluation of this very file, by "
            f"`mrf-matrix evaluate`."
        )
    return "It is of this model's file, by its SHA-256."


def ledger_report(ledger: PrivacyLedger) -> ReportPage:
    """Return the page of a ledger.

    Examples
    --------
    >>> print(ledger_report(PrivacyLedger(epsilon=1)).statement)
    Nothing is spent of epsilon=1 (add_remove neighbours); epsilon=1 remains.
    """
    account = ledger.account
    return ReportPage(
        "Privacy ledger", ledger.statement, account.is_private, (ledger_section(ledger),)
    )


def ledger_section(ledger: PrivacyLedger, model_hash: str | None = None) -> Section:
    """Return every charge of a ledger, with a bar of what is spent and left.

    `model_hash`: SHA-256 of the file of a model whose charges are to be named.
    """
    account, total = ledger.account, ledger.budget
    pictures: tuple[str, ...] = ()
    if not total.is_infinite and account.charges:
        shares = [
            (f"{one.number}. {one.what}", float(share))
            for one, share in zip(account.charges, ledger.shares, strict=True)
        ]
        left = float(1 - sum(ledger.shares))
        pictures = (budget_bar(sorted(shares, key=lambda one: -one[1]), left),)
    own = ", ".join(str(one.number) for one in charges_for_model(account.charges, model_hash))
    words: tuple[str, ...] = (ledger.statement, f"Ledger {ledger.identity}.")
    if own:
        words = (*words, f"For this model's file it was charged under number {own}.")
    rows = tuple(rows_of(account))
    return Section("Ledger of these records", words, rows, HEADER if rows else (), pictures)


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
        _claim_statement(record),
        evaluation_words(record, model_hash, classes),
        "The interval holds what noise leaves open about these test records; the error of sampling "
        "is what other test records would change.",
    )
    return Section(
        "Calibration and accuracy", words, tuple(rows), header, _reliability_pictures(record)
    )


def _claim_statement(record: JsonObject) -> str:
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


def _reliability_pictures(record: JsonObject) -> tuple[str, ...]:
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
