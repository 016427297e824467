"""Where a ledger's account lives: in memory, or in a JSON file that outlives processes."""

import json
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import BinaryIO
from uuid import uuid4

from mrf_matrix.base import whole_file
from mrf_matrix.base.checks import BudgetError
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    fraction_of,
    line_of_text,
    list_of,
    object_of,
    one_line,
    parse_json,
    versioned_object,
)
from mrf_matrix.base.files import UnreadableError, open_regular
from mrf_matrix.mechanisms.budget import checked_neighboring
from mrf_matrix.mechanisms.ledger.charge import WORDS, Account, Amount, Charge, LedgerTerms, Total
from mrf_matrix.mechanisms.ledger.filter_state import (
    Amounts,
    ApproximateDP,
    FilterState,
    PrivacyFilter,
    filter_state_of,
)
from mrf_matrix.mechanisms.ledger.rules import checked_noise, checked_what
from mrf_matrix.mechanisms.statement import budget_of

Writer = Callable[[Account], Account]
Put = Callable[[Account], None]


class Store(ABC):
    """Where an account is read, and changed one charge at a time."""

    _account: Account

    @abstractmethod
    def check(self) -> None:
        """Refuse if no charge can be added here."""

    def read(self) -> Account:
        return self._account

    @abstractmethod
    def lock(self) -> AbstractContextManager[Put]:
        """Lock the account for a block; yield the function that replaces it."""

    def _put(self, account: Account) -> None:
        self._account = account

    def update(self, write: Writer) -> Account:
        with self.lock() as put:
            changed = write(self.read())
            put(changed)
            return changed


class MemoryStore(Store):
    """An account in the memory of the process that made it; threads take turns."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._lock = Lock()
        self._process = os.getpid()

    def check(self) -> None:
        """Refuse in a forked process: what is spent there, its parent would not see."""
        if os.getpid() != self._process:
            raise BudgetError(ELSEWHERE)

    @contextmanager
    def lock(self) -> Iterator[Put]:
        self.check()  # before the lock, which a fork may have copied while it was held
        with self._lock:
            yield self._put


class ReadOnlyStore(Store):
    """A copy of an account that another process or a file owns: it shows, and never spends."""

    def __init__(self, account: Account, reason: str) -> None:
        self._account = account
        self.reason = reason

    def check(self) -> None:
        raise BudgetError(self.reason)

    def lock(self) -> AbstractContextManager[Put]:
        raise BudgetError(self.reason)


ELSEWHERE = (
    "this is a copy of a PrivacyLedger that lives in another process: a charge here would be "
    "lost there, so it is refused. Spend in the process that made the ledger (n_jobs=1, or "
    "joblib.parallel_config(backend='threading')), or keep the ledger in a file: "
    "PrivacyLedger.open(path, ...)."
)

RECORD = (
    "this ledger was read from a record, which can be read twice: it shows what was spent and "
    "takes no charges. Continue on a file with PrivacyLedger.open(path)."
)


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


def record_of(terms: LedgerTerms, account: Account, identity: str) -> JsonObject:
    return _derived_fields(terms, account, identity) | {
        "remaining": _amounts(terms.remaining(account)),
        "charges": [charge.to_dict() for charge in account.charges],
    }


def _derived_fields(terms: LedgerTerms, account: Account, identity: str) -> JsonObject:
    """Return what follows from the charges exactly; what is left of (ε, δ) is searched for."""
    spent = account.spent
    approximate = isinstance(spent, FilterState)
    record: JsonObject = {
        "format": FORMAT,
        "schema_version": APPROXIMATE_VERSION if approximate else SCHEMA_VERSION,
        "identity": identity,
        "budget": terms.budget.to_dict(),
        "neighboring": terms.neighboring,
        "spent": _amounts(spent.amounts if isinstance(spent, FilterState) else spent),
        "is_private": account.is_private,
    }
    if isinstance(spent, FilterState):
        return record | {"filter": {key: str(getattr(spent.filter, key)) for key in FILTER_KEYS}}
    return record | {"remaining": _amounts(terms.remaining(account))}


def _amounts(amounts: Amount | Amounts) -> object:
    return amounts.to_dict() if isinstance(amounts, Amounts) else str(amounts)


def read_record(record: object, where: str = "record") -> tuple[LedgerTerms, Account, str]:
    """Return terms, account and identity of a record.

    Raises LedgerError if something is missing, of another type, too long, or does not add up.
    """
    try:
        return _read(record)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise LedgerError(f"{where} is no ledger: {one_line(error)}") from error


def _read(record: object) -> tuple[LedgerTerms, Account, str]:
    data = _check_version(record)
    identity = _identity(data["identity"], "identity")
    terms = LedgerTerms(_total(data), checked_neighboring(data["neighboring"]))
    listed = list_of(data["charges"], "charges", MAX_CHARGES)
    charges = [_charge(item, number, terms) for number, item in enumerate(listed, 1)]
    account = _account(terms, charges, data)
    expected = _derived_fields(terms, account, identity)
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


def _check_version(record: object) -> JsonObject:
    version = record.get("schema_version") if isinstance(record, dict) else None
    if isinstance(version, int) and version >= APPROXIMATE_VERSION:
        return versioned_object(
            record, "the record", FORMAT, APPROXIMATE_VERSION, (*KEYS, "filter")
        )
    return versioned_object(record, "the record", FORMAT, SCHEMA_VERSION, KEYS)


def _total(data: JsonObject) -> Total:
    if "filter" not in data:
        return budget_of(data["budget"])
    pair = object_of(data["budget"], "budget", ("epsilon", "delta"))
    return ApproximateDP(*(fraction_of(pair[key], key) for key in ("epsilon", "delta")))


def _account(terms: LedgerTerms, charges: Sequence[Charge], data: JsonObject) -> Account:
    """Return the account of charges, which fit: of (ε, δ) under the filter that is written."""
    if isinstance(terms.budget, ApproximateDP):
        held = object_of(data["filter"], "filter", FILTER_KEYS)
        kept = PrivacyFilter(*(fraction_of(held[key], key) for key in FILTER_KEYS))
        budgets = [charge.budget for charge in charges]
        return Account(tuple(charges), filter_state_of(terms.budget, kept, budgets))
    account = Account()
    for charge in charges:
        account = account.with_charge(charge)
    if not terms.fits(account):
        raise FieldError(f"the charges add up to {account.spent}, more than {terms.budget!r}.")
    return account


def _charge(item: object, number: int, terms: LedgerTerms) -> Charge:
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
        noise=checked_noise(data["noise"], budget),
        when=when,
        identity=_identity(data["identity"], f"charge {number}: identity"),
        **{word: checked_what(data[word]) for word in WORDS if word in data},
    )


MAX_BYTES = 32 * 1024**2


class FileStore(Store):
    """An account in a file: read anew each time, and written under a lock, whole or not at all.

    The lock is a file beside it, of the same name with ``.lock`` added. A file that has other terms
    or another identity than when the ledger was opened is refused.
    """

    def __init__(self, path: Path, terms: LedgerTerms, identity: str, account: Account) -> None:
        self.path = path
        self.terms = terms
        self.identity = identity
        self._account = account

    def check(self) -> None:
        """Refuse if the file is gone or is no ledger of these terms."""
        self.read()

    def read(self) -> Account:
        terms, account, identity = read_file(self.path)
        if identity != self.identity:
            raise LedgerError(
                f"{self.path} is now another ledger: expected the one that it was when opened. "
                f"Open it anew with PrivacyLedger.open(path), if that is meant."
            )
        if terms != self.terms:
            raise LedgerError(
                f"{self.path} is now a ledger of {terms.budget!r} ({terms.neighboring}): expected "
                f"{self.terms.budget!r} ({self.terms.neighboring}), as it was when opened."
            )
        self._account = account
        return account

    def last_account(self) -> Account:
        """Return the account as the file has it, or as it was when it last could be read."""
        try:
            return self.read()
        except LedgerError:
            return self._account

    @contextmanager
    def lock(self) -> Iterator[Put]:
        with file_lock(self.path):
            yield self._put

    def _put(self, account: Account) -> None:
        write_file(self.path, self.terms, account, self.identity)
        super()._put(account)


def open_store(path: Path, budget: Total | None, neighboring: str | None) -> FileStore:
    """Return the store of a file, which is made if there is none.

    Raises LedgerError if the file is no ledger; BudgetError if there is no file and no total
    budget, or the file is a ledger of other terms.
    """
    if not path.exists() and budget is None:
        raise BudgetError(
            f"{path} does not exist: expected the file of a ledger, or a total budget to start "
            f"one: PrivacyLedger.open(path, epsilon=1)."
        )
    if budget is not None and not path.exists():
        terms = LedgerTerms(budget, checked_neighboring(neighboring or "add_remove"))
        with file_lock(path):
            if not path.exists():
                fresh = uuid4().hex
                account = terms.opening_account
                write_file(path, terms, account, fresh)
                return FileStore(path, terms, fresh, account)
    terms, account, identity = read_file(path)
    if budget not in (None, terms.budget) or neighboring not in (None, terms.neighboring):
        asked = [] if budget is None else [f"{budget!r}"]
        asked += [] if neighboring is None else [f"{neighboring} neighbours"]
        raise BudgetError(
            f"{path} is a ledger of {terms.budget!r} under {terms.neighboring} neighbours; asked "
            f"was {' under '.join(asked)}. A ledger keeps its terms: expected the same ones, none, "
            f"or another file."
        )
    return FileStore(path, terms, identity, account)


def read_file(path: Path) -> tuple[LedgerTerms, Account, str]:
    """Return terms, account and identity of a ledger's file. Needs the right to read, no more.

    Raises LedgerError if there is no such file, it has several names, is too large, or is no
    ledger.
    """
    try:
        with open_regular(path, MAX_BYTES) as file:
            found = os.fstat(file.fileno())
            names, content = found.st_nlink, file.read(found.st_size)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}.") from error
    except UnreadableError as error:
        raise LedgerError(f"{error} It is no ledger's file.") from error
    if names > 1:
        raise LedgerError(
            f"{path} is one of {names} hard links to one file: a charge under one name would not "
            f"be seen under the others, and the budget spent twice. Expected a file of one name: "
            f"remove the others, use symbolic links, or put a copy in its place."
        )
    try:
        record = parse_json(content)
    except ValueError as error:
        raise LedgerError(f"{path} is no ledger in JSON: {error}") from error
    return read_record(record, str(path))


def write_file(path: Path, terms: LedgerTerms, account: Account, identity: str) -> None:
    """Write a ledger's file, whole or not at all, and see it onto the disk."""
    text = json.dumps(record_of(terms, account, identity), indent=2, ensure_ascii=False)
    try:
        with whole_file(path) as file:
            file.write(f"{text}\n".encode())
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be written: {error.strerror}. No noise was drawn. Look at the ledger "
            f"before you try again."
        ) from error


def open_lock(path: Path) -> BinaryIO:
    if not path.parent.is_dir():
        raise LedgerError(f"{path}: there is no folder {path.parent}. Expected one that exists.")
    try:
        place = path.with_name(path.name + ".lock")
        if place.exists() and not place.is_file():  # a pipe would be waited for without end
            raise LedgerError(f"{place} is no regular file: remove it, for it is the lock's place.")
        return place.open("ab")
    except OSError as error:
        raise LedgerError(
            f"{path} takes no charges here: its lock cannot be opened ({error.strerror}). "
            f"Expected the right to write in its folder. To look at it, reading is enough."
        ) from error


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock beside a file: one thread of one process at a time, freed if it dies."""
    with open_lock(path) as file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
