"""Measurements of a plan, and the curator who takes its steps: only here do data and noise meet.

Every curator has two verbs, `measure` and `choose`, and `part` for a plan within the plan. A step
that is not the next one announced is refused before data are looked at. `Live` holds private data:
it works out exact integers, charges the whole plan once, draws, and keeps the outcome. Two others
have none: `PartyReleases` was handed what parties released, and the reader of a model file repeats
its transcript. Learning is written against the two verbs, so that one function learns from all.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from threading import RLock
from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import NOTHING, Provenance, join
from mrf_matrix.base.work import tell
from mrf_matrix.mechanisms import CellCounts, LeafCounts, Mechanism, Release, measure
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.mechanisms.measurement.measure import ReadyCounts
from mrf_matrix.mechanisms.measurement.mechanism import same_measurement
from mrf_matrix.mechanisms.measurement.release import Noise
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.release.plan import (
    AnnouncedPlan,
    Budget,
    Data,
    Deferred,
    Options,
    Outcome,
    Places,
    Plan,
    Step,
    Table,
    TableStep,
    Transcript,
)


@dataclass(frozen=True, eq=False)
class StrategyStep:
    """A measurement whose strategy is known before the data."""

    measured: str
    known: Mechanism
    units: int = 1  # integer units in one record's weight
    kind: str = "strategy"  # of what may be asked: counts, or hard votes, which move further

    @property
    def budget(self) -> Budget:
        return self.known.budget

    @property
    def neighboring(self) -> str:
        return self.known.neighboring

    def mechanism(self, n_cells: int) -> Mechanism:
        return self.known


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts of the cells of some attributes by class: one record is in one of them."""

    features: tuple[int, ...]  # positions of the attributes
    sizes: tuple[int, ...]
    n_columns: int  # a column a class
    kind: ClassVar[str] = "strategy"
    n_cells: ClassVar[int] = 0  # the step knows its strategy

    def counts(self, data: Data) -> CellCounts | LeafCounts:
        return data.cells(self.features)


def is_plan(step: object) -> bool:
    return hasattr(step, "steps")


def flat_steps(plan: Plan) -> Iterator[Any]:
    """Yield every step, those of plans within it in their place."""
    for one in plan.steps:
        if is_plan(one):
            yield from flat_steps(one)
        else:
            yield one


class PlanError(ValueError):
    """A step that was not announced, was taken already, or is not the next one."""


def partition_share(plan: Plan) -> float | None:
    """Return how likely a record is dealt to the first of two steps; None: all steps see all.

    Each record is dealt to one of both by a coin of its own, so that either may spend the whole.
    """
    share: float | None = getattr(plan, "partition_share", None)
    return share


def is_dealt(plan: Plan) -> bool:
    """Whether coins say which of its steps, or which tree, a record is in: no transcript has them.

    So a fit that failed does not go on: coins thrown anew would show a record elsewhere.
    """
    return partition_share(plan) is not None or bool(getattr(plan, "throws_coins", False))


def check_shares(plan: Plan) -> None:
    """Refuse a plan whose steps do not add up to its budget, exactly.

    Where records are dealt, the budget is that of the dearer step.

    Raises PlanError.
    """
    budgets = [one.budget for one in plan.steps]
    if partition_share(plan) is None:
        spent = total_budget(budgets)
    elif len(budgets) == 2:
        spent = max(budgets)
    else:
        raise PlanError(f"records are dealt to two steps: the plan has {len(budgets)}.")
    relations = {one.neighboring for one in plan.steps}
    if spent != plan.budget or relations != {plan.neighboring}:
        raise PlanError(
            f"steps spend {spent!r} under {', '.join(sorted(relations))} neighbours: expected "
            f"{plan.budget!r} under {plan.neighboring}, exactly."
        )


DEALT_ONCE = (
    "records were dealt to steps or trees by coins that no transcript holds, and dealt anew a "
    "record might be seen twice: expected a new fit, which pays again."
)

Announce = Callable[[], Plan]
Read = Callable[[JsonObject], Plan]
Asked = tuple[TableStep, Mechanism, Table]


class Curator(ExitStack[bool | None]):
    """Takes the steps of a plan in their order, and keeps the outcomes, inside a ``with`` block.

    `parent`: whose transcript and charge a part shares.

    Raises PlanError if the plan's shares do not add up.
    """

    def __init__(self, plan: Plan, noise: Noise, parent: "Curator | None" = None) -> None:
        super().__init__()
        check_shares(plan)
        self.plan, self.noise = plan, noise
        self.depth: int = 1 if parent is None else parent.depth + 1
        self._outcomes: list[Outcome] = [] if parent is None else parent._outcomes
        self._left = deque(plan.steps)
        self._part: Curator | None = None
        self._lock: Any = RLock() if parent is None else parent._lock

    @property
    @abstractmethod
    def provenance(self) -> Provenance: ...

    @property
    def transcript(self) -> Transcript:
        return Transcript(self.noise, tuple(self._outcomes), self.provenance)

    def measure(
        self, step: TableStep, asked: Table, ahead: Sequence[tuple[TableStep, Table]] = ()
    ) -> Release:
        """Take the next step, a measurement.

        `ahead`: measurements after it that depend on no outcome. Their exact counts, which may
        fail, are worked out before anything is charged.

        Raises PlanError if it is not the one that was announced.
        """
        mechanism = step.mechanism(asked.n_cells)
        with self._lock:  # no step is taken twice, by threads either
            self._check_next(step, asked.kind)
            if (mechanism.budget, mechanism.neighboring) != (step.budget, step.neighboring):
                raise PlanError(f"{step.measured!r} would spend {mechanism.budget!r}.")
            later = [(one, one.mechanism(more.n_cells), more) for one, more in ahead]
            self._prepare([(step, mechanism, asked), *later])
            release = self._take_measurement(step, asked, mechanism)
            self._outcomes.append(release)
        return release

    def measure_all(self, asked: Sequence[Table]) -> tuple[Release, ...]:
        """Take all steps, each a measurement that depends on no outcome."""
        first, *later = zip(self.plan.steps, asked, strict=True)
        release = self.measure(*first, ahead=later)
        return (release, *(self.measure(*one) for one in later))

    def choose(self, step: Step, asked: Options) -> Places:
        """Take the next step, a choice; raises as `measure`."""
        with self._lock:
            self._check_next(step, asked.kind)
            chosen = self._take_choice(step, asked)
            self._outcomes.append(chosen)
        return chosen

    def part(
        self, step: "Plan | Deferred", announce: Announce | None = None, read: Read | None = None
    ) -> "Curator":
        """Return the curator of a plan within the plan.

        Of a deferred share `announce` makes the plan, a public function of outcomes, and `read`
        reads it from a file.

        Raises PlanError if it is not the next one, or spends other than was announced for it.
        """
        with self._lock:
            self._check_next(step, None)
            plan: Any = step
            if isinstance(step, Deferred):
                assert announce is not None
                assert read is not None
                plan = self._take_announcement(announce, read)
                if (plan.budget, plan.neighboring) != (step.budget, step.neighboring):
                    raise PlanError(
                        f"{step.measured!r} has {step.budget!r}, not {plan.budget!r}, under "
                        f"{step.neighboring} neighbours."
                    )
                self._outcomes.append(AnnouncedPlan(plan))
            self._part = self._make_part(plan)
            self._left.popleft()
            return self._part

    def learn(self, kind: Any) -> tuple[Any, Transcript, Any]:
        """Let a kind take every step of the plan.

        Return the plan with what outcomes picked, the transcript, and what they imply.

        Raises PlanError if a step is left, or one was taken that was not announced.
        """
        with self:
            posterior = kind.learn(self.plan, self)
            self.check_finished()
        told = self.transcript
        return kind.complete_plan(self.plan, told), told, posterior

    def check_finished(self) -> None:
        """Refuse to go on where announced steps are left, by a PlanError."""
        if self._part is not None:
            self._part.check_finished()
        if self._left:
            raise PlanError(f"{len(self._left)} announced steps were not taken.")

    def _check_next(self, step: Any, kind: str | None) -> None:
        """Refuse any step but the next one announced, asked as its kind."""
        if self._part is not None:
            self._part.check_finished()
        if not self._left or (self._left[0] is not step and self._left[0] != step):
            said = getattr(step, "measured", step)
            raise PlanError(f"{said!r} is not the next step that was announced.")
        if (kind is None) != (is_plan(step) or isinstance(step, Deferred)):
            raise PlanError("a part was asked as a step, or a step as a part.")
        if kind is not None and kind != step.kind:
            raise PlanError(f"{step.measured!r} is of kind {step.kind!r}: not {kind!r}.")

    def _prepare(self, steps: Sequence[Asked]) -> None:
        """Work out what steps ask of data, where there are any."""

    @abstractmethod
    def _take_measurement(self, step: TableStep, asked: Table, mechanism: Mechanism) -> Release: ...

    @abstractmethod
    def _take_choice(self, step: Step, asked: Options) -> Places: ...

    def _take_announcement(self, announce: Announce, read: Read) -> Plan:
        return announce()

    @abstractmethod
    def _make_part(self, plan: Plan) -> "Curator": ...


class Live(Curator):
    """A curator of private data: records in memory, or counts of what the plan asks for.

    `paid` returns a context that charges the whole plan, or refuses, when it is entered: once,
    before the first noise. `stream`: of research noise; `choosing`: of research choices, where they
    have another one. `provenance`: of all that is released: the charge, and what the data rest on.
    `before`: the transcript of a fit of the same plan that failed once it was paid for: what it
    told is told again. Then `paid` charges nothing.
    """

    def __init__(
        self,
        plan: Plan,
        data: Any,
        paid: Callable[[], AbstractContextManager[Any]],
        noise: str,
        stream: np.random.Generator | None = None,
        *,
        choosing: np.random.Generator | None = None,
        provenance: Provenance = NOTHING,
        before: Transcript | None = None,
        parent: "Live | None" = None,
    ) -> None:
        drawn: Any = "none" if plan.budget.is_infinite else noise
        super().__init__(plan, drawn, parent)
        self._data, self._paid, self._asked, self._stream = data, paid, noise, stream
        self._provenance = provenance
        self._root: Live = self if parent is None else parent._root
        self._dealt: Any = None
        self._ready: dict[int, tuple[Table, Any]] = {}  # by the identity of the question
        if is_dealt(plan) and not (before is None and parent is None):
            raise PlanError(DEALT_ONCE)
        if parent is None:
            self._bits = Bits(stream if choosing is None else choosing)
            self._before: deque[Any] = deque(() if before is None else before.outcomes)
            self.is_paid = before is not None
            self.begun = len(self._before)
            self._is_drawing = False

    def __repr__(self) -> str:
        return f"Live(private, {self.plan!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a curator holds private data: it is not pickled or copied.")

    @property
    def provenance(self) -> Provenance:
        return self._root._provenance

    @property
    def can_go_on(self) -> bool:
        """Whether all that was drawn was kept, so that the steps left may be taken later.

        Not where records were dealt: no transcript has the coins, and others would show a record to
        both steps.
        """
        kept = self.is_paid and self.begun == len(self._outcomes)
        return kept and not is_dealt(self.plan)

    def _visible_data(self) -> Any:
        """Return what the next step sees: **private**; where records are dealt, those it got."""
        share = partition_share(self.plan)
        if share is None:
            return self._data
        if self._dealt is None:
            self._dealt = self._data.deal(share, self._bits)
        return self._dealt[len(self.plan.steps) - len(self._left)]

    def _spend_step(self, step: Step) -> None:
        """Charge the whole, once; from now on the step is spent."""
        root = self._root
        if not root._is_drawing:
            root.enter_context(root._paid())
            root._is_drawing = root.is_paid = True
        self._left.popleft()
        root.begun += 1

    def _earlier_outcome(self) -> Any:
        """Take the step by the outcome of a fit before this one; None where none is left."""
        if not self._root._before:
            return None
        self._left.popleft()
        return self._root._before.popleft()

    def _prepare(self, steps: Sequence[Asked]) -> None:
        for step, mechanism, asked in steps[len(self._root._before) :]:  # not what was told before
            if id(asked) not in self._ready:  # it may fail: nothing is spent by it
                tell(f"Measuring {step.measured}")
                self._ready[id(asked)] = asked, self._exact_answers(mechanism, asked)

    def _take_measurement(self, step: TableStep, asked: Table, mechanism: Mechanism) -> Release:
        before: Release | None = self._earlier_outcome()
        if before is not None:
            return before
        _, exact = self._ready.pop(id(asked))
        self._spend_step(step)
        return self._draw_release(mechanism, exact)

    def _exact_answers(self, mechanism: Mechanism, asked: Table) -> Any:
        """Return exact answers, ready for noise: **private**."""
        return ReadyCounts.of(asked.counts(self._visible_data()), mechanism.rounded.matrix)

    def _draw_release(self, mechanism: Mechanism, exact: Any) -> Release:
        release = measure(mechanism, exact, noise=self._asked, random_state=self._stream)
        return release.resting_on(self.provenance)

    def _take_choice(self, step: Step, asked: Options) -> Places:
        before: Places | None = self._earlier_outcome()
        if before is not None:
            return before
        tell(f"Choosing {step.measured}")
        scores = asked.scores(self._visible_data())  # may fail: nothing is spent by it
        self._spend_step(step)
        return asked.draw(scores, step, self._root._bits)

    def _take_announcement(self, announce: Announce, read: Read) -> Plan:
        if self._root._before:
            told: Plan = self._root._before.popleft().plan
            return told
        plan = announce()  # public: what fails here can be done again
        self._root.begun += 1
        return plan

    def _make_part(self, plan: Plan) -> "Live":
        if plan.domain != self.plan.domain:
            raise PlanError("a plan within the plan is over another domain.")
        return Live(plan, self._visible_data(), self._paid, self._asked, self._stream, parent=self)


class PartyReleases(Curator):
    """A curator who was handed the releases, one a measurement, of parties who shared the noise.

    Each must have measured the announced strategy, for no more than its share; its own law, of
    shares by those who contributed, is learned from.
    """

    def __init__(self, plan: Plan, releases: Sequence[Release]) -> None:
        super().__init__(plan, releases[0].noise)
        self._releases = deque(releases)
        self._rests_on = join([plan.domain.provenance, *(one.provenance for one in releases)])

    @property
    def provenance(self) -> Provenance:
        return self._rests_on

    def _take_measurement(self, step: TableStep, asked: Table, mechanism: Mechanism) -> Release:
        if not self._releases:
            raise PlanError(f"{step.measured!r}: no release is left for it.")
        release = self._releases.popleft()
        if not same_measurement(release.mechanism, mechanism):
            raise PlanError(f"{step.measured!r}: the release measured something else.")
        self._left.popleft()
        return release

    def _take_choice(self, step: Step, asked: Options) -> Places:
        raise PlanError(f"{step.measured!r} is a choice: releases alone tell none.")

    def _make_part(self, plan: Plan) -> Curator:
        raise PlanError("a plan of parts: expected one curator for all of it.")
