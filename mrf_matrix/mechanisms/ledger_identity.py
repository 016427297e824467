"""One ledger, never two: what a copy, a clone and a pickle of a ledger give.

Two copies of one ledger would each spend its budget. So a copy is the ledger itself, a pickle
loaded where the ledger lives is that ledger, and one loaded elsewhere shows and never spends.
"""

from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from mrf_matrix.mechanisms.ledger_charge import Account
from mrf_matrix.mechanisms.ledger_rules import Terms
from mrf_matrix.mechanisms.ledger_store import ELSEWHERE, ReadOnlyStore, Store

if TYPE_CHECKING:
    from mrf_matrix.mechanisms.ledger import PrivacyLedger

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
    """Return what `__reduce__` returns: a file is opened anew, an account in memory is shown."""
    path = getattr(store, "path", None)
    if path is not None:
        return kind.open, (path,)
    return unpickled, (kind, token, terms, store.read())


def unpickled(
    kind: "type[PrivacyLedger]", token: str, terms: Terms, account: Account
) -> "PrivacyLedger":
    """Return the living ledger where it lives, and a read-only copy elsewhere."""
    living = _LIVING.get(token)
    if living is not None:
        return living
    return kind._of(terms, ReadOnlyStore(account, ELSEWHERE), token)
