"""Residuals by their parts: kernels, updates, scales, steps."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from mrf_matrix import Domain
from mrf_matrix.estimators.record_source import EncodedRecords
from mrf_matrix.mechanisms import ZCDP, DiscreteGaussian, DiscreteLaplace, PureDP
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.mechanisms.measurement.mechanism import exact_choice_epsilon
from mrf_matrix.posterior import SCALES, ClassStates, Score, Smoothness, SumOfEffects
from mrf_matrix.posterior.class_shares import additive_shares
from mrf_matrix.posterior.residual_blocks import (
    EffectBlock,
    Table,
    attribute_kernel,
    block_components,
    update_block,
)
from mrf_matrix.posterior.residual_posterior import purify
from mrf_matrix.release.curator import Live
from mrf_matrix.residual import (
    residual_budget,
    residual_plan,
    residual_signal,
    suits_residual_forest,
)
from mrf_matrix.residual.learning import learn_additive
from mrf_matrix.residual.questions import ResidualRecords, StepQuestions, scored_records
from mrf_matrix.residual.step import ResidualStep, sums_of_values

SMOOTH = Smoothness(0.1, 0.95)


def capped(most):
    """Return what lets no effect change by more."""
    return lambda effects: np.clip(effects, -most, most)


def parts(sizes, ordered, generator):
    margins = [generator.dirichlet(np.ones(n)) for n in sizes]
    kernels = [
        attribute_kernel(n, ordered=o, smoothness=SMOOTH)
        for n, o in zip(sizes, ordered, strict=True)
    ]
    return block_components(kernels, margins), margins


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("ordered", [True, False])
def test_kernels_are_covariances_of_centred_effects(size, ordered):
    kernel = attribute_kernel(size, ordered=ordered, smoothness=SMOOTH)
    assert np.allclose(kernel, kernel.T)
    assert np.linalg.eigvalsh(kernel).min() > -1e-12
    assert np.allclose(kernel.sum(axis=0), 0)
    assert size == 1 or np.isclose(np.trace(kernel), size)


def test_neighbours_are_alike_where_codes_are_ordered_only():
    ordered = attribute_kernel(6, ordered=True, smoothness=SMOOTH)
    nominal = attribute_kernel(6, ordered=False, smoothness=SMOOTH)
    assert ordered[0, 1] > ordered[0, 2] > ordered[0, 5]
    assert np.ptp(nominal[0, 1:]) < 1e-12


def test_components_have_no_effect_of_fewer_attributes():
    """Averaged over one attribute of a component, by its margin, nothing is left."""
    sizes = (2, 3, 4)
    components, margins = parts(sizes, (False, True, True), np.random.default_rng(0))
    assert [one.order for one in components] == [1, 1, 1, 2, 2, 2, 3]
    subsets = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    for subset, one in zip(subsets, components, strict=True):
        table = one.kernel.reshape(*sizes, -1)
        for i in subset:
            assert np.allclose(np.tensordot(margins[i], table, axes=(0, i)), 0)
        for i in set(range(3)) - set(subset):
            assert np.allclose(np.diff(table, axis=i), 0)


def brute_force(block, table, intercept_variance, variance):
    """Posterior of (intercept, effects) by Bayes' rule in precision form, one component."""
    n = len(table.residuals)
    prior = np.zeros((n + 1, n + 1))
    prior[0, 0] = intercept_variance
    prior[1:, 1:] = block.covariance + variance * block.components[0].kernel + 1e-10 * np.eye(n)
    design = table.curvatures[:, None] * np.column_stack([np.ones(n), np.eye(n)])
    noise = np.diag(1 / (table.variance + table.curvatures))
    covariance = np.linalg.inv(np.linalg.inv(prior) + design.T @ noise @ design)
    return covariance @ design.T @ noise @ table.residuals, covariance


@pytest.mark.parametrize("ordered", [True, False])
def test_update_is_bayes_rule(ordered):
    generator = np.random.default_rng(3)
    components, _ = parts((5,), (ordered,), generator)
    block = EffectBlock.empty((0,), (5,), components)
    root = generator.normal(size=(5, 5)) / 10
    block = replace(block, covariance=root @ root.T, n_visits=1)
    table = Table(generator.normal(0, 30, 5), generator.uniform(20, 90, 5), 100.0)
    found = update_block(block, table, 0.2, 0.1, within=capped(100.0), pooling=0.25)
    mean, covariance = brute_force(block, table, 0.2, found.variance)
    assert np.allclose(found.block.mean, mean[1:], atol=1e-6)
    assert np.isclose(found.intercept_step, mean[0], atol=1e-6)
    assert np.allclose(found.step, mean[0] + mean[1:], atol=1e-6)
    assert np.isclose(found.intercept_variance, covariance[0, 0], atol=1e-6)
    assert found.block.n_visits == 2


def test_noise_teaches_nothing_and_a_clear_table_its_effects():
    components, margins = parts((4,), (False,), np.random.default_rng(5))
    block = EffectBlock.empty((0,), (4,), components)
    truth = np.array([0.5, -0.5, 0.3, 0.1])
    truth -= margins[0] @ truth
    curvatures = 1e5 * margins[0]
    clear = update_block(
        block,
        Table(curvatures * truth, curvatures, 1.0),
        1e-3,
        0.1,
        within=capped(1.0),
        pooling=0.25,
    )
    assert np.allclose(clear.block.mean, truth, atol=0.02)
    drowned = update_block(
        block,
        Table(curvatures * truth, curvatures, 1e14),
        1e-3,
        0.1,
        within=capped(1.0),
        pooling=0.25,
    )
    assert np.abs(drowned.block.mean).max() < 1e-3


def test_steps_are_capped():
    components, _ = parts((2,), (False,), np.random.default_rng(6))
    block = EffectBlock.empty((0,), (2,), components)
    table = Table(np.array([500.0, -500.0]), np.array([100.0, 100.0]), 1.0)
    found = update_block(block, table, 1e-3, 0.1, within=capped(0.25), pooling=0.25)
    assert np.abs(found.block.mean).max() == 0.25


# Margins that are handed over --------------------------------------------------------------------


SIZES = (2, 3, 2, 4)
CODES = np.stack(np.unravel_index(np.arange(prod(SIZES)), SIZES), axis=1)


def posterior_of(seed, orders):
    """Return a sum of tables of every set of so many attributes."""
    rng, blocks = np.random.default_rng(seed), []
    for attributes in (one for order in orders for one in combinations(range(4), order)):
        fans = tuple(SIZES[i] for i in attributes)
        root = rng.normal(size=(prod(fans), prod(fans)))
        blocks.append(EffectBlock(attributes, fans, (), rng.normal(size=len(root)), root @ root.T))
    margins = tuple(rng.dirichlet(np.ones(size)) for size in SIZES)
    return Score(rng.normal(), rng.normal(), tuple(blocks), margins)


@pytest.mark.parametrize("orders", [(1,), (1, 2), (1, 2, 3)])
def test_log_odds_are_identical_and_margins_are_handed_over(orders):
    before = posterior_of(0, orders)
    after = purify(before)
    assert_allclose(after.means(CODES), before.means(CODES), rtol=1e-12, atol=1e-12)
    for block in after.blocks:
        if len(block.attributes) > 1:
            table = block.mean.reshape(block.sizes)
            own = [after.margins[i] for i in block.attributes]
            for axis in range(table.ndim):
                means = np.moveaxis(table, axis, 0)
                for j in reversed([j for j in range(table.ndim) if j != axis]):
                    means = means @ own[j]
                assert_allclose(means, 0, atol=1e-12)


def test_variances_are_those_of_the_parts():
    """Every part is a linear map of the table: the covariance of what it says is mapped too."""
    before = posterior_of(1, (1, 2))
    after = purify(before)
    for one, other in zip(before.blocks, after.blocks, strict=True):
        assert_allclose(other.covariance, other.covariance.T)
        assert np.linalg.eigvalsh(other.covariance).min() > -1e-9
        if len(one.attributes) == 1:
            assert np.linalg.eigvalsh(other.covariance - one.covariance).min() > -1e-9


def test_what_holds_no_pairs_and_what_is_pure_stay():
    alone = posterior_of(2, (1,))
    assert purify(alone).shift == alone.shift
    once = purify(posterior_of(3, (1, 2)))
    again = purify(once)
    for one, other in zip(once.blocks, again.blocks, strict=True):
        assert_allclose(one.mean, other.mean, atol=1e-12)


def test_shares_of_cells_agree_with_those_of_codes_and_have_no_interaction():
    rng = np.random.default_rng(4)
    counts = rng.gamma(2, size=(3, 4, 2))
    log_odds = sum(
        np.expand_dims(rng.normal(size=n), tuple(j for j in range(3) if j != axis))
        for axis, n in enumerate(counts.shape)
    )
    shares = 1 / (1 + np.exp(2 - log_odds))
    axes = [tuple(j for j in range(3) if j != axis) for axis in range(3)]
    told = [(counts * shares).sum(axis=rest) / counts.sum(axis=rest) for rest in axes]
    assert_allclose(additive_shares(told, counts), shares, atol=5e-3)


# Scaled sums, by their parts ----------------------------------------------------------------------

SCALE_SIZES = (2, 3, 4)


@pytest.mark.parametrize(("k", "norm"), [(2, "l1"), (3, "l1"), (3, "l2")])
def test_balances_are_those_of_a_loop(k, norm):
    generator = np.random.default_rng(k)
    codes = generator.integers(0, SCALE_SIZES, size=(80, 3))
    labels = generator.integers(0, k, 80)
    columns = 1 if k == 2 else k
    effects = SumOfEffects(
        tuple(generator.normal(size=(size, columns)) for size in SCALE_SIZES),
        *generator.normal(size=(3, columns)), generator.uniform(0.5, 3, columns),
    )  # fmt: skip
    penalties = generator.uniform(0, 9, len(SCALES))
    found = ResidualRecords(codes, labels, SCALE_SIZES, k).balances(effects, penalties, norm)
    for place, scale in enumerate(SCALES):
        total = 0.0
        for code, label in zip(codes, labels, strict=True):
            sums = sum(effects.effects[i][code[i]] for i in range(3))
            scores = scale * sums + effects.base - scale * effects.middle
            lifts = (sums - effects.mean) / effects.spread
            if k == 2:
                scores, lifts = np.append(0.0, scores), np.array([-lifts[0], lifts[0]])
            p, spoken = softmax(scores), int(np.argmax(lifts))
            moved = np.eye(k) - p
            if k == 2:
                size = 2 * p.max()
            elif norm == "l1":
                size = np.abs(moved).sum(axis=1).max()
            else:
                size = np.linalg.norm(moved, axis=1).max()
            total += moved[label, spoken] / size * min(max(lifts[spoken], 0.0), 1.0)
        largest = 1.0 if norm == "l2" else 0.5
        assert found[place] == pytest.approx(-abs(total) / largest - penalties[place], abs=2.2)


@dataclass(frozen=True)
class Some:
    """Some steps of a plan, by themselves."""

    domain: Domain
    steps: tuple
    n_records: int | None = None
    delta: float = 0.0
    neighboring: str = "add_remove"

    @property
    def budget(self):
        return total_budget([one.budget for one in self.steps])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("budget", [PureDP(2), ZCDP(1)], ids=repr)
def test_records_have_the_scores_that_are_predicted(budget, k):
    """After the first pass: nothing that was scaled is added to records otherwise."""
    generator = np.random.default_rng(k)
    codes = generator.integers(0, SCALE_SIZES, size=(400, 3))
    labels = (codes.sum(axis=1) + generator.integers(0, 2, 400)) % k
    domain = Domain.from_sizes(SCALE_SIZES, n_classes=k)
    plan = residual_plan(domain, budget, generator, n_records=400)
    first = replace(plan, passes=(), pairs=None)
    alone = Some(domain, first.steps)
    records = EncodedRecords(domain, codes, labels)
    asked = StepQuestions(first, Live(alone, records, nullcontext, "research", generator))
    posterior = learn_additive(first, asked)
    expected = np.column_stack([one.means(codes) for one in posterior.columns])
    assert_allclose(scored_records(first, asked.effects, records)._scores, expected)
    assert np.abs(expected - expected.mean(axis=0)).max() > 0.01


@pytest.mark.parametrize(("k", "expected"), [(2, 0.05), (3, None)])
def test_the_curvature_of_the_first_pass_is_that_of_the_totals(monkeypatch, k, expected):
    """Of a class of one in ten, a tenth of ½; of several, by the weights of their shares."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(k), [900, 100] if k == 2 else [700, 200, 100])
    codes = generator.integers(0, SCALE_SIZES, size=(1000, 3))
    domain = Domain.from_sizes(SCALE_SIZES, n_classes=k)
    plan = residual_plan(domain, PureDP(float("inf")), generator, n_records=1000)
    known, honest = [], ClassStates.with_curvature

    def noted(self, curvature):
        known.append(curvature)
        return honest(self, curvature)

    monkeypatch.setattr(ClassStates, "with_curvature", noted)
    records = EncodedRecords(domain, codes, labels)
    learn_additive(plan, StepQuestions(plan, Live(plan, records, nullcontext, "exact")))
    if expected is None:
        shares = np.array([0.7, 0.2, 0.1])
        expected = 0.5 / (1 - 0.1) * (1 - (shares**2).sum())
    assert known[0] == pytest.approx(expected, abs=2e-3)


# Steps, and when they are taken -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "budget", "neighboring", "column_sum", "squared_scale"),
    [
        ("residuals", PureDP(1), "add_remove", 512, 512**2),
        ("residuals", PureDP(1), "replace_one", 512, 1024**2),
        ("residuals", ZCDP(1), "add_remove", 512**2, 512**2 / 2),
        ("residuals", ZCDP(1), "replace_one", 512**2, 1024**2 / 2),
        ("curvature", PureDP(1), "add_remove", 256, 256**2),
        ("curvature", ZCDP(1), "replace_one", 256**2, 256**2),
        ("counts", PureDP(1), "add_remove", 1, 1),
        ("totals", PureDP(1), "replace_one", 1, 4),
    ],
)
def test_sensitivities_and_noise(kind, budget, neighboring, column_sum, squared_scale):
    step = ResidualStep(kind, "", budget, neighboring)
    law = DiscreteLaplace if isinstance(budget, PureDP) else DiscreteGaussian
    assert step.column_sum == column_sum
    moved = (squared_scale if isinstance(budget, PureDP) else 2 * squared_scale) ** 0.5
    assert step.sensitivity == pytest.approx(moved / step.units)
    assert isinstance(step.law, law)
    assert float(step.law.scale) ** 2 == pytest.approx(squared_scale)
    assert step.law == step.mechanism(7).law  # whatever the table's size


@pytest.mark.parametrize("kind", ["residuals", "curvature"])
@pytest.mark.parametrize("n_cells", [1, 3, 300])
def test_sums_of_values_sum_them(kind, n_cells):
    low, values = (-512, 1025) if kind == "residuals" else (0, 257)
    matrix = sums_of_values(ResidualStep(kind, "", PureDP(1), "add_remove").values, n_cells)
    cells = np.array([0, n_cells - 1])
    added = np.array([5, values - 1])
    columns = matrix.columns(cells * values + added).toarray()
    expected = np.zeros((n_cells, 2))
    expected[cells, [0, 1]] = low + added
    assert np.array_equal(columns, expected)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_choices_spend_their_share(neighboring):
    pure = ResidualStep("choice", "", PureDP(Fraction(1, 10)), neighboring)
    factor = 2 if neighboring == "add_remove" else 4
    assert pure.choice_rate == Fraction(1, 10 * factor)
    concentrated = ResidualStep("choice", "", ZCDP(Fraction(1, 50)), neighboring)
    epsilon = exact_choice_epsilon(concentrated.budget)
    assert epsilon**2 / 8 <= Fraction(1, 50) < (epsilon + Fraction(1, 2**20)) ** 2 / 8
    assert concentrated.choice_rate == epsilon / factor


def test_law_is_chosen_by_its_variance():
    """Few visits and a large budget: Laplace; many visits: Gaussian."""
    few = residual_budget(PureDP(4), ZCDP.for_approximate_dp(4, 1e-6), 2, 500)
    many = residual_budget(PureDP(1), ZCDP.for_approximate_dp(1, 1e-6), 30, 50_000)
    assert isinstance(few, PureDP)
    assert isinstance(many, ZCDP)
    infinite = residual_budget(PureDP(float("inf")), ZCDP(float("inf")), 5, None)
    assert infinite.is_infinite


def test_gate_is_public_and_follows_the_signal():
    assert residual_signal(1000, PureDP(2), 10) == 200
    assert residual_signal(1000, ZCDP(0.05), 10) == pytest.approx(100)
    assert suits_residual_forest(1000, PureDP(2), 10, 2)
    assert not suits_residual_forest(1000, PureDP(1), 10, 2)
    assert not suits_residual_forest(10_000, PureDP(2), 10, 3)
    assert suits_residual_forest(10_000, ZCDP(0.05), 10, 3)
    assert suits_residual_forest(1000, ZCDP(0.05), 10, 3)  # a signal of 67
    assert not suits_residual_forest(700, ZCDP(0.05), 10, 3)
    assert not suits_residual_forest(None, PureDP(2), 10, 2)
    assert suits_residual_forest(10, PureDP(float("inf")), 10, 2)


@pytest.mark.parametrize("k", [3, 10])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(1)], ids=repr)
def test_a_table_of_several_classes_costs_one_record(budget, neighboring, k):
    """Whatever the classes: a joint norm of one."""
    step = ResidualStep("residuals", "", budget, neighboring, k)
    factor = 1 if neighboring == "add_remove" else 2
    assert step.sensitivity == pytest.approx(factor)
    assert step.n_columns == k
    assert step.mechanism(300).law == step.law
    unit = 1 if budget.norm == "l1" else 0.5**0.5
    assert float(step.law.scale) == pytest.approx(1024 * factor * unit)
    curvature = ResidualStep("curvature", "", budget, neighboring, k)
    assert curvature.column_sum == (512 if budget.norm == "l1" else 1024**2)


def test_more_classes_have_less_signal_and_prefer_gaussian_noise():
    assert residual_signal(1000, PureDP(2), 10, 4) == residual_signal(1000, PureDP(2), 10) / 2
    pure, concentrated = PureDP(4), ZCDP.for_approximate_dp(4, 1e-6)
    assert isinstance(residual_budget(pure, concentrated, 4, 2000, 2), PureDP)
    assert isinstance(residual_budget(pure, concentrated, 4, 2000, 9), ZCDP)
