"""The cost of a release and who pays it: the ledger that is named, the one around, or several.

Everything that can refuse comes before the charge: noise that could not be drawn, and a ledger that
cannot pay.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Seed
from mrf_matrix.base.checks import BudgetError, check_parent_process, short_repr, warn_caller
from mrf_matrix.base.provenance import (
    NOTHING,
    Provenance,
    Spending,
    current_spending,
    join,
    new_identity,
    part_of_charge,
    parts_of,
)
from mrf_matrix.base.work import Payment, hold_signals, keep_draws
from mrf_matrix.domain import domain_provenance
from mrf_matrix.mechanisms.ledger.charge import Account
from mrf_matrix.mechanisms.ledger.file import LedgerError, Put
from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.rules import (
    add_charges,
    check_claims,
    describe_charges,
    record_charge,
)
from mrf_matrix.mechanisms.statement import Budget

NOISES = ("exact", "research")
NOISE_KEY = 1
"""Tells the noise's seeds from the structure's, which have no key."""

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


class UntrackedSpending:
    """The sum of what this process released privately, and no ledger was charged for.

    It warns once, at the second: each alone keeps its promise, together they have another.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._spent: list[Budget] = []

    def add(self, budget: Budget, noise: str) -> None:
        """Add a release; nothing is added for one that claims no privacy."""
        if noise != "exact" or budget.is_infinite or current_spending() is not None:
            return
        with self._lock:
            if len(self._spent) >= 2:  # it was said
                return
            self._spent.append(budget)
            if len(self._spent) < 2:
                return
        warn_caller(
            f"This process has spent {self._sum} in two private fits without a ledger. Of the "
            "same records their sum holds, and later fits add to it, which is not said again. "
            "Give ledger=PrivacyLedger(...), or fit inside `with privacy_ledger(epsilon=...)`.",
            BudgetWarning,
        )

    @property
    def _sum(self) -> str:
        kinds = dict.fromkeys(type(one) for one in self._spent)
        sums = (
            kind(sum(one.exact for one in self._spent if isinstance(one, kind))) for kind in kinds
        )
        return " and ".join(map(repr, sums))


UNTRACKED = UntrackedSpending()


@dataclass(frozen=True)
class BudgetRequest:
    """The cost of one release, and the ledger that pays for it, if there is one.

    `check` comes before the records are read, `charge` just before they are measured; both
    refuse what the ledger cannot pay, and noise that could not be drawn.
    """

    ledger: PrivacyLedger | None
    budget: Budget
    what: str
    neighboring: str
    noise: str
    noise_state: Seed
    rests_on: Provenance = NOTHING
    """That of what will be measured: structures that were released before are charged too."""
    whole: Spending | None = field(default_factory=current_spending)
    """The charge that it is a part of, where there is one."""
    identity: str = field(default_factory=new_identity)

    @property
    def as_spending(self) -> Spending:
        """The charge that all that is released belongs to."""
        kind, what = self._kind, self.what
        own = Spending(self.budget, self.neighboring, kind, what, identity=self.identity)
        return own if self.whole is None else part_of_charge(own, self.whole)

    @property
    def provenance(self) -> Provenance:
        return self.rests_on | Provenance.from_spending(self.as_spending)

    def resting_on(self, *others: Provenance) -> "BudgetRequest":
        return replace(self, rests_on=join([self.rests_on, *others]))

    def check(self) -> None:
        """Refuse what could not be measured or paid, and spend nothing."""
        check_noise(self.noise, self.noise_state, self.budget)
        if self.ledger is not None:
            if not isinstance(self.ledger, PrivacyLedger):
                raise TypeError(
                    f"ledger={short_repr(self.ledger)} is of type {type(self.ledger).__name__}: "
                    f"expected a PrivacyLedger, such as PrivacyLedger(epsilon=1), or None."
                )
            self.ledger.check(
                self.budget,
                self.what,
                neighboring=self.neighboring,
                noise=self._kind,
                rests_on=self.rests_on,
            )

    def charge(self) -> None:
        """Spend, or refuse."""
        check_noise(self.noise, self.noise_state, self.budget)
        if self.ledger is None:
            UNTRACKED.add(self.budget, self._kind)
        else:
            self.ledger.charge(
                self.budget,
                self.what,
                neighboring=self.neighboring,
                noise=self._kind,
                rests_on=self.rests_on,
                identity=self.identity,
            )

    def is_charged(self) -> bool | None:
        """Tell whether its ledger was charged; None where there is no ledger."""
        if self.whole is not None:
            return False  # the whole was
        return None if self.ledger is None else self.ledger.has_charged(self.identity)

    @property
    def _kind(self) -> str:
        return "none" if self.budget.is_infinite else str(self.noise)


@contextmanager
def pay(bill: BudgetRequest) -> Iterator[None]:
    """Spend, or refuse; then let the block draw. What is drawn is kept whatever fails.

    Everything that can refuse comes before it. Signals wait until the block has ended, and an
    error of the block holds what was drawn as its `releases`.
    """
    payment = Payment(bill.as_spending, bill.provenance, bill.is_charged)
    with hold_signals(), keep_draws() as record:
        record.payments.append(payment)
        bill.charge()
        with parts_of(bill.as_spending):
            yield


def budget_request(estimator: Any, budget: Budget, what: str = "fit") -> BudgetRequest:
    """Return what a classifier's release costs; `what` it is for is said in the ledger's words.

    Raises ValueError if a ledger would pay for a release over a domain read off the records.
    """
    payer = default_ledger() if estimator.ledger is None else estimator.ledger
    held = vars(estimator)
    known = domain_provenance(held.get("domain"))
    if payer is not None:
        check_claims(known, payer)
    return BudgetRequest(
        ledger=payer,
        budget=budget,
        what=f"{type(estimator).__name__}.{what}",
        neighboring=estimator.neighboring,
        noise=estimator.noise,
        noise_state=noise_seed(estimator.noise, estimator.noise_state, held.get("random_state")),
        rests_on=known,
    )


def check_noise(noise: str, noise_state: Seed, budget: Budget) -> None:
    """Refuse noise that could not be drawn, before the ledger is charged.

    Raises ValueError if the noise is unknown, or exact noise is given a seed; NoiseProcessError if
    exact noise would be drawn in a worker process.
    """
    if noise not in NOISES:
        raise ValueError(
            f"noise={short_repr(noise)}: expected 'exact' (release-grade) or 'research'."
        )
    if noise == "research":
        _check_seed(noise_state)
        return
    if noise_state is not None:
        raise ValueError(
            "noise_state was given with noise='exact': release-grade noise is never seedable. "
            "Expected noise_state=None, or noise='research' for a reproducible study."
        )
    if not budget.is_infinite:
        check_parent_process()


def _check_seed(noise_state: Seed) -> None:
    try:
        np.random.default_rng(noise_state)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"noise_state={short_repr(noise_state)}: expected None, a whole number that is not "
            f"negative, or a Generator."
        ) from error


def noise_seed(noise: str, noise_state: Seed, random_state: object) -> Seed:
    """Return what seeds the noise: ``noise_state``, and where research noise has none, a number.

    An integer ``random_state`` makes a study repeatable as scikit-learn's estimators are. The
    number is drawn from it by a sequence of its own, so that the noise is independent of the
    structure, which the seed itself draws. Exact noise is never seeded.
    """
    if noise != "research" or noise_state is not None:
        return noise_state
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        return None
    if random_state < 0:
        return None
    apart = np.random.SeedSequence(int(random_state), spawn_key=(NOISE_KEY,))
    return int(apart.generate_state(1, np.uint64)[0])


def noise_stream(noise: str, noise_state: Seed, batch: int = 0) -> np.random.Generator | None:
    """Return what `measure` draws one batch's noise from: None for exact noise.

    Research noise with an integer seed gives every batch its own stream, the first that of the
    seed itself.
    """
    if noise != "research":
        return None
    if batch and isinstance(noise_state, int | np.integer):
        return np.random.default_rng([int(noise_state), batch])
    return np.random.default_rng(noise_state)


# Several ledgers at once --------------------------------------------------------------------------


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
