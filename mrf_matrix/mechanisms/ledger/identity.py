"""One ledger, never two: what a copy, a clone and a pickle of a ledger give.

Two copies of one ledger would each spend its budget. So a copy is the ledger itself, a pickle
loaded where the ledger lives is that ledger, and one loaded elsewhere shows and never spends. A
ledger in a file lives wherever that file is, as long as it still is that ledger.
"""

from pathlib import Path
from typing import Self
from uuid import uuid4
from weakref import WeakValueDictionary

from mrf_matrix.mechanisms.ledger.charge import Account
from mrf_matrix.mechanisms.ledger.file import FileStore, read_file
from mrf_matrix.mechanisms.ledger.record import LedgerError
from mrf_matrix.mechanisms.ledger.store import ELSEWHERE, MemoryStore, ReadOnlyStore, Store
from mrf_matrix.mechanisms.ledger.terms import Terms

_LIVING: "WeakValueDictionary[str, OneLedger]" = WeakValueDictionary()


class OneLedger:
    """A ledger's terms and store, and why there is one of it, whatever copies, clones, pickles."""

    _terms: Terms
    _store: Store
    _token: str

    @classmethod
    def _of(cls, terms: Terms, store: Store, token: str | None = None) -> Self:
        """Return a ledger with a store of its own."""
        ledger = cls.__new__(cls)
        ledger._set(terms, store, token or uuid4().hex)
        return ledger

    def _set(self, terms: Terms, store: Store, token: str) -> None:
        """Hold terms and store; a ledger of this process is known by its token while it lives."""
        self._terms, self._store, self._token = terms, store, token
        if isinstance(store, MemoryStore):
            _LIVING[token] = self

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        """Return the ledger itself: clones of an estimator spend from one budget."""
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Return enough to tell, where it is loaded, whether a file is still this ledger."""
        kind, store = type(self), self._store
        if isinstance(store, FileStore):
            account = store.last_known()
            return ledger_of_file, (
                kind,
                shortest(store.path),
                store.identity,
                self._terms,
                account,
            )
        reason = store.reason if isinstance(store, ReadOnlyStore) else ELSEWHERE
        return living_ledger, (kind, self._token, self._terms, store.read(), reason)


def living_ledger(
    kind: type[OneLedger], token: str, terms: Terms, account: Account, reason: str
) -> OneLedger:
    """Return the living ledger where it lives, and a read-only copy elsewhere."""
    living = _LIVING.get(token)
    if living is not None:
        return living
    return kind._of(terms, ReadOnlyStore(account, reason), token)


def ledger_of_file(
    kind: type[OneLedger], path: str, identity: str, terms: Terms, account: Account
) -> OneLedger:
    """Return the ledger of a file if it is the one that was pickled, else a read-only copy.

    It is the one if identity and terms are equal, and its charges begin with those that were
    pickled: others may have charged it since.
    """
    file = Path(path).resolve()
    away = kind._of(terms, ReadOnlyStore(account, AWAY), identity)
    try:
        found_terms, found, found_identity = read_file(file)
    except LedgerError:
        return away
    known = found.charges[: len(account.charges)]
    same = (found_identity, found_terms, known) == (identity, terms, account.charges)
    if not same:
        return away
    return kind._of(terms, FileStore(file, terms, identity, found), identity)


def shortest(path: Path) -> str:
    """Return a path relative to the current folder, which it does not name, where it can."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


AWAY = (
    "this is a copy of a PrivacyLedger whose file is not here, or no longer is that ledger: it "
    "shows what was spent when it was copied, and takes no charges. Continue on the ledger's own "
    "file: set_params(ledger=PrivacyLedger.open(path))."
)
