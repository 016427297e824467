"""What a fitted estimator has answered so far, on which terms, and what it may still spend."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from types import TracebackType
from typing import Any, Self

import numpy as np

from mrf_matrix.base.arrays import Array, Bools, Codes, Longs
from mrf_matrix.base.provenance import Provenance, Spending, join, new_identity
from mrf_matrix.estimators.shared.spending import Bill, Budget
from mrf_matrix.mechanisms import BudgetError, CellCounts, LeafCounts, PrivateDataError, Release
from mrf_matrix.mechanisms.budgets.budget import total_budget
from mrf_matrix.planning.plans.measuring import Measuring
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import PublicForests


class PrivateTables:
    """The private tables of a fitted estimator, one for each ensemble: **raw counts**.

    They hold how many records of each class lie in each cell (or leaf), not the records' order.
    Pickling or copying them raises, unless the caller asked for it: whoever gets a copy gets the
    records, and could spend the same budget once more.

    Parameters
    ----------
    tables : sequence of CellCounts
    may_be_pickled : bool, default=False
    """

    def __init__(self, tables: Sequence[CellCounts], may_be_pickled: bool = False) -> None:
        self._tables = tuple(tables)
        self._may_be_pickled = bool(may_be_pickled)

    def __iter__(self) -> Iterator[CellCounts]:
        return iter(self._tables)

    def __repr__(self) -> str:
        return f"PrivateTables(private, {len(self._tables)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._may_be_pickled:
            raise PrivateDataError(
                "the fitted estimator holds private records, for it answers queries that come "
                "later: it is not pickled, copied or sent to another process. Share its "
                "predictions, or set keep_records_in_pickle=True before fit, and then treat the "
                "file like the records themselves."
            )
        return _rebuilt, (
            tuple((t.codes, t.counts, t.sizes, t.domain, t.provenance) for t in self._tables),
        )


def counts_of_cells(counts: CellCounts | LeafCounts) -> CellCounts:
    """Return the counts over cells; refuse those of leaves, which answer no queries.

    Raises ValueError if leaves were counted.
    """
    if not isinstance(counts, CellCounts):
        raise ValueError(
            "counts are those of a forest's leaves, and cells are asked for: expected counts of "
            "cells, from count_stream."
        )
    return counts


def _rebuilt(parts: Sequence[tuple[Any, ...]]) -> PrivateTables:
    return PrivateTables([CellCounts(*part) for part in parts], may_be_pickled=True)


class CallLock:
    """One thread at a time, in a ``with`` block; the same thread may enter again.

    Locks themselves are neither pickled nor copied. A copy of this one is a new lock, open.
    """

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["CallLock"], tuple[()]]:
        return CallLock, ()


@dataclass(frozen=True, eq=False)
class VoteBatch:
    """One batch of queries that was released."""

    plan: Plan  # what was planned before the records were read
    releases: tuple[Release, ...]  # the noisy measurements, one for each ensemble
    votes: Array  # (b, k): noisy votes of the batch's distinct queries


class VoteBook:
    """Released votes by query, and a budget planned for a number of batches.

    Like a ledger it is one object that grows: an answer once released is given again at no cost,
    and a batch beyond the plan is refused. Whoever adds a batch holds `lock` from the look at what
    is unknown until the answers are recorded, so that threads neither overspend nor ask twice.

    Parameters
    ----------
    budget : PureDP or ZCDP
        For all batches together.
    n_batches : int
        Batches of new queries that it is divided into, equally. An infinite budget is not used
        up.
    """

    def __init__(self, budget: Budget, n_batches: int) -> None:
        self.budget = budget
        self.n_batches = n_batches
        self.lock = CallLock()
        self.n_started = 0
        self.batches: list[VoteBatch] = []
        self._charged: list[Spending] = []
        self._drawn: list[tuple[Plan, tuple[Release, ...], Codes]] = []
        self._votes: dict[bytes, Array] = {}
        self._batch_of: dict[bytes, int] = {}

    @property
    def batch_budget(self) -> Budget:
        """What one batch of new queries spends."""
        return self.budget.split(self.n_batches)[0]

    @property
    def spent(self) -> Budget | None:
        """What the charged batches cost together, released or lost; None where there is none."""
        return total_budget([one.budget for one in self._charged]) if self._charged else None

    @property
    def provenance(self) -> Provenance:
        """The charges of all batches, released or lost."""
        return join(map(Provenance.of_spending, self._charged))

    @property
    def n_charged(self) -> int:
        """Number of batches that were charged, released or lost."""
        return len(self._charged)

    @property
    def n_drawn(self) -> int:
        """Number of batches whose noisy answers are here, worked out or not yet."""
        return len(self.batches) + len(self._drawn)

    @contextmanager
    def reserved(self, new: int) -> Iterator[int]:
        """Reserve a batch for new queries before it is planned; give its number.

        It returns where the block fails before the batch is charged. Afterwards it stays, for
        the records may have been read.

        Raises BudgetError if all batches are taken.
        """
        self.check_open(new)
        number, charged = self.n_started, self.n_charged
        self.n_started += 1
        try:
            yield number
        except BaseException:
            if self.n_charged == charged:
                self.n_started -= 1
            raise

    def charge(self, spending: Spending) -> None:
        """Count a batch as spent, before its records are read."""
        self._charged.append(spending)

    def check_open(self, new: int) -> None:
        """Refuse a batch of new queries beyond the plan."""
        if self.n_started >= self.n_batches and not self.budget.is_infinite:
            raise BudgetError(
                f"{new} new queries after the planned {self.n_batches} of n_batches="
                f"{self.n_batches}: {self.budget!r} is spent. Queries that were answered are "
                f"answered again at no cost; for new ones ask all at once, or fit again with a "
                f"larger n_batches, each at its share of the budget."
            )

    def unknown(self, keys: Codes) -> Bools:
        """Tell which queries have no released answer, shape (b,)."""
        return np.array([key.tobytes() not in self._votes for key in keys], dtype=bool)

    def keep(self, plan: Plan, releases: tuple[Release, ...], keys: Codes) -> None:
        """Keep what was drawn of a batch, before anything is worked out of it."""
        self._drawn.append((plan, releases, keys))

    def answer(self) -> None:
        """Answer the batches that were drawn: post-processing, at no charge, whenever it is."""
        while self._drawn:
            plan, releases, keys = self._drawn[0]
            self.record(VoteBatch(plan, releases, plan.answers(releases)), keys)
            del self._drawn[0]

    def record(self, batch: VoteBatch, keys: Codes) -> None:
        """Keep a released batch, for whoever asks again."""
        self._batch_of.update((key.tobytes(), len(self.batches)) for key in keys)
        self.batches.append(batch)
        self._votes.update(
            (key.tobytes(), votes) for key, votes in zip(keys, batch.votes, strict=True)
        )

    def batch_numbers(self, keys: Codes) -> Longs:
        """Return which of `batches` answered each query, shape (b,)."""
        return np.array([self._batch_of[key.tobytes()] for key in keys], dtype=np.int64)

    def votes(self, keys: Codes, n_classes: int) -> Array:
        """Return the released votes of queries, shape (b, k)."""
        found = [self._votes[key.tobytes()] for key in keys]
        return np.array(found).reshape(len(keys), n_classes)


@dataclass(frozen=True, eq=False)
class FittedPrediction:
    """One fit: what is public, the private tables, the terms, and what was answered so far.

    A thread that holds it is not disturbed by another fit of the same estimator.
    """

    forests: PublicForests
    measuring: Measuring  # how each batch is measured, at its budget
    tables: PrivateTables
    bill: Bill  # budget of all batches, ledger, neighbouring relation and noise
    book: VoteBook


def batch_bill(bill: Bill, book: VoteBook, number: int, new: int) -> Bill:
    """Return what a batch costs, by its number and how many of its queries are new."""
    asked = f", {new} new queries" if new else ""
    return replace(
        bill,
        budget=book.batch_budget,
        what=f"{bill.what}, batch {number + 1}{asked}",
        identity=new_identity(),
    )
