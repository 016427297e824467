"""The ledger that pays where no estimator names one."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mrf_matrix.base.checks import BudgetError
from mrf_matrix.base.provenance import current_spending
from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.listening import describing

Ledgers = tuple[PrivacyLedger, ...]

_INSIDE: ContextVar[Ledgers] = ContextVar("ledgers", default=())
"""Ledgers that this thread, or asynchronous task, is inside of: innermost last."""

DEFAULTS: dict[object, Ledgers] = {}
"""All that are open in the process, each after those around it: a search's threads, which are
inside of none themselves, must spend from them too."""


class BudgetWarning(UserWarning):
    """Budgets were spent in one process that no ledger adds up."""


def default_ledger() -> PrivacyLedger | None:
    """Return the ledger of the innermost `privacy_ledger`, if there is one.

    Raises BudgetError in a thread that is inside of none, where two others are inside of different
    ones: which of them pays would be chance.
    """
    if current_spending() is not None:
        return None
    open_here, anywhere = _INSIDE.get(), list(DEFAULTS.values())
    if not open_here and anywhere:
        open_here = anywhere[-1]
        if any(one != open_here[: len(one)] for one in anywhere):
            raise BudgetError(
                "several threads are inside of privacy_ledger, and this one is not: expected "
                "ledger=PrivacyLedger(...), or privacy_ledger in this thread too. Nothing was "
                "read or spent."
            )
    return open_here[-1] if open_here else None


@contextmanager
def privacy_ledger(
    ledger: PrivacyLedger | None = None,
    *,
    epsilon: object = None,
    rho: object = None,
    delta: object = None,
    neighboring: str | None = None,
    **words: str,
) -> Iterator[PrivacyLedger]:
    """Let one ledger pay for every private fit and evaluation inside that names none of its own.

    It holds for all threads of the process that are inside of no other; in worker processes exact
    noise is refused anyway.

    Parameters
    ----------
    ledger : PrivacyLedger, optional
        For example one of a file; or a new one is made of the total that follows.
    epsilon, rho, delta, neighboring
        See `PrivacyLedger`.
    **words : str
        ``purpose`` and ``data``, said of every charge: see `PrivacyLedger.describe`.

    Examples
    --------
    >>> from mrf_matrix import Domain, PrivateNaiveBayesClassifier
    >>> domain = Domain.from_sizes([2, 2], n_classes=2)
    >>> with privacy_ledger(epsilon=2, purpose="an example") as ledger:
    ...     model = PrivateNaiveBayesClassifier(domain).fit([[0, 1], [1, 0]], [0, 1])
    >>> ledger.remaining, ledger.charges[0].purpose
    (Fraction(1, 1), 'an example')
    """
    terms = {"epsilon": epsilon, "rho": rho, "delta": delta, "neighboring": neighboring}
    given = {name: value for name, value in terms.items() if value is not None}
    if ledger is None:
        ledger = PrivacyLedger(**given)  # type: ignore[arg-type]
    elif not isinstance(ledger, PrivacyLedger):
        raise TypeError(
            f"ledger is of type {type(ledger).__name__}: expected a PrivacyLedger, such as "
            f"PrivacyLedger.open(path)."
        )
    elif given:
        raise ValueError(
            f"{', '.join(given)} beside a ledger: expected the ledger alone, which has its terms."
        )
    opened, key = (*_INSIDE.get(), ledger), object()
    token, DEFAULTS[key] = _INSIDE.set(opened), opened
    try:
        with describing(**words):
            yield ledger
    finally:
        del DEFAULTS[key]
        _INSIDE.reset(token)
