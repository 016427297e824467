"""A transcript: all that was released of a plan, in the order of its steps. It holds no record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from types import MappingProxyType

import numpy as np

from mrf_matrix.base.arrays import Longs, Values
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import NOTHING, Provenance
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.release import Noise
from mrf_matrix.release.plan import Places, Plan

NO_ARRAYS: Mapping[str, Values] = MappingProxyType({})


@dataclass(frozen=True)
class Announced:
    """A plan that earlier outcomes picked for a deferred share."""

    plan: Plan


Outcome = Release | Places | Announced


@dataclass(frozen=True, eq=False, repr=False)
class Transcript:
    """Outcomes of a plan's steps.

    Attributes
    ----------
    noise : {"exact", "research", "none", "shares", "claimed"}
    outcomes : tuple
        Of a measurement a `Release`, of a choice the places that were chosen, of a deferred share
        the plan that was announced.
    provenance : Provenance
        Of all of it: the charge, and what records, domain and structures carried.
    """

    noise: Noise
    outcomes: tuple[Outcome, ...]
    provenance: Provenance = NOTHING

    def __repr__(self) -> str:
        kinds = f"{len(self.releases)} measurements, {len(self.choices)} choices"
        return f"Transcript({kinds}, noise={self.noise!r})"

    @property
    def releases(self) -> tuple[Release, ...]:
        """Those of measurements."""
        return tuple(one for one in self.outcomes if isinstance(one, Release))

    @property
    def choices(self) -> tuple[Places, ...]:
        """Those of choices."""
        return tuple(one for one in self.outcomes if isinstance(one, tuple))

    def recorded(self, plan_to_dict: Callable[[Plan], JsonObject]) -> "Recorded":
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
        return Recorded(self.noise, plain, np.concatenate(answers), self.provenance)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A transcript as it stands in a file, before it is believed.

    Attributes
    ----------
    noise : str
    outcomes : sequence
        Plain values: shapes of answers, places that were chosen, plans that were announced.
    answers : ndarray of int64
        Of all releases, one after another.
    provenance : Provenance
        In the writer's words.
    """

    noise: Noise
    outcomes: Sequence[object]
    answers: Longs
    provenance: Provenance

    def digest(self, plan: JsonObject, arrays: Mapping[str, Values] = NO_ARRAYS) -> str:
        """Return a hash of plan, its arrays, and outcomes: it finds a slip, and no forger."""
        text = dumps([plan, self.noise, list(self.outcomes)], sort_keys=True, ensure_ascii=False)
        found = sha256(text.encode() + self.answers.astype("<i8").tobytes())
        for name in sorted(arrays):
            found.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
        return found.hexdigest()
