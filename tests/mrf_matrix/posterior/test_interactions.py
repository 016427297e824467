"""The filter of a block's residual: analysis of variance, energies, and what passes it."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mrf_matrix.posterior import BlockTable
from mrf_matrix.posterior.block_effects import _components, _filtered, fit_interactions


def sets(m):
    return [which for order in range(m + 1) for which in combinations(range(m), order)]


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    k=st.integers(1, 3),
    seed=st.integers(0, 2**31),
)
def test_components_sum_to_the_residual_and_are_orthogonal(sizes, k, seed):
    values = np.random.default_rng(seed).normal(size=(*sizes, k))
    found = _components(values)
    assert sorted(found) == sorted(sets(len(sizes)))
    parts = {which: np.broadcast_to(part, values.shape) for which, part in found.items()}
    assert_allclose(sum(parts.values()), values, atol=1e-12)
    for one, two in combinations(parts, 2):
        assert_allclose((parts[one] * parts[two]).sum(axis=tuple(range(len(sizes)))), 0, atol=1e-10)
    for which, part in found.items():
        for axis in which:  # sums over every axis of its own vanish
            assert_allclose(part.sum(axis=axis), 0, atol=1e-10)


def test_expected_energy_under_noise_is_degrees_of_freedom():
    sizes, k, draws = (3, 2, 4), 2, 4000
    noise = np.random.default_rng(0).laplace(0, np.sqrt(0.5), size=(*sizes, k * draws))
    for which, part in _components(noise).items():
        outside = np.prod([n for i, n in enumerate(sizes) if i not in which])
        freedom = k * np.prod([sizes[i] - 1 for i in which])
        assert (part**2).sum() * outside / draws == pytest.approx(freedom, rel=0.1)


def pure(sizes, k, seed, which):
    rng = np.random.default_rng(seed)
    return np.broadcast_to(_components(rng.normal(size=(*sizes, k)))[which], (*sizes, k))


def test_signal_passes_where_there_is_no_noise():
    sizes, k = (4, 3, 2), 2
    residual = 30 * (pure(sizes, k, 0, (0, 1)) + pure(sizes, k, 1, (0, 1, 2))).reshape(24, k)
    table = BlockTable((0, 1, 2), sizes, residual + 0.01, 0.0)
    kept, left, pairs = _filtered(table, residual, noise=0.01)
    assert_allclose(kept, residual, atol=0.01 * np.abs(residual).max())
    assert left < 0.011
    assert pairs[0, 1] == pairs[1, 0] > 0.9
    assert np.all(np.diagonal(pairs) == 0)


def test_main_effects_never_pass():
    sizes = (4, 3)
    residual = 100 * (pure(sizes, 2, 0, (0,)) + pure(sizes, 2, 1, (1,)) + 7).reshape(12, 2)
    kept, left, pairs = _filtered(BlockTable((0, 1), sizes, residual, 1.0), residual, noise=1.0)
    assert_allclose(kept, 0, atol=1e-9)
    assert left == 0
    assert not pairs.any()


def test_noise_is_held_back_on_average_and_signal_is_not():
    sizes, k, rng = (4, 4, 3), 2, np.random.default_rng(0)
    signal = 3 * pure(sizes, k, 0, (0, 1)).reshape(48, k)
    noise_passed, error, raw = [], [], []
    for _ in range(100):
        noise = rng.laplace(0, np.sqrt(0.5), size=(48, k))
        table = BlockTable((0, 1, 2), sizes, noise, 1.0)
        noise_passed.append((_filtered(table, noise, 1.0)[0] ** 2).sum())
        error.append(((_filtered(table, noise + signal, 1.0)[0] - signal) ** 2).sum())
        raw.append((noise**2).sum())
    assert np.mean(noise_passed) < 0.03 * np.mean(raw)
    assert np.mean(error) < 0.5 * np.mean(raw)
    assert np.mean(error) < 0.25 * (signal**2).sum(), "negative control: the signal was kept"


def test_an_exclusive_or_is_seen_only_beyond_main_effects():
    counts = np.array([[50.0, 0], [0, 50], [0, 50], [50, 0]])
    table = BlockTable((0, 1), (2, 2), counts, 1.0)
    found = fit_interactions(table, np.full((4, 2), 25.0))
    odds = found.logs[:, 0] - found.logs[:, 1]
    assert odds[[0, 3]].min() > 2
    assert odds[[1, 2]].max() < -2
    assert found.variances.max() <= 1
    assert found.variances.min() >= 0


def test_one_attribute_and_noise_alone_correct_nothing():
    one = fit_interactions(BlockTable((0,), (3,), np.ones((3, 2)), 1.0), np.ones((3, 2)))
    assert not one.logs.any()
    assert not one.variances.any()
    flat = fit_interactions(BlockTable((0, 1), (2, 2), np.ones((4, 2)), 9.0), np.ones((4, 2)))
    assert_allclose(flat.logs, 0, atol=1e-12)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (2, 1, 2)])
def test_attributes_of_one_code_have_no_interactions(sizes):
    cells = int(np.prod(sizes))
    values = 20 * np.random.default_rng(0).random((cells, 2))
    found = fit_interactions(BlockTable(tuple(range(len(sizes))), sizes, values, 0.0), values + 0.1)
    assert np.isfinite(found.logs).all()
