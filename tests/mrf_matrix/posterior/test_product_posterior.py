"""Votes by product: probabilities, variances of margins by brute force, and invariances."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mrf_matrix.posterior import BlockTable, class_totals, product_posterior


def some_tables(blocks, sizes, k, sigma, seed):
    rng = np.random.default_rng(seed)
    tables = []
    for block in blocks:
        fans = tuple(sizes[i] for i in block)
        true = 80 * rng.dirichlet(np.ones(prod(fans)), size=k).T * rng.uniform(0.2, 1, size=k)
        values = true + rng.normal(0, 1, true.shape) * sigma
        tables.append(BlockTable(tuple(block), fans, values, sigma**2))
    totals = BlockTable((), (), rng.uniform(10, 80, size=(1, k)), sigma**2)
    return tables, totals


def cells(sizes):
    return np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1)


def test_margin_variances_are_those_of_the_full_covariance():
    sizes, k = [2, 3, 2, 1], 3
    tables, totals = some_tables([(0, 1), (2, 3)], sizes, k, 1.5, 0)
    posterior = product_posterior(tables, [False, True, False, False], totals)
    codes = cells(sizes)
    rng = np.random.default_rng(0)
    first = rng.integers(k, size=len(codes))
    second = (first + rng.integers(1, k, size=len(codes))) % k
    relative = posterior.totals.error / posterior.totals.values
    expected = relative[first] ** 2 + relative[second] ** 2
    for row, code in enumerate(codes):
        one, two = first[row], second[row]
        for model, fit, beyond in zip(
            posterior.models, posterior.fits, posterior.interactions, strict=True
        ):
            base = np.concatenate([fit.common, fit.class_terms.ravel()])

            def margin(terms, model=model, code=code, one=one, two=two):
                n_codes, start, total = model.n_codes, 0, 0.0
                rest = terms[n_codes:].reshape(-1, n_codes + 1)[:, :-1]
                for i, size in zip(model.table.attributes, model.table.sizes, strict=True):
                    here = slice(start, start + size)
                    logs = terms[:n_codes][here] + rest[:, here]
                    logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
                    total += logs[one, code[i]] - logs[two, code[i]]
                    start += size
                return total

            slopes = [
                (margin(base + step) - margin(base - step)) / 2e-5
                for step in 1e-5 * np.eye(len(base))
            ]
            cell = model.table.cells(code[None])[0]
            n, used = model.n_codes, np.asarray(slopes)
            places = [n + c * (n + 1) for c in (one, two)]
            used = np.concatenate([used[:n], *(used[at : at + n] for at in places)])
            own = used @ fit.covariance.of_two(one, two) @ used
            own += beyond.variances[cell, one] + beyond.variances[cell, two]
            expected[row] += posterior.trust**2 * own
    found = posterior.margin_variances(codes, first, second)
    assert_allclose(found, expected, rtol=1e-6)
    assert_allclose(posterior.margin_variances(codes, second, first), found)


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    k=st.integers(1, 4),
    sigma=st.sampled_from([0.0, 1.0, 30.0, 1e4, 1e8]),
    seed=st.integers(0, 2**31),
)
def test_probabilities_are_probabilities_under_any_noise(sizes, k, sigma, seed):
    cut = seed % len(sizes) + 1
    blocks = [b for b in (tuple(range(cut)), tuple(range(cut, len(sizes)))) if b]
    tables, totals = some_tables(blocks, sizes, k, sigma, seed)
    found = product_posterior(tables, [False] * len(sizes), totals).probabilities(cells(sizes))
    assert found.shape == (prod(sizes), k)
    assert_allclose(found.sum(axis=1), 1)
    assert found.min() >= 0


@pytest.mark.parametrize("sigma", [0.0, 2.0, 40.0])
def test_renaming_classes_renames_probabilities(sigma):
    sizes, order = [2, 3, 2], np.array([2, 0, 1])
    tables, totals = some_tables([(0, 2), (1,)], sizes, 3, sigma, 1)
    renamed = [
        BlockTable(t.attributes, t.sizes, t.values[:, order], t.variance) for t in (*tables, totals)
    ]
    one = product_posterior(tables, [False] * 3, totals).probabilities(cells(sizes))
    two = product_posterior(renamed[:-1], [False] * 3, renamed[-1]).probabilities(cells(sizes))
    assert_allclose(two, one[:, order], rtol=1e-6)


@pytest.mark.parametrize("sigma", [0.0, 2.0, 40.0])
def test_the_order_of_attributes_and_blocks_does_not_matter(sigma):
    sizes = [2, 3, 2]
    (pair, single), totals = some_tables([(0, 1), (2,)], sizes, 2, sigma, 2)
    ordered = [False, True, False]
    one = product_posterior([pair, single], ordered, totals).probabilities(cells(sizes))
    turned = pair.values.reshape(2, 3, 2).transpose(1, 0, 2).reshape(6, 2)
    # The domain's attributes in the order 2, 1, 0.
    pair = BlockTable((1, 2), (3, 2), turned, pair.variance)
    single = BlockTable((0,), (2,), single.values, single.variance)
    two = product_posterior([single, pair], ordered, totals).probabilities(cells(sizes)[:, ::-1])
    assert_allclose(two, one, rtol=1e-6)


def test_a_code_renamed_in_an_unordered_attribute_does_not_matter():
    tables, totals = some_tables([(0,), (1,)], [3, 2], 2, 3.0, 3)
    order = np.array([1, 2, 0])
    renamed = BlockTable((0,), (3,), tables[0].values[order], tables[0].variance)
    codes = cells([3, 2])
    one = product_posterior(tables, [False] * 2, totals).probabilities(codes)
    moved = np.column_stack([np.argsort(order)[codes[:, 0]], codes[:, 1]])
    two = product_posterior([renamed, tables[1]], [False] * 2, totals).probabilities(moved)
    assert_allclose(two, one, rtol=1e-6)


def test_noise_pulls_probabilities_toward_the_class_shares():
    leads = []
    for sigma in (0.0, 20.0, 500.0):
        rng = np.random.default_rng(0)
        counts = np.array([[450.0, 50], [50, 450]])
        tables = [
            BlockTable((i,), (2,), counts + rng.normal(0, sigma, (2, 2)), sigma**2)
            for i in range(3)
        ]
        totals = BlockTable((), (), np.array([[500.0, 500.0]]), 1.0)
        found = product_posterior(tables, [False] * 3, totals).probabilities(np.zeros((1, 3), int))
        leads.append(found[0, 0])
    assert leads[0] > 0.99
    assert leads[0] > leads[1] > leads[2]
    assert leads[2] < 0.9


# Class totals ------------------------------------------------------------------------------------


def totals_table(values, variance):
    return BlockTable((), (), [values], variance)


def test_estimates_are_averaged_by_inverse_variance():
    block = BlockTable((0,), (4,), np.array([[1000.0, 2000.0]] * 4), 9.0)  # variance 36 of sums
    found = class_totals([block], totals_table([4200.0, 7900.0], 4.0))
    assert found.error == pytest.approx((1 / 36 + 1 / 4) ** -0.5)
    expected = np.array([4000 / 36 + 4200 / 4, 8000 / 36 + 7900 / 4]) / (1 / 36 + 1 / 4)
    assert_allclose(found.values, expected, rtol=1e-4)  # hardly shrunk: 2 in 4000


@pytest.mark.parametrize("values", [[3.0, 7.0], [1.0, 0.0], [1.0], [0.0, 2.0, 1.0], [1e6, 1.0]])
def test_exact_counts_stay(values):
    found = class_totals([BlockTable((0,), (2,), np.array([values, values]) / 2, 0.0)])
    assert found.error == 0
    assert_allclose(found.values, values, atol=0.011, rtol=1e-2)
    assert (found.values > 0).all()


def test_an_exact_source_outweighs_noisy_ones():
    noisy = BlockTable((0,), (1,), [[50.0, -20.0]], 100.0)
    assert_allclose(class_totals([noisy], totals_table([30.0, 70.0], 0.0)).values, [30, 70])


def test_nothing_counted_is_still_positive():
    assert (class_totals([totals_table([0.0, 0.0], 0.0)]).values > 0).all()


@given(
    values=st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=150),
    variance=st.floats(0, 1e13),
)
def test_totals_are_positive_and_shares_sum_to_one(values, variance):
    found = class_totals([totals_table(values, variance)])
    assert (found.values > 0).all()
    assert np.isfinite(found.values).all()
    assert_allclose(found.shares.sum(), 1)
    numbers = np.asarray(values)
    before, after = (
        np.subtract.outer(numbers, numbers),
        np.subtract.outer(found.values, found.values),
    )
    assert (before * after >= -1e-6 * np.abs(before * after).max(initial=0)).all()  # order is kept


def test_many_classes_keep_their_order_under_noise():
    """A least share of 1 % each would make 150 classes equal, whatever was measured."""
    values = np.linspace(500.0, 1500.0, 150)
    found = class_totals([totals_table(values, 1.0)])
    assert_allclose(found.values, values, rtol=0.01)


def test_the_number_of_records_is_the_mean_of_a_normal_cut_off_at_zero():
    rng = np.random.default_rng(0)
    for sums in (-30.0, 0.0, 40.0, 400.0):
        draws = rng.normal(sums, 20.0, size=2_000_000)
        kept = draws[draws > 0]
        if len(kept) > 10_000:
            found = class_totals([totals_table([sums], 400.0)]).values.sum()
            assert found == pytest.approx(kept.mean(), rel=0.02)


def test_shrinkage_helps_where_noise_is_large():
    rng = np.random.default_rng(1)
    true = np.array([260.0, 340.0, 300.0, 100.0])
    raw, shrunk = [], []
    for _ in range(200):
        noisy = true + rng.normal(0, 200, size=4)
        raw.append(((noisy - true) ** 2).sum())
        shrunk.append(((class_totals([totals_table(noisy, 4e4)]).values - true) ** 2).sum())
    assert np.mean(shrunk) < 0.6 * np.mean(raw)
