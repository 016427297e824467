"""Ledgers that pay: the one around a fit that names none, or several at once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

from mrf_matrix.base.checks import BudgetError
from mrf_matrix.base.provenance import NOTHING, Provenance, Spending, current_spending
from mrf_matrix.base.work import hold_signals
from mrf_matrix.mechanisms.ledger.charge import Account
from mrf_matrix.mechanisms.ledger.file import LedgerError, Put
from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.rules import (
    add_charges,
    describe_charges,
    record_charge,
)

Ledgers = tuple[PrivacyLedger, ...]

_OPEN_LEDGERS: ContextVar[Ledgers] = ContextVar("ledgers", default=())
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
    open_here, anywhere = _OPEN_LEDGERS.get(), list(DEFAULTS.values())
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
    opened, key = (*_OPEN_LEDGERS.get(), ledger), object()
    token, DEFAULTS[key] = _OPEN_LEDGERS.set(opened), opened
    try:
        with describe_charges(**words):
            yield ledger
    finally:
        del DEFAULTS[key]
        _OPEN_LEDGERS.reset(token)


def charge_together(
    ledgers: Sequence[PrivacyLedger],
    own: Spending,
    *,
    rests_on: Provenance = NOTHING,
) -> None:
    """Charge one spending to each of several ledgers, or to none of them.

    All are locked, in the order of their identities, so that two calls over the same ledgers never
    wait for each other; then all are asked; then all are written. Where one cannot be written,
    those before it are put back as they were, while nobody else can have charged them. A ledger
    that is named twice pays twice, for each name stands for records of its own.

    Raises BudgetError, NoiseProcessError, ValueError, LedgerError as `PrivacyLedger.charge`;
    nothing is charged then.
    """
    known = {ledger.identity: ledger for ledger in ledgers}
    times = [ledger.identity for ledger in ledgers]
    with hold_signals(), ExitStack() as locks:
        puts = {name: locks.enter_context(known[name]._store.lock()) for name in sorted(known)}
        before = {name: known[name]._store.read() for name in puts}
        after = dict(before)
        for name in times:
            after[name] = add_charges(known[name]._terms, after[name], own, rests_on)
        _put_all(puts, before, after)
    for name in times:
        record_charge(
            next(one for one in after[name].charges[::-1] if one.identity == own.identity)
        )


def find_refusals(
    ledgers: Mapping[int, PrivacyLedger], own: Spending, *, rests_on: Provenance = NOTHING
) -> dict[int, ValueError]:
    """Return why ledgers would refuse a spending, by their numbers, where each pays in turn.

    Nothing is spent. A ledger that is named twice may pay once, and refuse then.
    """
    accounts: dict[str, Account] = {}
    found: dict[int, ValueError] = {}
    for number, ledger in ledgers.items():
        try:
            ledger._store.check()
            account = accounts.get(ledger.identity) or ledger._store.read()
            accounts[ledger.identity] = add_charges(ledger._terms, account, own, rests_on)
        except (BudgetError, LedgerError) as error:
            found[number] = error
    return found


def _put_all(
    puts: Mapping[str, Put], before: Mapping[str, Account], after: Mapping[str, Account]
) -> None:
    written: list[str] = []
    try:
        for name, put in puts.items():
            written.append(name)
            put(after[name])
    except BaseException as error:
        for name in written:
            try:
                puts[name](before[name])
            except Exception as again:  # each is tried by itself
                error.add_note(
                    f"The charge of ledger {name} may stand, though nothing was drawn for it: it "
                    f"could not be written back ({again})."
                )
        raise
