"""Checks before measuring: the noise can be drawn, and the ledger can pay."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np

from mrf_matrix.base.arrays import Seed
from mrf_matrix.base.checks import check_parent_process, short_repr, warn_caller
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
from mrf_matrix.estimators.parameters import Budget as Budget
from mrf_matrix.estimators.parameters import RandomState, ReleaseParameters
from mrf_matrix.mechanisms import PrivacyLedger
from mrf_matrix.mechanisms.ledger.payers import BudgetWarning, default_ledger
from mrf_matrix.mechanisms.ledger.rules import check_claims

NOISES = ("exact", "research")
NOISE_KEY = 1
"""Tells the noise's seeds from the structure's, which have no key."""


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


def budget_request(
    estimator: ReleaseParameters, budget: Budget, what: str = "fit"
) -> BudgetRequest:
    """Return what a release costs; `what` it is for is said in the ledger's words.

    Raises ValueError if a ledger would pay for a release over a domain read off the records.
    """
    random_state: RandomState = vars(estimator).get("random_state")
    payer = default_ledger() if estimator.ledger is None else estimator.ledger
    known = domain_provenance(vars(estimator).get("domain"))
    if payer is not None:
        check_claims(known, payer)
    return BudgetRequest(
        ledger=payer,
        budget=budget,
        what=f"{type(estimator).__name__}.{what}",
        neighboring=estimator.neighboring,
        noise=estimator.noise,
        noise_state=noise_seed(estimator.noise, estimator.noise_state, random_state),
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


def noise_seed(noise: str, noise_state: Seed, random_state: RandomState) -> Seed:
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
