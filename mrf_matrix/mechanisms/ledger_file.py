"""A ledger kept in a JSON file, which many processes and many days share."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mrf_matrix.mechanisms.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.exact_number import BudgetError
from mrf_matrix.mechanisms.ledger_charge import Account, Charge
from mrf_matrix.mechanisms.ledger_record import LedgerError, read_record, record_of
from mrf_matrix.mechanisms.ledger_rules import Terms
from mrf_matrix.mechanisms.ledger_store import Writer
from mrf_matrix.mechanisms.neighboring import checked_neighboring

MAX_BYTES = 32 * 1024**2


class FileStore:
    """An account in a file: read anew each time, and written under a lock, whole or not at all.

    Parameters
    ----------
    path : Path
        The ledger's file. The lock is a file beside it, of the same name with ``.lock`` added.
    terms : Terms
        What the ledger was opened for; a file that says otherwise is refused.
    """

    def __init__(self, path: Path, terms: Terms) -> None:
        self.path = path
        self.terms = terms

    def check(self) -> None:
        """Refuse if the file is gone or is no ledger of these terms."""
        self.read()

    def read(self) -> Account:
        """Return the account as the file has it now."""
        terms, account = read_file(self.path)
        if terms != self.terms:
            raise LedgerError(
                f"{self.path} is now a ledger of {terms.budget!r} ({terms.neighboring}): expected "
                f"{self.terms.budget!r} ({self.terms.neighboring}), as it was when opened."
            )
        return account

    def add(self, write: Writer) -> Charge:
        """Write one charge against the account in the file."""
        with locked(self.path):
            account = self.read()
            charge = write(account)
            write_file(self.path, self.terms, account.plus(charge))
            return charge


def opened(path: Path, budget: PureDP | ZCDP | None, neighboring: str | None) -> FileStore:
    """Return the store of a file, which is made if there is none.

    Raises
    ------
    LedgerError
        If the file is no ledger.
    BudgetError
        If there is no file and no total budget, or the file is a ledger of other terms.
    """
    if not path.exists() and budget is None:
        raise BudgetError(
            f"{path} does not exist: expected the file of a ledger, or a total budget to start "
            f"one: PrivacyLedger.open(path, epsilon=1)."
        )
    with locked(path):
        if budget is not None and not path.exists():
            terms = Terms(budget, checked_neighboring(neighboring or "add_remove"))
            write_file(path, terms, Account())
            return FileStore(path, terms)
    terms, _ = read_file(path)
    if budget not in (None, terms.budget) or neighboring not in (None, terms.neighboring):
        raise BudgetError(
            f"{path} is a ledger of {terms.budget!r} under {terms.neighboring} neighbours; asked "
            f"was {budget!r} under {neighboring}. A ledger keeps its terms: expected the same "
            f"ones, none, or another file."
        )
    return FileStore(path, terms)


def read_file(path: Path) -> tuple[Terms, Account]:
    """Return terms and account of a ledger's file.

    Raises
    ------
    LedgerError
        If there is no such file, it is too large, or it is no ledger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > MAX_BYTES:
        raise LedgerError(f"{path} has more than {MAX_BYTES} bytes: expected a ledger's file.")
    try:
        record = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{path} is no ledger in JSON: {error}") from error
    return read_record(record, str(path))


def write_file(path: Path, terms: Terms, account: Account) -> None:
    """Write a ledger's file and see it onto the disk before it takes the old one's place."""
    record = record_of(terms, account)
    draft = path.with_name(path.name + ".part")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(record, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock beside a file: one thread of one process at a time, freed if it dies."""
    with path.with_name(path.name + ".lock").open("ab") as file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
