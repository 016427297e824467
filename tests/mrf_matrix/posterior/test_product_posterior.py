"""Votes by product: probabilities, variances of margins by brute force, and invariances."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mrf_matrix.posterior import BlockTable, product_posterior


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
