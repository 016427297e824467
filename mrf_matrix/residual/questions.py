"""Questions of an additive model to private records: sums of residuals, and scores of choices.

What a record adds to a sum is a function of its codes, its label and the effects of the tables
before it, which are public.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.mechanisms import CellCounts, count_cells
from mrf_matrix.mechanisms.counts import check_private_allocation
from mrf_matrix.posterior import SCALES, UNITS, Link, SumOfEffects, penalties_of_scales
from mrf_matrix.release.curator import Curator
from mrf_matrix.release.plan import FewOptions
from mrf_matrix.residual.sequence import ResidualPlan
from mrf_matrix.residual.step import ResidualStep

Codes = NDArray[np.integer]

LEAST_SPREAD = 1e-12  # of sums of effects, even where no attribute has an effect

LARGEST_SCORE = 1 << 30
"""Scores of choices are clipped to it: no two of them come further apart."""


def check_scores(n_records: int, n_classes: int) -> tuple[int, int]:
    """Return the shape of the scores of so many records; refuse them above the memory cap.

    `n_records`: **Private**: no message tells it.
    """
    shape = n_records, Link(n_classes, "l1").n_columns
    check_private_allocation("scores of the records", shape)
    return shape


class ResidualRecords:
    """Codes, labels and scores of the records: **private**, read by a curator's steps only."""

    def __init__(
        self, codes: Codes, labels: Codes, sizes: Sequence[int], n_classes: int = 2
    ) -> None:
        self._columns = np.ascontiguousarray(codes.T, dtype=np.int64)
        self._labels = labels
        self._sizes = tuple(sizes)
        self._n_classes = n_classes
        self._scores = np.zeros(check_scores(len(labels), n_classes))

    def __repr__(self) -> str:
        return "ResidualRecords(private)"

    def add(self, attributes: Sequence[int], effects: Array) -> None:
        """Add a table's public effects, (n, columns), to the scores of the records in its cells."""
        self._scores += effects[self._cells(attributes)]

    def totals(self) -> CellCounts:
        nowhere = np.zeros((len(self._labels), 1), dtype=np.int64)
        return count_cells(nowhere, self._labels, (1,), self._n_classes)

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> CellCounts:
        """Return counts of (cell, integer added), or of cells alone where each record adds one.

        A column for each of the table: a record is counted once in each.

        `step`: of kind "counts", "curvature" or "residuals"; `attributes`: of the table; none for a
        sum over all records.
        """
        cells, n_cells = self._cells(attributes), prod(self._sizes[i] for i in attributes)
        if step.kind == "counts":
            return count_cells(cells[:, None], np.zeros_like(cells), (n_cells,), 1)
        if step.kind == "curvature":
            places = step.link.curvature_units(self._scores)[:, None]
        else:
            places = step.link.residual_units(self._scores, self._labels) + step.link.residual_cap
        n_columns = places.shape[1]
        pairs = np.column_stack([np.repeat(cells, n_columns), places.ravel()])
        columns = np.tile(np.arange(n_columns), len(cells))
        return count_cells(pairs, columns, (n_cells, step.n_values), n_columns)

    def scores(
        self,
        candidates: Sequence[tuple[int, ...]],
        penalties: Array,
        norm: Literal["l1", "l2"] = "l1",
    ) -> Longs:
        """Return how much residual each candidate table shows, less a public penalty, as integers.

        The L1 norm of a table of residuals changes by at most `Link.largest_sum` with one record
        more or less. So the norm in this unit, less the penalty, rounded down and clipped, changes
        by at most 1.
        """
        link = Link(self._n_classes, norm)
        units = link.residual_units(self._scores, self._labels).T.astype(np.float64)
        norms = np.array([self._norm(units, candidate) for candidate in candidates])
        return _as_scores(norms / link.largest_sum, np.floor(UNITS / link.largest_sum * penalties))

    def balances(
        self, effects: SumOfEffects, penalties: Array, norm: Literal["l1", "l2"] = "l1"
    ) -> Longs:
        """Return how near each of `SCALES` leaves residuals to balance, as integers.

        A record counts by its residual of the class for which its sum of effects speaks most, each
        score beside its mean, and by how much it does, up to one. The total's size, in units of the
        most that a record adds, less a public penalty, is rounded and clipped: one record more or
        less changes it by at most 1.
        """
        link = Link(self._n_classes, norm)
        sums = self._sums(effects.effects)
        places, weights = _largest_lifts(
            (sums - effects.mean) / np.maximum(effects.spread, LEAST_SPREAD)
        )
        found = np.empty(len(SCALES))
        for i, scale in enumerate(SCALES):
            units = link.residual_units(scale * sums + effects.intercepts(scale), self._labels)
            own = np.take_along_axis(units, places, axis=1)
            found[i] = -abs(int(np.trunc(own * weights).astype(np.int64).sum()))
        return _as_scores(found / link.largest_entry, np.floor(penalties))

    def _sums(self, effects: Sequence[Array]) -> Array:
        """Return each record's sum of effects, (N, columns): attribute after attribute."""
        sums = np.zeros_like(self._scores)
        for column, one in zip(self._columns, effects, strict=True):
            sums += one[column]
        return sums

    def _norm(self, units: Array, attributes: tuple[int, ...]) -> float:
        # sums of whole numbers far below 2**53 are exact in doubles
        cells = self._cells(attributes)
        return float(sum(np.abs(np.bincount(cells, column)).sum() for column in units))

    def _cells(self, attributes: Sequence[int]) -> Longs:
        cells = np.zeros(len(self._labels), dtype=np.int64)
        for i in attributes:
            cells = cells * self._sizes[i] + self._columns[i]
        return cells


def _as_scores(gains: Array, penalties: Array) -> Longs:
    """Return gains less whole penalties, rounded down and clipped."""
    found = np.floor(gains - penalties)
    return np.clip(found, -LARGEST_SCORE, LARGEST_SCORE - 1).astype(np.int64)


def _largest_lifts(lifts: Array) -> tuple[Longs, Array]:
    """Return each record's column of largest lift, and what its residual there counts, (N, 1) each.

    The only column of two classes is that of class 1. Where it is below its mean, class 0 is above,
    and has the negative of both lift and residual: their product is the same.
    """
    places = lifts.argmax(axis=1, keepdims=True)
    least = -1.0 if lifts.shape[1] == 1 else 0.0
    return places, np.clip(np.take_along_axis(lifts, places, axis=1), least, 1.0)


Attributes = tuple[int, ...]
Effects = tuple[tuple[Attributes, Array], ...]
"""What tables added to the scores of the records in their cells, in their order: public."""


@dataclass(eq=False)
class StepQuestions:
    """The steps of an additive model as questions to a curator, and the effects so far."""

    plan: ResidualPlan
    curator: Curator
    effects: Effects = ()

    def add(self, attributes: Sequence[int], effects: Array) -> None:
        """Take note of a table's effects: later questions are about what they leave."""
        self.effects = (*self.effects, (tuple(attributes), effects))

    def totals(self, step: ResidualStep) -> Array:
        return np.asarray(self.table(step, ())[0])

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> Array:
        asked = Sums(self.plan, step, tuple(attributes), self.effects)
        return np.asarray(self.curator.measure(step, asked).values / step.units)

    def scale(self, step: ResidualStep, effects: SumOfEffects) -> float:
        (place,) = self.curator.choose(step, Scale(self.plan, step, effects, self.effects))
        return float(SCALES[place])

    def choose(
        self, steps: Sequence[ResidualStep], candidates: Sequence[Attributes], penalties: Array
    ) -> list[Attributes | None]:
        """Return a candidate for each step, each once, or None of them."""
        left, found = np.ones(len(candidates) + len(steps), dtype=np.bool_), []
        shown = InteractionScores(self.plan, candidates, penalties, len(steps), self.effects)
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
        return self.step.kind

    @property
    def n_columns(self) -> int:
        return self.step.n_columns

    @property
    def n_cells(self) -> int:
        return prod(self.plan.domain.sizes[i] for i in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the counts: cells, and integers that a record may add."""
        alone = self.kind in ("totals", "counts")
        return (self.n_cells,) if alone else (self.n_cells, self.step.n_values)

    def counts(self, data: Any) -> CellCounts:
        records = scored_records(self.plan, self.effects, data)
        if self.kind == "totals":
            return records.totals()
        return records.table(self.step, self.attributes)


@dataclass(eq=False, repr=False)
class ScoredRecords(PrivateValue):
    """Records with the scores that effects gave them: **private**."""

    records: ResidualRecords
    effects: Effects = ()


def scored_records(plan: ResidualPlan, effects: Effects, data: Any) -> ResidualRecords:
    """Return records with the scores that effects give them: **private**.

    Scores are kept with the effects that gave them: effects of one fit only ever grow, and of
    another they are others.
    """
    kept: ScoredRecords | None = data.kept.get(ScoredRecords)
    if kept is None or not _is_prefix(kept.effects, effects):
        kept = ScoredRecords(
            ResidualRecords(data.codes, data.labels, plan.domain.sizes, plan.n_classes)
        )
        data.kept[ScoredRecords] = kept
    for attributes, one in effects[len(kept.effects) :]:
        kept.records.add(attributes, one)
    kept.effects = effects
    return kept.records


def _is_prefix(first: Effects, all_of_them: Effects) -> bool:
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
        behind = penalties_of_scales(float(self.step.choice_rate))
        records = scored_records(self.plan, self.effects, data)
        return records.balances(self.sums, behind, self.step.budget.norm)


@dataclass(frozen=True, eq=False)
class InteractionScores:
    """Scores of pairs and triples, by the residual they show, and a zero a step for choosing none.

    Scores are of sensitivity one: `ResidualRecords.scores`.
    """

    plan: ResidualPlan
    candidates: Sequence[Attributes]
    penalties: Array
    n_steps: int
    effects: Effects

    def scores(self, data: Any) -> Longs:
        kept: tuple[InteractionScores, Longs] | None = data.kept.get(InteractionScores)
        if kept is None or kept[0] is not self:
            records = scored_records(self.plan, self.effects, data)
            found = records.scores(self.candidates, self.penalties, self.plan.budget.norm)
            kept = self, np.append(found, np.zeros(self.n_steps, dtype=np.int64))
            data.kept[InteractionScores] = kept
        return kept[1]


@dataclass(frozen=True, eq=False)
class Interaction(FewOptions):
    """Which pair or triple is measured next, each once, or none."""

    shown: InteractionScores
    options: Bools
    kind: ClassVar[str] = "choice"

    def scores(self, data: Any) -> Longs:
        return self.shown.scores(data)
