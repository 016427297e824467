"""Who takes the steps of a residual forest: private records, measured and chosen from exactly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.steps import tell
from mrf_matrix.mechanisms import CellCounts, Release, measure
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.mechanisms.selection.exponential import Rate, select
from mrf_matrix.posterior import SCALES, SumOfEffects, penalties_of_scales
from mrf_matrix.residual.records import ResidualRecords
from mrf_matrix.residual.step import ResidualStep

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Attributes = tuple[int, ...]


class Steps(Protocol):
    """What takes the steps of a plan: private records, or releases that were made before."""

    def add(self, attributes: Sequence[int], effects: Floats) -> None:
        """Take note of a table's effects."""

    def totals(self, step: ResidualStep) -> Floats:
        """Return noisy class totals, shape (k,)."""

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> Floats:
        """Return a noisy table in records, shape (n, columns)."""

    def scale(self, step: ResidualStep, effects: SumOfEffects) -> float:
        """Return by how much of a sum of effects to believe."""

    def choose(
        self, steps: Sequence[ResidualStep], candidates: Sequence[Attributes], penalties: Floats
    ) -> list[Attributes | None]:
        """Return a candidate for each step, or None of them."""


@dataclass(eq=False)
class ResidualReleases:
    """Takes the steps of a plan on private records, and keeps every release."""

    records: ResidualRecords
    noise: str
    stream: np.random.Generator | None  # of research noise
    releases: list[tuple[ResidualStep, Release]] = field(default_factory=list)
    choices: list[tuple[ResidualStep, Attributes | None]] = field(default_factory=list)
    chosen_scale: float | None = None

    def add(self, attributes: Sequence[int], effects: Floats) -> None:
        """Add a table's public effects to the scores of the records in its cells."""
        self.records.add(attributes, effects)

    def totals(self, step: ResidualStep) -> Floats:
        """Return noisy class totals, shape (k,)."""
        return np.asarray(self._measured(step, self.records.totals(), 1)[0])

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> Floats:
        """Return a noisy table in records, shape (n, columns)."""
        counts = self.records.table(step, attributes)
        return self._measured(step, counts, counts.sizes[0])

    def _measured(self, step: ResidualStep, counts: CellCounts, n_cells: int) -> Floats:
        tell(f"Measuring {step.measured}")
        release = measure(
            step.mechanism(n_cells), counts, noise=self.noise, random_state=self.stream
        )
        self.releases.append((step, release))
        return np.asarray(release.values / step.units)

    def scale(self, step: ResidualStep, effects: SumOfEffects) -> float:
        """Choose one of `SCALES` by the exponential mechanism: the one of least imbalance."""
        behind = penalties_of_scales(float(step.choice_rate))
        [place] = self._places(
            [step], lambda records: records.balances(effects, behind, step.budget.norm)
        )
        self.chosen_scale = float(SCALES[place])
        return self.chosen_scale

    def choose(
        self,
        steps: Sequence[ResidualStep],
        candidates: Sequence[Attributes],
        penalties: Floats,
    ) -> list[Attributes | None]:
        """Choose a candidate for each step, each once, by the exponential mechanism.

        "None of them" stands among the candidates once for each step, with a score of 0.
        """
        nothing, norm = np.zeros(len(steps), dtype=np.int64), steps[0].budget.norm
        places = self._places(
            steps,
            lambda records: np.append(records.scores(candidates, penalties, norm), nothing),
        )
        found = [candidates[place] if place < len(candidates) else None for place in places]
        self.choices.extend(zip(steps, found, strict=True))
        return found

    def _places(
        self, steps: Sequence[ResidualStep], scores_of: Callable[[ResidualRecords], Longs]
    ) -> list[int]:
        """Return the place of a score for each step, each once."""
        scores = scores_of(self.records)
        options = np.ones((len(scores), 1), dtype=np.bool_)
        bits, found = Bits(self.stream), []
        for step in steps:
            tell(f"Choosing {step.measured}")
            gaps = (scores[options[:, 0]].max() - scores)[:, None]
            place = chosen_place(gaps, options, Rate.below(step.choice_rate), bits)
            options[place] = False
            found.append(place)
        return found


def chosen_place(gaps: NDArray[Any], options: NDArray[np.bool_], rate: Rate, bits: Bits) -> int:
    """Choose among the options of the only column; without noise the first of the best."""
    if rate.units is None:
        return int(np.argmax(options[:, 0] & (gaps[:, 0] == 0)))
    return int(select(np.where(options, gaps, 0), options, rate, bits)[0])
