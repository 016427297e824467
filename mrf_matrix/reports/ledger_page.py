"""A ledger as a page: how much is spent, on what, and how much is left."""

from mrf_matrix.mechanisms import PrivacyLedger
from mrf_matrix.mechanisms.ledger.display import HEADER, rows_of
from mrf_matrix.reports.belonging import charges_of
from mrf_matrix.reports.drawings import budget_bar
from mrf_matrix.reports.page import ReportPage, Section


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
    own = ", ".join(str(one.number) for one in charges_of(account.charges, model_hash))
    words: tuple[str, ...] = (ledger.statement, f"Ledger {ledger.identity}.")
    if own:
        words = (*words, f"For this model's file it was charged under number {own}.")
    rows = tuple(rows_of(account))
    return Section("Ledger of these records", words, rows, HEADER if rows else (), pictures)
