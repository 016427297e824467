"""A plan's steps, in exact shares of one budget, their questions, and the transcript of all.

Which table a later step measures may depend on earlier outcomes; what it costs depends on nothing.
A step may be a plan itself, or a share that is `Deferred` to a plan which outcomes before it pick.
So the claim is the composition of the announced shares, whatever follows from the data. Questions
are public values that say how counts or scores follow from private data: the class of each is a
proof of how far one record moves what it asks for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np

from mrf_matrix.base.arrays import Bools, Longs, Values
from mrf_matrix.base.checks import LARGEST_N_RECORDS
from mrf_matrix.base.fields import FieldError, JsonObject, integer_of
from mrf_matrix.base.provenance import NOTHING, Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms import ZCDP, CellCounts, LeafCounts, Mechanism, PureDP, Release
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.mechanisms.measurement.release import Noise
from mrf_matrix.mechanisms.selection import Bits, Rate, chosen_place

Budget = PureDP | ZCDP


class Step(Protocol):
    """One release that is announced: what it is, and its exact share."""

    @property
    def kind(self) -> str:
        """Of the questions that may be asked at it."""

    @property
    def measured(self) -> str:
        """What it measures or chooses, in words."""

    @property
    def budget(self) -> Budget: ...

    @property
    def neighboring(self) -> str: ...


class TableStep(Step, Protocol):
    """A step that measures a table."""

    @property
    def units(self) -> int:
        """Integer units in one record's weight."""

    def mechanism(self, n_cells: int) -> Mechanism: ...


@dataclass(frozen=True)
class Deferred:
    """A share of the budget for a plan that outcomes before it will pick."""

    measured: str
    budget: Budget
    neighboring: str
    n_tables: int | None = None  # of the records, where it is known: its verdict is by them
    kind: ClassVar[str] = "deferred"


class Plan(Protocol):
    """What one fit will release, decided without data; plans of all kinds are read like this."""

    @property
    def domain(self) -> Domain: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def neighboring(self) -> str: ...

    @property
    def n_records(self) -> int | None:
        """Where their number is public."""

    @property
    def delta(self) -> float:
        """The δ that the claim is stated for; 0 for none."""

    @property
    def steps(self) -> tuple[Any, ...]:
        """Every step in its order: a `Step`, a `Deferred`, or a plan; always the same objects."""


@dataclass(frozen=True, eq=False)
class PlanOfSteps:
    """A plan that is nothing but its steps."""

    domain: Domain
    steps: tuple[Step, ...]
    delta: float = 0.0
    n_records: ClassVar[None] = None

    @property
    def budget(self) -> Budget:
        return total_budget([one.budget for one in self.steps])

    @property
    def neighboring(self) -> str:
        return self.steps[0].neighboring


LARGEST_DELTA = 1 - 2**-53


def records_of(data: object, where: str = "n_records") -> int | None:
    """Return the public number of records, None where it is not known."""
    return None if data is None else integer_of(data, where, 1, LARGEST_N_RECORDS)


# Questions ---------------------------------------------------------------------------------------


Places = tuple[int, ...]
"""What a choice came to: places among its public options."""


class Data(Protocol):
    """Private data over a domain: records, or tables that were counted."""

    def cells(self, features: Sequence[int]) -> CellCounts | LeafCounts:
        """Return the counts of the cells of some attributes: **private**."""


def needs_records(what: str) -> TypeError:
    """Return the error where individual records are required and only counts were given."""
    return TypeError(
        f"{what} needs the records themselves: expected fit(X, y). Counts of cells do not tell "
        f"records apart."
    )


class Table(Protocol):
    """A question that is measured: exact counts, of which one record moves one in a column."""

    @property
    def kind(self) -> str: ...

    @property
    def n_cells(self) -> int:
        """Cells, of which the step makes its strategy."""

    @property
    def n_columns(self) -> int: ...

    @property
    def sizes(self) -> tuple[int, ...]: ...

    def counts(self, data: Any) -> CellCounts | LeafCounts: ...


class Options(Protocol):
    """A question that is chosen from, by integer scores that one record moves by one at most."""

    @property
    def kind(self) -> str: ...

    def scores(self, data: Any) -> Any:
        """Return what is drawn by: **private**."""

    def draw(self, scores: Any, step: Any, bits: Bits) -> Places:
        """Draw by the mechanism of the kind, exactly."""

    def check(self, chosen: Places) -> None:
        """Refuse what could not have been drawn.

        Raises FieldError.
        """


class FewOptions:
    """A choice among options that are written out, by the exponential mechanism.

    Subclasses have `options`, a mask of those that may be chosen, and `scores`.
    """

    options: Bools

    def draw(self, scores: Longs, step: Any, bits: Bits) -> Places:
        """Draw one; without noise the first of the best."""
        gaps = (scores[self.options].max() - scores)[:, None]
        return (chosen_place(gaps, self.options[:, None], Rate.of(step.choice_rate), bits),)

    def check(self, chosen: Places) -> None:
        if len(chosen) != 1 or chosen[0] >= len(self.options) or not self.options[chosen[0]]:
            raise FieldError(f"outcomes: {list(chosen)[:5]}: expected one of the options.")


NO_ARRAYS: Mapping[str, Values] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class KeptTable:
    """A table that was counted before, a row a cell: one record is in one of them."""

    number: int  # its place among the tables that are asked
    sizes: tuple[int, ...]
    n_columns: int  # a column a class
    kind: ClassVar[str] = "strategy"
    n_cells: ClassVar[int] = 0  # the step knows its strategy

    def counts(self, data: Sequence[CellCounts | LeafCounts]) -> CellCounts | LeafCounts:
        return data[self.number]


class KeptVotes(KeptTable):
    """Hard votes, a row a leaf: one record moves votes from class to class, a count in each.

    So they are asked at steps whose noise is made for it, see `mrf_matrix.error.noise_sums`.
    """

    kind: ClassVar[str] = "hard votes"


@dataclass(frozen=True)
class AnnouncedPlan:
    """A plan that earlier outcomes picked for a deferred share."""

    plan: Plan


Outcome = Release | Places | AnnouncedPlan


@dataclass(frozen=True, eq=False, repr=False)
class Transcript:
    """Outcomes of a plan's steps, in their order.

    Of a measurement a `Release`, of a choice the places that were chosen, of a deferred share the
    plan that was announced.
    """

    noise: Noise
    outcomes: tuple[Outcome, ...]
    # of all of it: the charge, and what records, domain and structures carried
    provenance: Provenance = NOTHING

    def __repr__(self) -> str:
        kinds = f"{len(self.releases)} measurements, {len(self.choices)} choices"
        return f"Transcript({kinds}, noise={self.noise!r})"

    @property
    def releases(self) -> tuple[Release, ...]:
        return tuple(one for one in self.outcomes if isinstance(one, Release))

    @property
    def choices(self) -> tuple[Places, ...]:
        return tuple(one for one in self.outcomes if isinstance(one, tuple))

    def to_record(self, plan_to_dict: Callable[[Plan], JsonObject]) -> "RecordedTranscript":
        """Return the transcript as plain values and one array, ready for a file."""
        plain: list[object] = []
        answers = [np.zeros(0, dtype=np.int64)]
        for one in self.outcomes:
            if isinstance(one, Release):
                plain.append({"answers": list(one.answers.shape)})
                answers.append(one.answers.ravel())
            elif isinstance(one, tuple):
                plain.append({"chosen": list(one)})
            else:
                plain.append({"announced": plan_to_dict(one.plan)})
        return RecordedTranscript(self.noise, plain, np.concatenate(answers), self.provenance)


@dataclass(frozen=True, eq=False)
class RecordedTranscript:
    """A transcript as it stands in a file, before it is believed."""

    noise: Noise
    outcomes: Sequence[object]  # shapes of answers, places that were chosen, announced plans
    answers: Longs  # of all releases, one after another
    provenance: Provenance  # in the writer's words

    def digest(self, plan: JsonObject, arrays: Mapping[str, Values] = NO_ARRAYS) -> str:
        """Return a hash of plan, its arrays, and outcomes: it finds a slip, and no forger."""
        text = dumps([plan, self.noise, list(self.outcomes)], sort_keys=True, ensure_ascii=False)
        found = sha256(text.encode() + self.answers.astype("<i8").tobytes())
        for name in sorted(arrays):
            found.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
        return found.hexdigest()
