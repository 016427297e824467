"""Votes by product: probabilities, variances of margins by brute force, and invariances."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mrf_matrix.posterior import (
    CURVATURE_CAP,
    RESIDUAL_CAP,
    UNITS,
    BlockTable,
    Link,
    class_totals,
    curvature_units,
    estimated_total,
    intercept,
    margin,
    product_posterior,
    residual_units,
    shrunk_counts,
)


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
            own = used @ fit.covariance.pair_covariance(one, two) @ used
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


# Votes without noise, and of noise alone ----------------------------------------------------------


def skewed(n, k=2, d=3, seed=0):
    """Counts of one-attribute blocks; the classes differ in how skewed their attributes are."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([0.6, 2, 4, 1], size=(d, k))
    counts = np.rint(n * shares).astype(float) + 5
    counts[:, :, -1] += counts.sum(axis=2).max() - counts.sum(axis=2)
    return [BlockTable((i,), (4,), counts[i].T, 0.0) for i in range(d)], counts


def test_large_counts_without_noise_are_naive_bayes():
    """Also of skewed attributes: without the shares' normaliser the classes' votes are offset."""
    tables, counts = skewed(2_000_000)
    posterior = product_posterior(tables, [False] * 3)
    codes = np.stack(np.unravel_index(np.arange(64), (4, 4, 4)), axis=1)
    logs = sum(
        np.log(counts[i] / counts[i].sum(axis=1, keepdims=True)).T[codes[:, i]] for i in range(3)
    )
    logs = np.log(counts[0].sum(axis=1)) + posterior.trust * logs
    found = posterior.log_odds(codes)
    assert_allclose(found[:, 0] - found[:, 1], logs[:, 0] - logs[:, 1], atol=0.01)


def test_pure_noise_casts_no_vote():
    rng = np.random.default_rng(0)
    tables = [BlockTable((i,), (4,), rng.normal(25, 1e4, size=(4, 2)), 1e8) for i in range(5)]
    codes = rng.integers(4, size=(30, 5))
    posterior = product_posterior(tables, [False] * 5, BlockTable((), (), [[100.0, 100.0]], 1.0))
    assert_allclose(posterior.probabilities(codes), 0.5, atol=0.05)


def test_cells_and_codes_are_inverse():
    table = BlockTable((3, 0), (2, 3), np.zeros((6, 1)), 0.0)
    records = np.zeros((6, 4), dtype=np.int32)
    records[:, [3, 0]] = table.codes()
    np.testing.assert_array_equal(table.cells(records), np.arange(6))


# Trust in the sum of votes ------------------------------------------------------------------------


def sets(duplicated, seed=0):
    """Two blocks of two attributes; in each block independent in a class, or the same twice."""
    rng = np.random.default_rng(seed)
    tables = []
    for block in range(2):
        counts = np.zeros((2, 9))
        for c in range(2):
            share = rng.permutation([0.6, 0.3, 0.1]) if c else np.array([0.2, 0.3, 0.5])
            joint = np.diag(share) if duplicated else np.outer(share, share)
            counts[c] = 3000 * joint.ravel()
        tables.append(BlockTable((2 * block, 2 * block + 1), (3, 3), counts.T, 1.0))
    return product_posterior(tables, [False] * 4)


def test_independent_attributes_are_trusted_and_duplicates_are_not():
    independent, duplicated = sets(False).trust, sets(True).trust
    assert 0.9 < independent < 1.1
    assert duplicated < 0.75
    assert duplicated < independent - 0.2


def test_codings_that_exclude_each_other_say_nothing_of_other_pairs():
    """Siblings of one-hot codes vary against each other, and their votes repeat each other still.

    The means of the classes explain more than there would be to explain, were attributes
    independent over all records.
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 4000)
    latent = labels * 2.0 + rng.normal(0, 1, 4000)
    tables = []
    for block in range(6):
        level = np.digitize(latent + rng.normal(0, 0.3, 4000), [0.0, 2.0])
        cells = np.array([0, 1, 2])[level]  # none, the first or the second of two siblings
        counts = np.zeros((4, 2))
        np.add.at(counts, (cells, labels), 1)
        tables.append(BlockTable((2 * block, 2 * block + 1), (2, 2), counts, 1.0))
    posterior = product_posterior(tables, [False] * 12)
    assert posterior.trust <= 1
    assert len(repr(posterior)) < 120


@pytest.mark.parametrize("blocks", [[(0, 1), (2, 3)], [(0, 2), (1, 3)]])
def test_a_designed_experiment_is_trusted_more(blocks):
    """Every combination occurs as often, so attributes vary against each other within classes."""
    codes = np.stack(np.unravel_index(np.arange(625), (5,) * 4), axis=1)
    labels = (codes[:, :2].sum(axis=1) > codes[:, 2:].sum(axis=1)).astype(int)
    tables = []
    for block in blocks:
        cells = codes[:, block[0]] * 5 + codes[:, block[1]]
        counts = np.zeros((25, 2))
        np.add.at(counts, (cells, labels), 1)
        tables.append(BlockTable(block, (5, 5), counts, 0.01))
    posterior = product_posterior(tables, [True] * 4)
    odds = posterior.log_odds(codes) @ [-1, 1]
    steps = np.linspace(0.2, 3, 57)
    likelihood = [-np.logaddexp(0, -step * odds * (2 * labels - 1)).sum() for step in steps]
    assert posterior.trust > 1.3
    best = steps[np.argmax(likelihood)]
    assert best > 0.8, "the trust may not overshoot what the labels bear"


def test_single_attributes_have_the_usual_trust_and_one_class_has_full():
    rng = np.random.default_rng(0)
    alone = [BlockTable((i,), (3,), 100 * rng.random((3, 2)), 1.0) for i in range(4)]
    assert 0.8 < product_posterior(alone, [False] * 4).trust < 1
    one = [BlockTable((i,), (3,), 100 * rng.random((3, 1)), 1.0) for i in range(4)]
    assert product_posterior(one, [False] * 4).trust == 1


# Residuals of one record --------------------------------------------------------------------------

LOG_ODDS = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 700.0, -800.0, np.inf, -np.inf])


@given(LOG_ODDS, st.integers(0, 1))
def test_residuals_and_curvatures_are_capped_integers_for_any_log_odds(log_odds, label):
    units = residual_units(np.array([log_odds]), np.array([label]))
    assert units.dtype == np.int64
    assert 0 <= units[0] * (2 * label - 1) <= RESIDUAL_CAP
    curvature = curvature_units(np.array([log_odds]))
    assert curvature.dtype == np.int64
    assert 0 <= curvature[0] <= CURVATURE_CAP


def test_residuals_are_the_weighted_ones_to_half_a_unit():
    log_odds = np.linspace(-8, 8, 201)
    p = 1 / (1 + np.exp(-log_odds))
    weights = 0.5 / np.maximum(p, 1 - p)
    for label in (0, 1):
        units = residual_units(log_odds, np.full(len(p), label))
        assert np.abs(units / UNITS - weights * (label - p)).max() <= 0.5 / UNITS + 1e-12
    assert np.abs(curvature_units(log_odds) / UNITS - weights * p * (1 - p)).max() <= 0.5 / UNITS


def test_residuals_of_records_that_follow_the_model_are_nothing_on_average():
    log_odds = np.linspace(-6, 6, 101)
    p = 1 / (1 + np.exp(-log_odds))
    ones, zeros = (residual_units(log_odds, np.full(len(p), y)) / UNITS for y in (1, 0))
    assert np.abs(p * ones + (1 - p) * zeros).max() <= 0.5 / UNITS


NORMS = ("l1", "l2")


def norm_of(units, norm):
    return np.abs(units).sum(axis=1) if norm == "l1" else (units.astype(object) ** 2).sum(axis=1)


@given(st.lists(LOG_ODDS, min_size=3, max_size=60), st.sampled_from(NORMS))
def test_all_residuals_of_a_record_are_bounded_together(scores, norm):
    """Exactly, on the integer grid, whatever the label: rounding is no excuse."""
    k = len(scores)
    link = Link(k, norm)
    units = link.residual_units(np.tile(scores, (k, 1)), np.arange(k))
    assert units.dtype == np.int64
    cap = link.residual_cap if norm == "l1" else link.residual_cap**2
    assert norm_of(units, norm).max() <= cap
    assert np.abs(units).sum(axis=1).max() <= link.largest_sum
    assert (units.sum(axis=1) == 0).all()
    assert (units[np.arange(k), np.arange(k)] >= 0).all()
    curvature = link.curvature_units(np.array([scores]))
    assert 0 <= curvature[0] <= link.curvature_cap


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", [3, 7])
def test_residuals_of_several_classes_are_the_weighted_ones(norm, k):
    scores = np.random.default_rng(0).normal(0, 2, (200, k))
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    link, moved = Link(k, norm), np.eye(k) - p[:, None, :]  # record, label, class
    sizes = np.abs(moved).sum(axis=2) if norm == "l1" else np.linalg.norm(moved, axis=2)
    weights = 1 / sizes.max(axis=1)
    mean = np.zeros((200, k))
    for label in range(k):
        units = link.residual_units(scores, np.full(200, label)) / UNITS
        assert np.abs(units - weights[:, None] * moved[:, label]).max() <= k / UNITS
        mean += p[:, [label]] * units
    assert np.abs(mean).max() <= k / UNITS  # nothing where labels follow the model
    curvature = weights * (1 - (p**2).sum(axis=1))
    assert np.abs(link.curvature_units(scores) / UNITS - curvature).max() <= 0.5 / UNITS + 1e-12


# Intercepts and margins from noisy tables --------------------------------------------------------


COUNTS = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=6)
VARIANCES = st.floats(0, 1e18)


@given(COUNTS, VARIANCES, st.floats(1, 1e9))
def test_margins_are_positive_shares_whatever_the_noise(counts, variance, n_records):
    shares = margin(np.array(counts), variance, n_records)
    assert shares.min() > 0
    assert np.isclose(shares.sum(), 1)


def test_margins_without_noise_are_the_shares():
    assert np.allclose(margin(np.array([10.0, 30.0, 60.0]), 0.0, 100.0), [0.1, 0.3, 0.6])


def test_counts_that_noise_explains_are_the_expected_ones():
    expected = np.array([50.0, 50.0])
    assert np.array_equal(shrunk_counts(np.array([60.0, 40.0]), expected, 1e4), expected)
    assert np.allclose(shrunk_counts(np.array([60.0, 40.0]), expected, 0.0), [60, 40])
    half = shrunk_counts(np.array([60.0, 40.0]), expected, 50.0)
    assert np.allclose(half, [55, 45])


def test_intercepts_are_the_log_odds_and_fade_with_noise():
    base, unknown = intercept(np.array([250.0, 750.0]), 0.0, 1000.0)
    assert base == pytest.approx(np.log(3))
    assert unknown == pytest.approx(1e-3)
    noisy, more = intercept(np.array([250.0, 750.0]), 1e5, 1000.0)
    assert 0 < noisy < base
    assert more > unknown
    drowned, _ = intercept(np.array([-5e4, 9e4]), 1e10, 1000.0)
    assert abs(drowned) < 0.2  # a lean of many times the records says nothing


def test_totals_are_the_public_number_or_what_was_released():
    assert estimated_total(np.array([3.0, -9.0]), 70) == 70
    assert estimated_total(np.array([30.0, 9.0]), None) == 39
    assert estimated_total(np.array([3.0, -9.0]), None) == 1
