"""A ledger for people: plain text, a rich table, an HTML table; all from the same rows."""

from typing import TYPE_CHECKING

from mrf_matrix.base.checks import format_number
from mrf_matrix.base.display import Cells, Tabular, align_columns, html_table
from mrf_matrix.mechanisms.ledger.charge import Account, Charge, LedgerTerms, amount_text
from mrf_matrix.mechanisms.ledger.file import Store
from mrf_matrix.mechanisms.statement import ledger_statement

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

HEADER = ("#", "what it paid for", "asked", "spent", "noise", "when (UTC)")


class LedgerDisplay(Tabular):
    """A ledger's forms at a prompt, in print, in rich and in a notebook."""

    _terms: LedgerTerms
    _store: Store

    @property
    def cells(self) -> Cells:
        return HEADER, rows_of(self._store.read())

    def __repr__(self) -> str:
        account = self._store.read()
        number, spent = len(account.charges), self._terms.spent_words(account)
        return (
            f"PrivacyLedger({self._terms.budget!r}, spent {spent} in {number} "
            f"charge{'' if number == 1 else 's'}, {self._terms.neighboring})"
        )

    def __str__(self) -> str:
        account = self._store.read()
        lines = align_columns([HEADER, *rows_of(account)]) if account.charges else []
        return "\n".join([statement(self._terms, account), *lines])

    def __rich__(self) -> "Table | Text":
        return as_table(self._terms, self._store.read())

    def _repr_html_(self) -> str:
        account = self._store.read()
        return html_table(statement(self._terms, account), rows_of(account), HEADER)


def statement(terms: LedgerTerms, account: Account) -> str:
    """Return one sentence on what everything charged claims together.

    >>> from mrf_matrix.mechanisms.budget import PureDP
    >>> statement(LedgerTerms(PureDP(1), "add_remove"), Account())
    'Nothing is spent of epsilon=1 (add_remove neighbours); epsilon=1 remains.'

    Under an (ε, δ) total the largest charge of either kind that would fit:

    >>> from mrf_matrix.mechanisms.approximate_dp import ApproximateDP
    >>> terms = LedgerTerms(ApproximateDP(3, 1e-6), "add_remove")
    >>> print(statement(terms, terms.opening_account)[-34:])
    epsilon=3 or rho=0.185069 remains.
    """
    of = f"{terms.words} ({terms.neighboring} neighbours)"
    left = terms.remaining_words(account)
    if not account.charges:
        return f"Nothing is spent of {of}; {left} remains."
    spent = f"{terms.spent_words(account)} is spent of {of}; {left} remains."
    return ledger_statement([charge.is_private for charge in account.charges], spent)


def rows_of(account: Account) -> list[tuple[str, ...]]:
    return [_row(charge) for charge in account.charges]


def _row(charge: Charge) -> tuple[str, ...]:
    asked = amount_text(charge.budget.amount, type(charge.budget))
    return (
        str(charge.number),
        "; ".join([charge.what, *_words(charge)]),
        asked,
        format_number(charge.amount),
        charge.noise if charge.is_private else f"{charge.noise} (not private)",
        charge.when.strftime("%Y-%m-%d %H:%M"),
    )


def _words(charge: Charge) -> list[str]:
    """Return the words of a charge; of a hash its first 12 digits."""
    words = charge.words
    return [
        told if word == "purpose" else f"{word} {told[:12] if word == 'model' else told}"
        for word, told in words.items()
    ]


def as_table(terms: LedgerTerms, account: Account) -> "Table | Text":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if not account.charges:
        return Text(statement(terms, account))
    table = Table(
        title="Privacy ledger",
        title_justify="left",
        title_style="bold",
        caption=Text(statement(terms, account)),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    for name in HEADER:
        is_number = name in ("#", "asked", "spent")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number)
    for row in rows_of(account):
        table.add_row(*map(Text, row))  # Text: a description is no markup
    return table
