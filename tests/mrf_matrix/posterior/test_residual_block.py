"""Kernels of effects, and the update of a block against Bayes' rule written out."""

from dataclasses import replace
from itertools import combinations
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix.posterior import ResidualPosterior, Smoothness
from mrf_matrix.posterior.residuals.block import (
    EffectBlock,
    Table,
    attribute_kernel,
    block_components,
    updated,
)
from mrf_matrix.posterior.residuals.class_shares import additive_shares
from mrf_matrix.posterior.residuals.posterior import purify

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
    block = EffectBlock.unseen((0,), (5,), components)
    root = generator.normal(size=(5, 5)) / 10
    block = replace(block, covariance=root @ root.T, n_visits=1)
    table = Table(generator.normal(0, 30, 5), generator.uniform(20, 90, 5), 100.0)
    found = updated(block, table, 0.2, 0.1, within=capped(100.0), pooling=0.25)
    mean, covariance = brute_force(block, table, 0.2, found.variance)
    assert np.allclose(found.block.mean, mean[1:], atol=1e-6)
    assert np.isclose(found.intercept_step, mean[0], atol=1e-6)
    assert np.allclose(found.step, mean[0] + mean[1:], atol=1e-6)
    assert np.isclose(found.intercept_variance, covariance[0, 0], atol=1e-6)
    assert found.block.n_visits == 2


def test_noise_teaches_nothing_and_a_clear_table_its_effects():
    components, margins = parts((4,), (False,), np.random.default_rng(5))
    block = EffectBlock.unseen((0,), (4,), components)
    truth = np.array([0.5, -0.5, 0.3, 0.1])
    truth -= margins[0] @ truth
    curvatures = 1e5 * margins[0]
    clear = updated(
        block,
        Table(curvatures * truth, curvatures, 1.0),
        1e-3,
        0.1,
        within=capped(1.0),
        pooling=0.25,
    )
    assert np.allclose(clear.block.mean, truth, atol=0.02)
    drowned = updated(
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
    block = EffectBlock.unseen((0,), (2,), components)
    table = Table(np.array([500.0, -500.0]), np.array([100.0, 100.0]), 1.0)
    found = updated(block, table, 1e-3, 0.1, within=capped(0.25), pooling=0.25)
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
    return ResidualPosterior(rng.normal(), rng.normal(), tuple(blocks), margins)


@pytest.mark.parametrize("orders", [(1,), (1, 2), (1, 2, 3)])
def test_log_odds_are_identical_and_margins_are_handed_over(orders):
    before = posterior_of(0, orders)
    after = purify(before)
    assert_allclose(after.log_odds(CODES), before.log_odds(CODES), rtol=1e-12, atol=1e-12)
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
