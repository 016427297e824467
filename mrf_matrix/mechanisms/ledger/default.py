"""The ledger that pays where no estimator names one."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.listening import describing

DEFAULTS: list[PrivacyLedger] = []
"""Innermost last. Of the process, not of a thread: a search's threads must spend from it too."""


PAID_FOR: ContextVar[bool] = ContextVar("paid", default=False)
"""Whether a whole that was paid for already is being measured."""


class BudgetWarning(UserWarning):
    """Private releases were made in one process that no ledger adds up."""


@contextmanager
def already_paid() -> Iterator[None]:
    """Charge nothing for the parts of a release whose whole was charged."""
    token = PAID_FOR.set(True)
    try:
        yield
    finally:
        PAID_FOR.reset(token)


@contextmanager
def privacy_ledger(
    ledger: PrivacyLedger | None = None,
    *,
    epsilon: object = None,
    rho: object = None,
    neighboring: str = "add_remove",
    **words: str,
) -> Iterator[PrivacyLedger]:
    """Let one ledger pay for every private fit inside that names no ledger of its own.

    It holds for all threads of the process; in worker processes exact noise is refused anyway.

    Parameters
    ----------
    ledger : PrivacyLedger, optional
        For example one of a file; or a new one is made of the total that follows.
    epsilon, rho, neighboring
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
    total = {"epsilon": epsilon, "rho": rho}
    if ledger is None:
        ledger = PrivacyLedger(**total, neighboring=neighboring)  # type: ignore[arg-type]
    elif any(given is not None for given in total.values()):
        raise ValueError(f"{total} beside a ledger: expected one of them, for it has a total.")
    DEFAULTS.append(ledger)
    try:
        with describing(**words):
            yield ledger
    finally:
        DEFAULTS.remove(ledger)
