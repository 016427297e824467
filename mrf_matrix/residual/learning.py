"""The steps of a residual forest, taken in turn: measure, then work out what the next one needs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import pi, prod, sqrt

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior import (
    UNITS,
    ClassStates,
    PoolingSettings,
    ResidualPosterior,
    ResidualState,
    add_first_table,
    counted_shares,
    estimated_total,
    intercept,
    intercepts,
    margin,
    scale_states,
    shrunk_counts,
    sum_of_effects,
)
from mrf_matrix.residual.questions import StepQuestions
from mrf_matrix.residual.sequence import ResidualPlan, largest_pair
from mrf_matrix.residual.step import SHARES_SIGNAL, FirstPass, PairSteps, ResidualStep

Attributes = tuple[int, ...]

LARGEST_TRIPLE = 64  # cells of a triple that may be chosen

MOST_ATTRIBUTES = 32
"""Pairs are chosen among so many attributes, those of the largest released effects."""

MOST_FOR_TRIPLES = 16  # attributes beyond which triples are no candidates


def learn_additive(plan: ResidualPlan, releases: StepQuestions) -> ResidualPosterior:
    """Take every step of a plan; return what its releases imply."""
    state = _measure_totals(plan, releases)
    told = plan.signal * state.evenness >= SHARES_SIGNAL
    state = _with_first_pass(state, plan.first, releases, shares_told=told)
    for one in plan.passes:
        state = _with_curvature(state, one.curvature, releases)
        visited = _visited_attributes(state, one.order, len(one.visits))
        for step, attribute in zip(one.visits, visited, strict=True):
            state = _visit(state, step, attribute, releases)
    return (state if plan.pairs is None else _with_pairs(state, plan.pairs, releases)).posterior


def _measure_totals(plan: ResidualPlan, releases: StepQuestions) -> ClassStates:
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
        pooling=PoolingSettings(
            known.smoothness,
            known.prior_visits,
            known.prior_variance,
            known.pooling,
            known.largest_step,
        ),
        blocks=(),
    )
    blocks = tuple(state.empty_block((i,)) for i in range(len(margins)))
    columns = tuple(
        replace(state, blocks=blocks, base=float(base), base_variance=float(variance))
        for base, variance in zip(bases, unknown, strict=True)
    )
    return ClassStates(columns, parts)


def _intercepts(totals: Array, variance: float, n_records: float) -> tuple[Array, ...]:
    """Return each column's intercept, what is unknown of it, and its part of the curvature."""
    if len(totals) == 2:
        return tuple(np.array([x]) for x in (*intercept(totals, variance, n_records), 1.0))
    if len(totals) == 1:  # nothing curves: the class has probability one
        return np.zeros(1), np.zeros(1), np.zeros(1)
    bases, unknown = intercepts(totals, variance, n_records)
    shares = np.exp(bases)
    return bases, unknown, shares / (1 - (shares**2).sum())


def _with_first_pass(
    state: ClassStates, first: FirstPass, releases: StepQuestions, *, shares_told: bool
) -> ClassStates:
    """Measure each attribute beside the class totals alone; choose how far to believe their sum.

    `shares_told`: whether the tables tell the class shares of codes.
    """
    bases = np.array([one.intercept for one in state.columns])
    link, told = first.visits[0].link, []
    state = state.with_curvature(float(link.curvature_units(bases[None, :])[0]) / UNITS)
    for i, step in enumerate(first.visits):
        residuals, counts = releases.table(step, (i,)), state.first.expected_counts((i,))
        found, _ = state.visit(i, residuals, counts, step.variance)
        state = add_first_table(state, found)
        told.append(counted_shares(residuals, counts, bases, link))
    if link.n_classes > 1:  # else nothing is left to tell
        state = state.with_code_shares(told)
    state = state.end_first_pass(told=shares_told)
    effects = sum_of_effects(state)
    scale = releases.scale(first.scale, effects)
    state = scale_states(state, effects, scale)
    releases.add((), effects.shifts(scale)[None, :])
    for i, one in enumerate(effects.effects):
        releases.add((i,), scale * one)
    return state


def _with_curvature(state: ClassStates, step: ResidualStep, releases: StepQuestions) -> ClassStates:
    """Measure the mean curvature of a record, within its bounds."""
    total = float(releases.table(step, ())[0, 0])
    largest = step.link.curvature_cap / UNITS
    return state.with_curvature(min(total / state.first.n_records, largest))


def _visited_attributes(state: ClassStates, order: Attributes, count: int) -> Attributes:
    """Return which attributes a pass visits: those of the largest released effects."""
    chosen = set(state.largest_effects(count))
    return tuple(i for i in order if i in chosen)


def _visit(
    state: ClassStates, step: ResidualStep, place: int, releases: StepQuestions
) -> ClassStates:
    """Measure the residuals of one block and update the scores."""
    attributes = state.first.blocks[place].attributes
    counts = state.first.expected_counts(attributes)
    residuals = releases.table(step, attributes)
    state, gained = state.visit(place, residuals, counts, step.variance)
    releases.add(attributes, gained)
    return state


def _with_pairs(state: ClassStates, pairs: PairSteps, releases: StepQuestions) -> ClassStates:
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
        state, gained = state.visit(place, residuals, kept, step.variance)
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
    curvatures = state.curvatures(attributes, state.first.expected_counts(attributes))
    return sqrt(2 / pi) * float(np.sqrt(curvatures + noise).sum())
