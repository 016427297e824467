"""A ledger as a JSON record: exact, versioned, and read with suspicion."""

import re
from collections.abc import Sequence
from datetime import datetime

from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    fraction_of,
    line_of_text,
    list_of,
    object_of,
    one_line,
    versioned_of,
)
from mrf_matrix.mechanisms.budgets.approximate import ApproximateDP
from mrf_matrix.mechanisms.budgets.budget import budget_of
from mrf_matrix.mechanisms.budgets.claim import checked_neighboring
from mrf_matrix.mechanisms.ledger.charge import WORDS, Account, Amount, Charge
from mrf_matrix.mechanisms.ledger.privacy_filter import PrivacyFilter
from mrf_matrix.mechanisms.ledger.rules import checked_kind, checked_what
from mrf_matrix.mechanisms.ledger.standing import Amounts, Standing, standing_of
from mrf_matrix.mechanisms.ledger.terms import Terms, Total

FORMAT = "mrf_matrix.ledger"
SCHEMA_VERSION = 4
APPROXIMATE_VERSION = 5
"""Of ledgers with an (ε, δ) total; the others are written as before."""
IDENTITY = re.compile(r"[0-9a-f]{32}")
MAX_CHARGES = 100_000
KEYS = (
    "format", "schema_version", "identity", "budget", "neighboring", "spent", "remaining",
    "is_private", "charges",
)  # fmt: skip
FILTER_KEYS = ("after", "order", "rho")
CHARGE_KEYS = ("number", "what", "budget", "amount", "noise", "is_private", "when", "identity")


class LedgerError(ValueError):
    """A record or a file that is no ledger, or whose sums do not add up."""


def record_of(terms: Terms, account: Account, identity: str) -> JsonObject:
    """Return the record of an account under a total budget."""
    return _certain(terms, account, identity) | {
        "remaining": _amounts(terms.left(account)),
        "charges": [charge.to_dict() for charge in account.charges],
    }


def _certain(terms: Terms, account: Account, identity: str) -> JsonObject:
    """Return what follows from the charges exactly; what is left of (ε, δ) is searched for."""
    spent = account.spent
    approximate = isinstance(spent, Standing)
    record: JsonObject = {
        "format": FORMAT,
        "schema_version": APPROXIMATE_VERSION if approximate else SCHEMA_VERSION,
        "identity": identity,
        "budget": terms.budget.to_dict(),
        "neighboring": terms.neighboring,
        "spent": _amounts(spent.spent if isinstance(spent, Standing) else spent),
        "is_private": account.is_private,
    }
    if isinstance(spent, Standing):
        return record | {"filter": {key: str(getattr(spent.filter, key)) for key in FILTER_KEYS}}
    return record | {"remaining": _amounts(terms.left(account))}


def _amounts(amounts: Amount | Amounts) -> object:
    return amounts.to_dict() if isinstance(amounts, Amounts) else str(amounts)


def read_record(record: object, where: str = "record") -> tuple[Terms, Account, str]:
    """Return terms, account and identity of a record.

    Raises LedgerError if something is missing, of another type, too long, or does not add up.
    """
    try:
        return _read(record)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise LedgerError(f"{where} is no ledger: {one_line(error)}") from error


def _read(record: object) -> tuple[Terms, Account, str]:
    data = _versioned(record)
    identity = _identity(data["identity"], "identity")
    terms = Terms(_total(data), checked_neighboring(data["neighboring"]))
    listed = list_of(data["charges"], "charges", MAX_CHARGES)
    charges = [_charge(item, number, terms) for number, item in enumerate(listed, 1)]
    account = _account(terms, charges, data)
    expected = _certain(terms, account, identity)
    expected["charges"] = [charge.to_dict() for charge in charges]
    for key, value in expected.items():
        if data[key] != value:
            raise FieldError(f"{key}={str(data[key])[:80]!r} does not agree with the charges.")
    return terms, account, identity


def _identity(data: object, where: str) -> str:
    identity = line_of_text(data, where, 32)
    if IDENTITY.fullmatch(identity) is None:
        raise FieldError(f"{where}: expected 32 hexadecimal digits.")
    return identity


def _versioned(record: object) -> JsonObject:
    """Return a record of either version, by which its keys differ."""
    version = record.get("schema_version") if isinstance(record, dict) else None
    if isinstance(version, int) and version >= APPROXIMATE_VERSION:
        return versioned_of(record, "the record", FORMAT, APPROXIMATE_VERSION, (*KEYS, "filter"))
    return versioned_of(record, "the record", FORMAT, SCHEMA_VERSION, KEYS)


def _total(data: JsonObject) -> Total:
    if "filter" not in data:
        return budget_of(data["budget"])
    pair = object_of(data["budget"], "budget", ("epsilon", "delta"))
    return ApproximateDP(*(fraction_of(pair[key], key) for key in ("epsilon", "delta")))


def _account(terms: Terms, charges: Sequence[Charge], data: JsonObject) -> Account:
    """Return the account of charges, which fit: of (ε, δ) under the filter that is written."""
    if isinstance(terms.budget, ApproximateDP):
        held = object_of(data["filter"], "filter", FILTER_KEYS)
        kept = PrivacyFilter(*(fraction_of(held[key], key) for key in FILTER_KEYS))
        budgets = [charge.budget for charge in charges]
        return Account(tuple(charges), standing_of(terms.budget, kept, budgets))
    account = Account()
    for charge in charges:
        account = account.plus(charge)
    if not terms.fits(account):
        raise FieldError(f"the charges add up to {account.spent}, more than {terms.budget!r}.")
    return account


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
        amount=terms.amount_of(budget),
        neighboring=terms.neighboring,
        noise=checked_kind(data["noise"], budget),
        when=when,
        identity=_identity(data["identity"], f"charge {number}: identity"),
        **{word: checked_what(data[word]) for word in WORDS if word in data},
    )
