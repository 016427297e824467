"""The steps of a residual forest, taken in turn: measure, then work out what the next one needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import pi, prod, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.steps import tell
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.growth.private.selection import Rate, select
from mrf_matrix.mechanisms import CellCounts, Release, measure
from mrf_matrix.posterior import (
    UNITS,
    ClassStates,
    Pooling,
    ResidualPosterior,
    ResidualState,
    SeveralPosterior,
    estimated_total,
    intercept,
    intercepts,
    margin,
    shrunk_counts,
)
from mrf_matrix.residual.records import ResidualRecords
from mrf_matrix.residual.sequence import ResidualPlan, largest_pair
from mrf_matrix.residual.step import PairSteps, ResidualStep

Floats = NDArray[np.float64]
Attributes = tuple[int, ...]

LARGEST_TRIPLE = 64  # cells of a triple that may be chosen

MOST_ATTRIBUTES = 32
"""Pairs are chosen among so many attributes, those of the largest released effects."""

MOST_FOR_TRIPLES = 16  # attributes beyond which triples are no candidates


class Steps(Protocol):
    """What takes the steps of a plan: private records, or releases that were made before."""

    def add(self, attributes: Sequence[int], effects: Floats) -> None:
        """Take note of a table's effects."""

    def totals(self, step: ResidualStep) -> Floats:
        """Return noisy class totals, shape (k,)."""

    def table(self, step: ResidualStep, attributes: Sequence[int]) -> Floats:
        """Return a noisy table in records, shape (n, columns)."""

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

    def choose(
        self,
        steps: Sequence[ResidualStep],
        candidates: Sequence[Attributes],
        penalties: Floats,
    ) -> list[Attributes | None]:
        """Choose a candidate for each step, each once, by the exponential mechanism.

        "None of them" stands among the candidates once for each step, with a score of 0.
        """
        nothing = np.zeros(len(steps), dtype=np.int64)
        scores = np.concatenate(
            [self.records.scores(candidates, penalties, steps[0].budget.norm), nothing]
        )
        options = np.ones((len(scores), 1), dtype=np.bool_)
        bits = Bits(self.stream)
        found: list[Attributes | None] = []
        for step in steps:
            gaps = (scores[options[:, 0]].max() - scores)[:, None]
            place = chosen_place(gaps, options, Rate.below(step.choice_rate), bits)
            options[place] = False
            found.append(candidates[place] if place < len(candidates) else None)
        self.choices.extend(zip(steps, found, strict=True))
        return found


def chosen_place(gaps: NDArray[Any], options: NDArray[np.bool_], rate: Rate, bits: Bits) -> int:
    """Choose among the options of the only column; without noise the first of the best."""
    if rate.units is None:
        return int(np.argmax(options[:, 0] & (gaps[:, 0] == 0)))
    return int(select(np.where(options, gaps, 0), options, rate, bits)[0])


def learned(plan: ResidualPlan, releases: Steps) -> ResidualPosterior | SeveralPosterior:
    """Take every step of a plan; return what its releases imply."""
    state = _started(plan, releases)
    for number, one in enumerate(plan.passes):
        state = _with_curvature(state, one.curvature, releases)
        visited = _visited_attributes(state, one.order, len(one.visits), number)
        for step, attribute in zip(one.visits, visited, strict=True):
            state = _visit(state, step, attribute, releases)
    return (state if plan.pairs is None else _with_pairs(state, plan.pairs, releases)).posterior


def _started(plan: ResidualPlan, releases: Steps) -> ClassStates:
    """Measure class totals and one-way counts."""
    totals = releases.totals(plan.totals)
    n_records = estimated_total(totals, plan.n_records)
    bases, unknown, parts = _intercepts(totals, plan.totals.variance, n_records)
    releases.add((), bases[None, :])
    margins = tuple(
        margin(releases.table(step, (i,))[:, 0], step.variance, n_records)
        for i, step in enumerate(plan.counts)
    )
    known = plan.settings
    state = ResidualState(
        sizes=plan.domain.sizes,
        ordered=plan.domain.ordered,
        n_records=n_records,
        base=float(bases[0]),
        base_variance=float(unknown[0]),
        margins=margins,
        pooling=Pooling(
            known.smoothness,
            known.prior_visits,
            known.prior_variance,
            known.pooling,
            known.largest_step,
        ),
        blocks=(),
    )
    blocks = tuple(state.unseen_block((i,)) for i in range(len(margins)))
    columns = tuple(
        replace(state, blocks=blocks, base=float(base), base_variance=float(variance))
        for base, variance in zip(bases, unknown, strict=True)
    )
    return ClassStates(columns, parts)


def _intercepts(totals: Floats, variance: float, n_records: float) -> tuple[Floats, ...]:
    """Return each column's intercept, what is unknown of it, and its part of the curvature."""
    if len(totals) == 2:
        return tuple(np.array([x]) for x in (*intercept(totals, variance, n_records), 1.0))
    bases, unknown = intercepts(totals, variance, n_records)
    shares = np.exp(bases)
    return bases, unknown, shares / (1 - (shares**2).sum())


def _with_curvature(state: ClassStates, step: ResidualStep, releases: Steps) -> ClassStates:
    """Measure the mean curvature of a record, within its bounds."""
    total = float(releases.table(step, ())[0, 0])
    largest = step.link.curvature_cap / UNITS
    return state.measured(min(total / state.first.n_records, largest))


def _visited_attributes(
    state: ClassStates, order: Attributes, count: int, number: int
) -> Attributes:
    """Return which attributes a pass visits: all, or those of the largest released effects."""
    if count == len(order) or number == 0:
        return order[:count]
    chosen = set(state.largest_effects(count))
    return tuple(i for i in order if i in chosen)


def _visit(state: ClassStates, step: ResidualStep, place: int, releases: Steps) -> ClassStates:
    """Measure the residuals of one block and update the scores."""
    attributes = state.first.blocks[place].attributes
    counts = state.first.expected_counts(attributes)
    residuals = releases.table(step, attributes)
    state, gained = state.visited(place, residuals, counts, step.variance)
    releases.add(attributes, gained)
    return state


def _with_pairs(state: ClassStates, pairs: PairSteps, releases: Steps) -> ClassStates:
    """Choose pairs and triples, measure them, and add their effects."""
    state = _with_curvature(state, pairs.curvature, releases)
    candidates = _candidates(state, pairs.curvature.n_classes)
    noise = pairs.residuals[0].variance
    penalties = np.array([_expected_norm(state, one, noise) for one in candidates])
    chosen = releases.choose(pairs.choices, candidates, penalties)
    instead = iter(state.largest_effects(len(state.first.sizes)) * len(chosen))
    for found, counted, step in zip(chosen, pairs.counts, pairs.residuals, strict=True):
        if found is None:
            place = next(instead)
            attributes = state.first.blocks[place].attributes
        else:
            attributes, place = found, len(state.first.blocks)
            state = state.with_block(attributes)
        counts = releases.table(counted, attributes)[:, 0]
        expected = state.first.expected_counts(attributes)
        kept = np.maximum(shrunk_counts(counts, expected, counted.variance), 0.1 * expected)
        residuals = releases.table(step, attributes)
        state, gained = state.visited(place, residuals, kept, step.variance)
        releases.add(attributes, gained)
    return state


def _candidates(state: ClassStates, n_classes: int) -> list[Attributes]:
    """Return pairs, and triples of few cells, that may be chosen; public."""
    seen, sizes = sorted(state.largest_effects(MOST_ATTRIBUTES)), state.first.sizes
    most = largest_pair(n_classes)
    pairs: list[Attributes] = [one for one in combinations(seen, 2) if _cells(sizes, one) <= most]
    if len(sizes) > MOST_FOR_TRIPLES:
        return pairs
    triples = combinations(seen, 3)
    return pairs + [one for one in triples if _cells(sizes, one) <= LARGEST_TRIPLE]


def _cells(sizes: Sequence[int], attributes: Attributes) -> int:
    return prod(sizes[i] for i in attributes)


def _expected_norm(state: ClassStates, attributes: Attributes, noise: float) -> float:
    """Return the L1 norm that sampling and the noise to come would show without any effect."""
    expected = state.first.expected_counts(attributes) * state.curvature
    spread = np.sqrt(np.multiply.outer(state.parts, expected) + noise)
    return sqrt(2 / pi) * float(spread.sum())
