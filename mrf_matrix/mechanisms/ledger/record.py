"""A ledger as a JSON record: exact, versioned, and read with suspicion."""

import re
from datetime import datetime

from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    line_of_text,
    list_of,
    object_of,
    one_line,
    versioned_of,
)
from mrf_matrix.mechanisms.budgets.budget import budget_of
from mrf_matrix.mechanisms.budgets.claim import checked_neighboring
from mrf_matrix.mechanisms.ledger.charge import WORDS, Account, Charge
from mrf_matrix.mechanisms.ledger.rules import Terms, amount_in, checked_kind, checked_what

FORMAT = "mrf_matrix.ledger"
SCHEMA_VERSION = 2
IDENTITY = re.compile(r"[0-9a-f]{32}")
MAX_CHARGES = 100_000
KEYS = (
    "format", "schema_version", "identity", "budget", "neighboring", "spent", "remaining",
    "is_private", "charges",
)  # fmt: skip
CHARGE_KEYS = ("number", "what", "budget", "amount", "noise", "is_private", "when")


class LedgerError(ValueError):
    """A record or a file that is no ledger, or whose sums do not add up."""


def record_of(terms: Terms, account: Account, identity: str) -> JsonObject:
    """Return the record of an account under a total budget."""
    budget = terms.budget
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "identity": identity,
        "budget": budget.to_dict(),
        "neighboring": terms.neighboring,
        "spent": str(account.spent),
        "remaining": str(account.left(budget)),
        "is_private": account.is_private,
        "charges": [charge.to_dict() for charge in account.charges],
    }


def read_record(record: object, where: str = "record") -> tuple[Terms, Account, str]:
    """Return terms, account and identity of a record.

    Raises LedgerError if something is missing, of another type, too long, or does not add up.
    """
    try:
        return _read(record)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise LedgerError(f"{where} is no ledger: {one_line(error)}") from error


def _read(record: object) -> tuple[Terms, Account, str]:
    data = versioned_of(record, "the record", FORMAT, SCHEMA_VERSION, KEYS)
    identity = line_of_text(data["identity"], "identity", 32)
    if IDENTITY.fullmatch(identity) is None:
        raise FieldError("identity: expected 32 hexadecimal digits.")
    terms = Terms(budget_of(data["budget"]), checked_neighboring(data["neighboring"]))
    account = Account()
    for number, item in enumerate(list_of(data["charges"], "charges", MAX_CHARGES), 1):
        account = account.plus(_charge(item, number, terms))
    if account.spent > terms.budget.amount:
        raise FieldError(f"the charges add up to {account.spent}, more than {terms.budget!r}.")
    for key, expected in record_of(terms, account, identity).items():
        if data[key] != expected:
            raise FieldError(f"{key}={str(data[key])[:80]!r} does not agree with the charges.")
    return terms, account, identity


def _charge(item: object, number: int, terms: Terms) -> Charge:
    data = object_of(item, f"charge {number}", CHARGE_KEYS, WORDS)
    budget = budget_of(data["budget"])
    when = datetime.fromisoformat(line_of_text(data["when"], "when", 40))
    if when.tzinfo is None:
        raise FieldError(f"charge {number}: when={data['when']!r} has no time zone.")
    return Charge(
        number=number,
        what=checked_what(data["what"]),
        budget=budget,
        amount=amount_in(terms.unit, budget),
        neighboring=terms.neighboring,
        noise=checked_kind(data["noise"], budget),
        when=when,
        **{word: checked_what(data[word]) for word in WORDS if word in data},
    )
