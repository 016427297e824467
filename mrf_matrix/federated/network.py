"""Who vanishes when, and whose answers are late: by seed, for tests and studies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.federated.sums.messages import ROUNDS

RandomState = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class Network:
    """Who vanishes when, and how long answers take.

    Attributes
    ----------
    absent : mapping of int to str
        The round from which a party no longer answers, one of `ROUNDS`, or "excess": the second
        sum, in which noise is taken off.
    delays : ndarray of shape (k, 4), optional
        Seconds that each party's answer takes in each round. Nobody waits for them.
    deadline : float
        Answers that take longer are late: they are refused, and the party counts as vanished.
    """

    absent: Mapping[int, str] = field(default_factory=dict)
    delays: NDArray[np.float64] | None = None
    deadline: float = float("inf")

    @classmethod
    def random(
        cls, parties: int, rate: float, random_state: RandomState, mean_delay: float = 0.0
    ) -> "Network":
        """Return a network where each party vanishes with a probability, in a random round.

        Delays are exponential of a mean, and the deadline is ten times it.
        """
        generator = np.random.default_rng(random_state)
        gone = np.flatnonzero(generator.random(parties) < rate).tolist()
        rounds = generator.integers(len(ROUNDS), size=len(gone)).tolist()
        delays = generator.exponential(mean_delay, (parties, len(ROUNDS))) if mean_delay else None
        absent = {party: ROUNDS[place] for party, place in zip(gone, rounds, strict=True)}
        return cls(absent, delays, 10 * mean_delay if mean_delay else float("inf"))

    def answers(self, party: int, stage: str) -> bool:
        """Tell whether a party still answers in a round."""
        order = (*ROUNDS, "excess")
        return party not in self.absent or order.index(self.absent[party]) > order.index(stage)

    def is_late(self, party: int, stage: str) -> bool:
        """Tell whether a party's answer comes after the deadline."""
        place = ROUNDS.index(stage)
        return self.delays is not None and bool(self.delays[party, place] > self.deadline)
