"""Answers to queries: each batch is a plan, and a curator takes it when its queries come.

Every batch has an equal share of the budget, deferred to the plan that its public queries pick. A
batch is charged when it is taken: nobody pays for queries that nobody asks. Its releases are kept
first. Votes, intervals and the report follow from them at no cost, as often as one likes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import sqrt
from threading import RLock
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Array, Bools, Codes, Longs
from mrf_matrix.base.provenance import Provenance, Spending, join, new_identity
from mrf_matrix.compilation.matrices import query_keys
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.estimators.parameters import Budget
from mrf_matrix.kinds.matrix import structure_notes
from mrf_matrix.kinds.model import report_of
from mrf_matrix.mechanisms import BudgetError, CellCounts, LeafCounts, PrivateDataError, Release
from mrf_matrix.mechanisms.ledger.payers import BudgetRequest, noise_stream, pay
from mrf_matrix.planning.plans.build import PublicForests
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import MeasurementSpec, PlanKind
from mrf_matrix.release.curator import Live
from mrf_matrix.release.plan import AnnouncedPlan, Deferred, Outcome, PlanOfSteps, Transcript
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.voting.intervals import half_widths, vote_terms
from strategies.operators import Operator


class PrivateTables:
    """The private tables of a fitted estimator, one for each ensemble: **raw counts**.

    They hold how many records of each class lie in each cell (or leaf), not the records' order.
    Pickling or copying them raises, unless the caller asked for it: whoever gets a copy gets the
    records, and could spend the same budget once more.

    Parameters
    ----------
    tables : sequence of CellCounts
    may_be_pickled : bool, default=False

    Raises ValueError if leaves of a forest were counted, which answer no queries.
    """

    def __init__(
        self, tables: Sequence[CellCounts | LeafCounts], may_be_pickled: bool = False
    ) -> None:
        cells = tuple(one for one in tables if isinstance(one, CellCounts))
        if len(cells) < len(tables):
            raise ValueError(
                "counts are those of a forest's leaves, and cells are asked for: expected counts "
                "of cells, from count_stream."
            )
        self._tables, self._may_be_pickled = cells, bool(may_be_pickled)

    def __getitem__(self, number: int) -> CellCounts:
        return self._tables[number]

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


def _rebuilt(parts: Sequence[tuple[Any, ...]]) -> PrivateTables:
    return PrivateTables([CellCounts(*part) for part in parts], may_be_pickled=True)


@dataclass(frozen=True, eq=False)
class AnsweredEnsemble:
    """One ensemble's part of a batch, asked for the noise of its votes."""

    kind: PlanKind  # whose votes are asked
    part: PlanPart  # how the batch was answered
    release: Release  # the noisy measurement

    def vote_variances(self, codes: Codes) -> Array:
        return replace(self.part, workload=self._votes_asked(codes)).row_variances

    def vote_terms(self, codes: Codes) -> list[NoiseTerm] | None:
        if self.part.strategy is None:  # every query was measured itself
            one = np.array([1 / float(self.release.scale)])
            return [NoiseTerm.of(one, self.release.law)] * len(codes)
        return vote_terms(self._votes_asked, self.release, codes)

    def _votes_asked(self, codes: Codes) -> Operator:
        return self.kind.vote_workload(self.part.ensemble, codes)


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch of queries that was released."""

    plan: Plan  # what was planned before the private tables were read
    releases: tuple[Release, ...]  # the noisy measurements, one for each ensemble

    @cached_property
    def votes(self) -> Array:
        return self.plan.answers(self.releases)

    def half_widths(self, codes: Codes, level: float) -> Array:
        """Return the half-widths of the intervals of its queries' margins, shape (b,).

        What noise is added to are the votes themselves, under weight and hard voting alike.
        """
        parts = [
            AnsweredEnsemble(self.plan.kind, part, release)
            for part, release in zip(self.plan.parts, self.releases, strict=True)
        ]
        return half_widths(parts, codes, level, self.plan.n_classes)


class Answers:
    """One fit: public forests, private tables, terms, and all batches that were answered.

    Like a ledger it is one object that grows: an answer once released is given again at no cost,
    and a batch beyond the plan is refused. Whoever adds a batch holds `lock` from the look at what
    is unknown until the batch is kept, so that threads neither overspend nor ask twice. A thread
    that has the object is not disturbed by another fit of the same estimator.

    Parameters
    ----------
    forests : PublicForests
    measuring : MeasurementSpec
        How each batch is measured, at its share of the budget.
    tables : PrivateTables
    bill : BudgetRequest
        Budget of all batches, ledger, neighbouring relation and noise.
    n_batches : int
        Batches of new queries that the budget is divided into. An infinite budget is not used up.
    """

    def __init__(
        self,
        forests: PublicForests,
        measuring: MeasurementSpec,
        tables: PrivateTables,
        bill: BudgetRequest,
        n_batches: int,
    ) -> None:
        self.forests, self.measuring, self.tables = forests, measuring, tables
        self.bill, self.n_batches = bill, n_batches
        self.lock: Any = RLock()
        self.batches: list[Batch] = []
        self.charges: list[Spending] = []  # of all batches, released or lost
        self._places: dict[bytes, tuple[int, int]] = {}  # of each query: its batch, its row there

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=RLock())

    def lack_answers(self, codes: Codes) -> Bools:
        """Tell which queries have no released answer, shape (b,)."""
        return np.array([key not in self._places for key in self._keys(codes)], dtype=bool)

    def votes(self, codes: Codes) -> Array:
        """Return the released votes of queries, (b, k), classes in the domain's order."""
        found = np.zeros((len(codes), self.forests.domain.n_classes))
        for batch, mine, rows in self._find_answers(codes):
            found[mine] = batch.votes[rows]
        return found

    def half_widths(self, codes: Codes, level: float) -> Array:
        """Return the half-widths of the intervals of answered queries' margins, shape (b,)."""
        widths = np.zeros(len(codes))
        for batch, mine, _ in self._find_answers(codes):
            widths[mine] = batch.half_widths(codes[mine], level)
        return widths

    def check_next(self, new: int) -> None:
        """Refuse a batch of so many new queries that could not be measured or paid.

        Raises BudgetError if the budget, or the ledger's, is spent.
        """
        if len(self.charges) >= self.n_batches and not self.bill.budget.is_infinite:
            raise BudgetError(
                f"{new} new queries after the planned {self.n_batches} of n_batches="
                f"{self.n_batches}: {self.bill.budget!r} is spent. Queries that were answered are "
                f"answered again at no cost; for new ones ask all at once, or fit again with a "
                f"larger n_batches, each at its share of the budget."
            )
        self._next_bill(new).check()

    def release(self, plan: Plan) -> None:
        """Take the plan of the next batch: counted, charged, drawn and kept, in this order."""
        self.check_next(len(plan.queries))
        bill = self._next_bill(len(plan.queries))
        stream = noise_stream(bill.noise, bill.noise_state, len(self.charges))
        curator = Live(
            plan, self.tables, partial(self._record_charge, bill), bill.noise, stream,
            provenance=bill.provenance,
        )  # fmt: skip
        with curator:
            self.batches.append(Batch(plan, curator.measure_all(plan.questions)))
            number = len(self.batches) - 1
            rows = enumerate(self._keys(plan.queries))
            self._places.update((key, (number, row)) for row, key in rows)

    def report(self, note: str) -> PrivacyReport:
        """Return what is claimed of all batches; `note`: what the claim hangs on."""
        batches = tuple(self.batches)  # before the charges: threads see none that is not paid
        charges = tuple(self.charges)
        notes, lost = [note], len(charges) - len(batches)
        if lost:
            notes.append(
                f"{lost} batch{'es' if lost > 1 else ''} failed after the charge: nothing came "
                f"out, but what was charged counts as spent"
            )
        if batches:
            notes += structure_notes(self.forests.ensembles)
        told: list[Outcome] = []
        for one in batches:
            told += [AnnouncedPlan(one.plan), *one.releases]
        known = [release.provenance for one in batches for release in one.releases]
        known += map(Provenance.from_spending, charges)
        noise: Any = "none" if self.bill.budget.is_infinite else self.bill.noise
        return report_of(
            self._plan, Transcript(noise, tuple(told), join(known)), notes=tuple(notes),
            planned=repr(self.bill.budget) if charges else "",
            expected_rms_per_vote=_rms_per_vote([one.plan for one in batches]),
        )  # fmt: skip

    @property
    def _plan(self) -> PlanOfSteps:
        """An equal share of the budget for each batch, deferred to the plan of its queries."""
        share = Deferred("a batch of queries", self.measuring.budget, self.bill.neighboring)
        shares = (share,) * max(self.n_batches, len(self.batches))
        return PlanOfSteps(self.forests.domain, shares, self.measuring.delta)

    def _keys(self, codes: Codes) -> list[bytes]:
        return [key.tobytes() for key in query_keys(self.forests.ensembles, codes)]

    def _find_answers(self, codes: Codes) -> Iterator[tuple[Batch, Bools, Longs]]:
        places = np.array([self._places[key] for key in self._keys(codes)]).reshape(-1, 2)
        for number in np.unique(places[:, 0]).tolist():
            mine = places[:, 0] == number
            yield self.batches[number], mine, places[mine, 1]

    def _next_bill(self, new: int) -> BudgetRequest:
        return batch_bill(self.bill, self.measuring.budget, len(self.charges), new)

    @contextmanager
    def _record_charge(self, bill: BudgetRequest) -> Iterator[None]:
        with pay(bill):
            self.charges.append(bill.as_spending)
            yield


def batch_bill(bill: BudgetRequest, budget: Budget, number: int = 0, new: int = 0) -> BudgetRequest:
    """Return what a batch costs, by its number and how many of its queries are new."""
    asked = f", {new} new queries" if new else ""
    what = f"{bill.what}, batch {number + 1}{asked}"
    return replace(bill, budget=budget, what=what, identity=new_identity())


def _rms_per_vote(plans: Sequence[Plan]) -> float | None:
    """Return the expected error of the votes of all batches; None where there is none."""
    squares = sum(float(one.multiplicity @ one.row_variances) for one in plans)
    count = sum(int(one.multiplicity.sum()) for one in plans)
    return sqrt(squares / count) if count else None
