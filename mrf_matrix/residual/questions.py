"""What an additive model asks of private records: sums of what they add, and scores of choices.

A question is about records and the effects of the tables before it, which are public: what a record
adds to a sum is a function of its codes, its label and these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.base.shown import PrivateValue
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.posterior import SCALES, SumOfEffects, penalties_of_scales
from mrf_matrix.release.curator import Curator
from mrf_matrix.release.questions import FewOptions
from mrf_matrix.residual.records import ResidualRecords
from mrf_matrix.residual.sequence import ResidualPlan
from mrf_matrix.residual.step import ResidualStep

Attributes = tuple[int, ...]
Effects = tuple[tuple[Attributes, Array], ...]
"""What tables added to the scores of the records in their cells, in their order: public."""


@dataclass(eq=False)
class AskedSteps:
    """The steps of an additive model as questions to a curator, and the effects so far."""

    plan: ResidualPlan
    curator: Curator
    effects: Effects = ()

    def add(self, attributes: Sequence[int], effects: Array) -> None:
        """Take note of a table's effects: later questions are about what they leave."""
        self.effects = (*self.effects, (tuple(attributes), effects))

    def totals(self, step: ResidualStep) -> Array:
        """Return noisy class totals, shape (k,)."""
        return np.asarray(self.table(step, ())[0])

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> Array:
        """Return a noisy table in records, shape (n, columns)."""
        asked = Sums(self.plan, step, tuple(attributes), self.effects)
        return np.asarray(self.curator.measure(step, asked).values / step.units)

    def scale(self, step: ResidualStep, effects: SumOfEffects) -> float:
        """Return by how much of a sum of effects to believe."""
        (place,) = self.curator.choose(step, Scale(self.plan, step, effects, self.effects))
        return float(SCALES[place])

    def choose(
        self, steps: Sequence[ResidualStep], candidates: Sequence[Attributes], penalties: Array
    ) -> list[Attributes | None]:
        """Return a candidate for each step, each once, or None of them."""
        left, found = np.ones(len(candidates) + len(steps), dtype=np.bool_), []
        shown = Shown(self.plan, candidates, penalties, len(steps), self.effects)
        for step in steps:
            (place,) = self.curator.choose(step, Interaction(shown, left.copy()))
            left[place] = False
            found.append(candidates[place] if place < len(candidates) else None)
        return found


@dataclass(frozen=True, eq=False)
class Sums:
    """Of the records in each cell the integers that they add, or how many they are.

    What a record adds is a public function of its codes, its label and earlier effects, bounded by
    `Link` in all columns together: its step's strategy is calibrated to that.
    """

    plan: ResidualPlan
    step: ResidualStep
    attributes: Attributes
    effects: Effects

    @property
    def kind(self) -> str:
        """Of the step whose sums they are."""
        return self.step.kind

    @property
    def n_columns(self) -> int:
        """A column a class, or fewer."""
        return self.step.n_columns

    @property
    def n_cells(self) -> int:
        """Cells of the attributes."""
        return prod(self.plan.domain.sizes[i] for i in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the counts: cells, and integers that a record may add."""
        alone = self.kind in ("totals", "counts")
        return (self.n_cells,) if alone else (self.n_cells, self.step.n_values)

    def counts(self, data: Any) -> CellCounts:
        """Return them: **private**."""
        records = scored_records(self.plan, self.effects, data)
        if self.kind == "totals":
            return records.totals()
        return records.table(self.step, self.attributes)


@dataclass(eq=False, repr=False)
class Scored(PrivateValue):
    """Records with the scores that effects gave them: **private**."""

    records: ResidualRecords
    effects: Effects = ()


def scored_records(plan: ResidualPlan, effects: Effects, data: Any) -> ResidualRecords:
    """Return records with the scores that effects give them: **private**.

    Scores are kept with the effects that gave them: effects of one fit only ever grow, and of
    another they are others.
    """
    kept: Scored | None = data.kept.get(Scored)
    if kept is None or not _begins(kept.effects, effects):
        labels = np.argsort(sorted_classes(plan.domain)[1])[data.labels]
        kept = Scored(ResidualRecords(data.codes, labels, plan.domain.sizes, plan.n_classes))
        data.kept[Scored] = kept
    for attributes, one in effects[len(kept.effects) :]:
        kept.records.add(attributes, one)
    kept.effects = effects
    return kept.records


def _begins(first: Effects, all_of_them: Effects) -> bool:
    """Whether effects begin with others, by the very arrays."""
    pairs = zip(first, all_of_them, strict=False)
    return len(first) <= len(all_of_them) and all(one[1] is other[1] for one, other in pairs)


@dataclass(frozen=True, eq=False)
class Scale(FewOptions):
    """Which scale of the first pass's effects leaves residuals most balanced.

    Scores are of sensitivity one: `ResidualRecords.balances`.
    """

    plan: ResidualPlan
    step: ResidualStep
    sums: SumOfEffects
    effects: Effects
    kind: ClassVar[str] = "choice"
    options: Bools = field(default_factory=lambda: np.ones(len(SCALES), dtype=np.bool_))

    def scores(self, data: Any) -> Longs:
        """Return them: **private**."""
        behind = penalties_of_scales(float(self.step.choice_rate))
        records = scored_records(self.plan, self.effects, data)
        return records.balances(self.sums, behind, self.step.budget.norm)


@dataclass(frozen=True, eq=False)
class Shown:
    """How much residual pairs and triples show; nothing as often as there are steps.

    Scores are of sensitivity one: `ResidualRecords.scores`.
    """

    plan: ResidualPlan
    candidates: Sequence[Attributes]
    penalties: Array
    n_steps: int
    effects: Effects

    def of(self, data: Any) -> Longs:
        """Return the scores: **private**."""
        kept: tuple[Shown, Longs] | None = data.kept.get(Shown)
        if kept is None or kept[0] is not self:
            records = scored_records(self.plan, self.effects, data)
            found = records.scores(self.candidates, self.penalties, self.plan.budget.norm)
            kept = self, np.append(found, np.zeros(self.n_steps, dtype=np.int64))
            data.kept[Shown] = kept
        return kept[1]


@dataclass(frozen=True, eq=False)
class Interaction(FewOptions):
    """Which pair or triple is measured next, each once, or none."""

    shown: Shown
    options: Bools
    kind: ClassVar[str] = "choice"

    def scores(self, data: Any) -> Longs:
        """Return them: **private**."""
        return self.shown.of(data)
