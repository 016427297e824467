"""Curators without data: one repeats a transcript, one was handed the releases of parties."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from mrf_matrix.base.fields import FieldError, object_of, whole_numbers
from mrf_matrix.base.provenance import Provenance, join
from mrf_matrix.mechanisms import Mechanism, Release
from mrf_matrix.mechanisms.measurement.mechanism import same_measurement
from mrf_matrix.mechanisms.measurement.release import DrawnAnswers
from mrf_matrix.release.curator import Announce, Curator, PlanError, Read
from mrf_matrix.release.plan import (
    Options,
    Places,
    Plan,
    RecordedTranscript,
    Step,
    Table,
    TableStep,
)

LARGEST_ANSWER = 2**62
"""Largest absolute answer in a file: sums of a few of them fit int64."""

LONGEST_CHOICE = 2**22
"""Whole numbers of a choice in a file: a forest has two a node at most."""

DEEPEST = 5
"""Plans within plans, of which a stranger's file may have many."""


class Replay(Curator):
    """A curator without data, who repeats a transcript, if the plan could have released it.

    Raises FieldError where it could not.
    """

    def __init__(
        self, plan: Plan, recorded: RecordedTranscript, parent: "Replay | None" = None
    ) -> None:
        super().__init__(plan, recorded.noise, parent)
        self._recorded = recorded
        self._root: Replay = self if parent is None else parent._root
        if self.depth > DEEPEST:
            raise FieldError(f"outcomes: plans within plans, {self.depth} deep.")
        if parent is None:
            if plan.budget.is_infinite != (recorded.noise == "none"):
                raise FieldError("noise: expected 'none' with an infinite budget only.")
            answers = recorded.answers
            if not bool(((answers >= -LARGEST_ANSWER) & (answers <= LARGEST_ANSWER)).all()):
                raise FieldError(f"answers: expected whole numbers up to {LARGEST_ANSWER}.")
            self._given, self._used = deque(recorded.outcomes), 0

    @property
    def provenance(self) -> Provenance:
        """What the file says, and that of the domain."""
        return join([self._recorded.provenance, self.plan.domain.provenance])

    def check_finished(self) -> None:
        """Refuse a transcript that has more than the plan."""
        super().check_finished()
        if self._root is self and (self._given or self._used != len(self._recorded.answers)):
            raise FieldError("outcomes: the plan has fewer steps, or fewer answers.")

    def _next_outcome(self, name: str) -> Any:
        """Return the next outcome, which must be of this name."""
        if not self._root._given:
            raise FieldError("outcomes: the plan has more steps.")
        return object_of(self._root._given.popleft(), "outcomes", {name})[name]

    def _take_measurement(self, step: TableStep, asked: Table, mechanism: Mechanism) -> Release:
        root, shape = self._root, (mechanism.rounded.matrix.shape[0], asked.n_columns)
        if self._next_outcome("answers") != list(shape):
            raise FieldError(f"outcomes: expected answers of shape {list(shape)}.")
        end = root._used + shape[0] * shape[1]
        if end > len(root._recorded.answers):
            raise FieldError("answers: the plan has more.")
        answers = root._recorded.answers[root._used : end].reshape(shape)
        root._used = end
        self._left.popleft()
        drawn = DrawnAnswers(answers, self.provenance, mechanism, self.noise, None)
        release = Release(mechanism, drawn.answers, self.noise, asked.sizes, _drawn=drawn)
        release.claim.check_covers(mechanism.budget, mechanism.neighboring, self.noise)
        return release

    def _take_choice(self, step: Step, asked: Options) -> Places:
        told = self._next_outcome("chosen")
        chosen = whole_numbers(told, "outcomes: chosen", longest=LONGEST_CHOICE)
        asked.check(chosen)
        self._left.popleft()
        return chosen

    def _take_announcement(self, announce: Announce, read: Read) -> Plan:
        return read(self._next_outcome("announced"))

    def _make_part(self, plan: Plan) -> "Replay":
        return Replay(plan, self._recorded, self)


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
