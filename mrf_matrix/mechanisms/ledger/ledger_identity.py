"""One ledger, never two: what a copy, a clone and a pickle of a ledger give.

Two copies of one ledger would each spend its budget. So a copy is the ledger itself, a pickle
loaded where the ledger lives is that ledger, and one loaded elsewhere shows and never spends. A
ledger in a file lives wherever that file is, as long as it still is that ledger.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from mrf_matrix.mechanisms.ledger.charge import Account
from mrf_matrix.mechanisms.ledger.file import FileStore, read_file
from mrf_matrix.mechanisms.ledger.record import LedgerError
from mrf_matrix.mechanisms.ledger.rules import Terms
from mrf_matrix.mechanisms.ledger.store import ELSEWHERE, ReadOnlyStore, Store

if TYPE_CHECKING:
    from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger

_LIVING: "WeakValueDictionary[str, PrivacyLedger]" = WeakValueDictionary()


class OneLedger:
    """An object whose copies and clones are the object itself."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        """Return the ledger itself: clones of an estimator spend from one budget."""
        return self


def remember(token: str, ledger: "PrivacyLedger") -> None:
    """Keep a ledger of this process, for as long as it lives, under its token."""
    _LIVING[token] = ledger


def pickled(kind: "type[PrivacyLedger]", token: str, terms: Terms, store: Store) -> tuple[Any, ...]:
    """Return what `__reduce__` returns: enough to tell whether a file is still this ledger."""
    if isinstance(store, FileStore):
        account = store.last_known()
        return reopened, (kind, shortest(store.path), store.identity, terms, account)
    reason = store.reason if isinstance(store, ReadOnlyStore) else ELSEWHERE
    return unpickled, (kind, token, terms, store.read(), reason)


def unpickled(
    kind: "type[PrivacyLedger]", token: str, terms: Terms, account: Account, reason: str
) -> "PrivacyLedger":
    """Return the living ledger where it lives, and a read-only copy elsewhere."""
    living = _LIVING.get(token)
    if living is not None:
        return living
    return kind._of(terms, ReadOnlyStore(account, reason), token)


def reopened(
    kind: "type[PrivacyLedger]", path: str, identity: str | None, terms: Terms, account: Account
) -> "PrivacyLedger":
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
    if identity is None or not same:
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
