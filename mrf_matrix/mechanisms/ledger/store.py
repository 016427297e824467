"""Where a ledger's account lives: in the memory of one process, or nowhere (a read-only copy)."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Protocol

from mrf_matrix.base.checks import BudgetError
from mrf_matrix.mechanisms.ledger.charge import Account

Writer = Callable[[Account], Account]
Put = Callable[[Account], None]


class Store(Protocol):
    """Reads an account, and changes it one charge at a time."""

    def check(self) -> None:
        """Refuse if no charge can be added here."""

    def read(self) -> Account:
        """Return the account as it stands."""

    def locked(self) -> AbstractContextManager[Put]:
        """Let nobody else change the account in a block; give what puts another in its place."""

    def update(self, write: Writer) -> Account:
        """Change the account as it stands, with nobody in between; return it."""


class MemoryStore:
    """An account in the memory of the process that made it; threads take turns."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._lock = Lock()
        self._process = os.getpid()

    def check(self) -> None:
        """Refuse in a forked process: what is spent there, its parent would not see."""
        if os.getpid() != self._process:
            raise BudgetError(ELSEWHERE)

    def read(self) -> Account:
        """Return the account as it stands."""
        return self._account

    @contextmanager
    def locked(self) -> Iterator[Put]:
        """Let no other thread change the account in a block."""
        self.check()  # before the lock, which a fork may have copied while it was held
        with self._lock:
            yield self._put

    def _put(self, account: Account) -> None:
        self._account = account

    def update(self, write: Writer) -> Account:
        """Change the account as it stands; return it."""
        with self.locked() as put:
            changed = write(self._account)
            put(changed)
            return changed


class ReadOnlyStore:
    """A copy of an account that another process or a file owns: it shows, and never spends."""

    def __init__(self, account: Account, reason: str) -> None:
        self._account = account
        self.reason = reason

    def check(self) -> None:
        """Refuse, and say where the ledger is."""
        raise BudgetError(self.reason)

    def read(self) -> Account:
        """Return the account as it was when it was copied."""
        return self._account

    def locked(self) -> AbstractContextManager[Put]:
        """Refuse, and say where the ledger is."""
        raise BudgetError(self.reason)

    def update(self, write: Writer) -> Account:
        """Refuse, and say where the ledger is."""
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
