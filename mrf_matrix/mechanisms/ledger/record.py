"""A ledger as a JSON record: exact, versioned, and read with suspicion."""

import re
from datetime import datetime
from fractions import Fraction
from typing import Any

from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.neighboring import checked_neighboring
from mrf_matrix.mechanisms.ledger.charge import Account, Amount, Charge
from mrf_matrix.mechanisms.ledger.rules import Terms, amount_in, checked_kind, checked_what

FORMAT = "mrf_matrix.ledger"
SCHEMA_VERSION = 2
FIRST_VERSION = 1  # without the identity
IDENTITY = re.compile(r"[0-9a-f]{32}")
MAX_CHARGES = 100_000
LONGEST_NUMBER = 2600  # characters; a fraction of 4096-bit terms
KINDS: dict[str, type[PureDP] | type[ZCDP]] = {"epsilon": PureDP, "rho": ZCDP}


class LedgerError(ValueError):
    """A record or a file that is no ledger, or whose sums do not add up."""


def record_of(terms: Terms, account: Account, identity: str | None) -> dict[str, Any]:
    """Return the record of an account under a total budget."""
    budget = terms.budget
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "identity": identity,
        "budget": {budget.parameter: str(budget.amount)},
        "neighboring": terms.neighboring,
        "spent": str(account.spent),
        "remaining": str(account.left(budget)),
        "is_private": account.is_private,
        "charges": [charge.to_dict() for charge in account.charges],
    }


def read_record(record: object, where: str = "record") -> tuple[Terms, Account, str | None]:
    """Return terms, account and identity of a record; records of version 1 have no identity.

    Raises
    ------
    LedgerError
        If something is missing, of another type, too long, or does not add up.
    """
    try:
        return _read(record)
    except LedgerError as error:
        raise LedgerError(f"{where}: {error}") from error
    except KeyError as error:
        raise LedgerError(f"{where}: the key {error} is missing.") from error
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise LedgerError(f"{where} is no ledger: {error}") from error


def _read(record: object) -> tuple[Terms, Account, str | None]:
    data = _object(record, "the record")
    if data["format"] != FORMAT:
        raise LedgerError(f"format={str(data['format'])[:50]!r}: expected {FORMAT!r}.")
    version = data["schema_version"]
    if type(version) is not int or version not in (FIRST_VERSION, SCHEMA_VERSION):
        raise LedgerError(
            f"schema_version={str(version)[:20]!r}: expected {SCHEMA_VERSION}, or {FIRST_VERSION}."
        )
    if version == FIRST_VERSION and "identity" in data:
        raise LedgerError(f"identity: a record of version {FIRST_VERSION} has none.")
    identity = None if version == FIRST_VERSION else _identity(data["identity"])
    budget = _budget(data["budget"])
    relation = checked_neighboring(data["neighboring"])
    charges = data["charges"]
    if not isinstance(charges, list) or len(charges) > MAX_CHARGES:
        raise LedgerError(f"charges: expected a list of at most {MAX_CHARGES}.")
    account = Account()
    for number, item in enumerate(charges, 1):
        account = account.plus(_charge(_object(item, f"charge {number}"), number, budget, relation))
    if account.spent > budget.amount:
        raise LedgerError(f"the charges add up to {account.spent}, more than {budget!r}.")
    terms = Terms(budget, relation)
    expected = record_of(terms, account, identity)
    for key in ("neighboring", "spent", "remaining", "is_private", "budget", "charges"):
        if data[key] != expected[key]:
            raise LedgerError(f"{key}={str(data[key])[:80]!r} does not agree with the charges.")
    return terms, account, identity


def _identity(data: object) -> str:
    if not isinstance(data, str) or IDENTITY.fullmatch(data) is None:
        raise LedgerError("identity: expected 32 hexadecimal digits.")
    return data


def _charge(data: dict[str, Any], number: int, total: PureDP | ZCDP, relation: Any) -> Charge:
    budget = _budget(data["budget"])
    when = datetime.fromisoformat(data["when"])
    if when.tzinfo is None:
        raise LedgerError(f"charge {number}: when={data['when']!r} has no time zone.")
    return Charge(
        number=number,
        what=checked_what(data["what"]),
        budget=budget,
        amount=amount_in(type(total), budget),
        neighboring=relation,
        noise=checked_kind(data["noise"], budget),
        when=when,
    )


def _budget(data: object) -> PureDP | ZCDP:
    pairs = list(_object(data, "budget").items())
    if len(pairs) != 1 or pairs[0][0] not in KINDS:
        raise LedgerError('budget: expected {"epsilon": "1/2"} or {"rho": "1/2"}.')
    return KINDS[pairs[0][0]](_number(pairs[0][1]))


def _number(text: object) -> Amount:
    if not isinstance(text, str) or len(text) > LONGEST_NUMBER or "e" in text.lower():
        raise LedgerError(f"{str(text)[:50]!r}: expected a fraction as text, such as '1/2'.")
    return float("inf") if text == "inf" else Fraction(text)


def _object(data: object, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise LedgerError(f"{where} is {type(data).__name__}: expected an object.")
    return data
