"""Fits of blocks by their parts: main effects, interactions, and the trust in their sum."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mrf_matrix.posterior import BlockTable, ClassTotals, class_totals, product_posterior
from mrf_matrix.posterior.block_fit import (
    Arrow,
    BlockFit,
    BlockModel,
    EffectPrior,
    check_blocks,
    newton_step,
)
from mrf_matrix.posterior.product import MOST_TRUST, _effects, _overall
from mrf_matrix.posterior.product_fit import (
    _components,
    _filter,
    _relevances,
    fit_interactions,
    fit_main_effects,
)


def block_model(sizes, k, variance, seed, ordered=False):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(np.prod(sizes), 0.7), size=k).T
    values = 60 * shares * rng.dirichlet(np.ones(k)) + rng.normal(
        0, np.sqrt(variance), shares.shape
    )
    table = BlockTable(tuple(range(len(sizes))), tuple(sizes), values, variance)
    priors = tuple(EffectPrior(size, ordered) for size in sizes)
    return BlockModel(table, priors, class_totals([table]))


def log_posterior(model, terms, relevance):
    """The stated quasi-likelihood and priors, written out once more."""
    n_codes, k = model.n_codes, model.table.n_classes
    common, rest = terms[:n_codes], terms[n_codes:].reshape(k, n_codes + 1)
    codes = model.table.codes()
    total = -0.5 * common @ common
    for c in range(k):
        mu = np.full(len(codes), model.totals.values[c] * np.exp(rest[c, -1]))
        start = 0
        for i, size in enumerate(model.table.sizes):
            here = slice(start, start + size)
            share = np.exp(common[here] + rest[c, here])
            mu *= (share / share.sum())[codes[:, i]]
            f = rest[c, here]
            prior = model.priors[i]
            total -= 0.5 * f @ (prior.precision / relevance[i] + prior.constraint) @ f
            start += size
        v, y = model.table.variance, model.table.values[:, c]
        total += ((y + v) * np.log(mu + v) - mu).sum()
        total -= 0.5 * model.intercept_precision[c] * rest[c, -1] ** 2
    return total


@pytest.mark.parametrize(
    ("sizes", "k", "variance", "ordered"),
    [((2,), 2, 0.0, False), ((2, 3), 2, 4.0, False), ((3, 1, 2), 3, 0.5, True), ((4,), 1, 9, True)],
)
def test_the_gradient_is_zero_where_newton_steps_end(sizes, k, variance, ordered):
    model = block_model(sizes, k, variance, seed=3, ordered=ordered)
    relevance = np.linspace(0.2, 1.0, len(sizes))
    fit = BlockFit.start(model)
    for _ in range(200):
        fit = newton_step(model, fit, relevance)
    assert fit.moved < 1e-6
    mode = np.concatenate([fit.common, fit.class_terms.ravel()])

    def slopes(at):
        steps = 1e-5 * np.eye(len(at))
        return np.array(
            [
                (log_posterior(model, at + s, relevance) - log_posterior(model, at - s, relevance))
                / 2e-5
                for s in steps
            ]
        )

    assert np.abs(slopes(mode)).max() < 1e-3
    moved = mode + np.random.default_rng(0).normal(0, 0.05, len(mode))
    assert np.abs(slopes(moved)).max() > 1, "negative control: elsewhere it is not"


def test_the_shares_of_every_class_sum_to_one_and_give_the_expected_counts():
    model = block_model((2, 3), 3, 2.0, seed=1)
    fit = newton_step(model, BlockFit.start(model), np.array([0.3, 0.3]))
    shares = model.shares(fit)
    assert_allclose(shares[:, :2].sum(axis=1), 1)
    assert_allclose(shares[:, 2:].sum(axis=1), 1)
    product = (shares[:, :2, None] * shares[:, None, 2:]).reshape(3, -1).T
    sums = model.totals.values * np.exp(fit.class_terms[:, -1])
    assert_allclose(model.expected_counts(fit), product * sums)


def test_few_records_of_a_skewed_attribute_are_fitted_without_an_intercept():
    counts = np.array([[90.0, 5, 5], [33, 33, 34]]).T
    table = BlockTable((0,), (3,), counts, 0.0)
    (model,), (fit,) = fit_main_effects([table], class_totals([table]), [False])
    assert_allclose(model.shares(fit).T, counts / 100, atol=0.04)
    assert_allclose(fit.class_terms[:, -1], 0, atol=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_relevances_tell_a_decisive_attribute_from_noise(seed):
    rng = np.random.default_rng(seed)
    variance = 60.0**2
    decisive = np.array([[900.0, 100], [50, 450], [50, 450]])
    useless = np.full((8, 2), 125.0)
    tables = [
        BlockTable((i,), (len(v),), v + rng.normal(0, np.sqrt(variance), v.shape), variance)
        for i, v in enumerate([decisive, *[useless] * 5])
    ]
    totals = ClassTotals(np.array([1000.0, 1000.0]), 1.0)
    models, fits = fit_main_effects(tables, totals, [False] * 6)
    sizes = [np.abs(fit.class_terms[:, :-1]).max() for fit in fits]
    assert sizes[0] > 0.6
    assert np.mean(sizes[1:]) < 0.35 * sizes[0]
    relevances = [np.full(1, 0.1)] * 6
    for _ in range(30):
        relevances = _relevances(models, fits, relevances)
    assert relevances[0][0] > 3 * np.mean([r[0] for r in relevances[1:]])


def test_effects_are_centred_and_priors_are_pseudo_inverses():
    for size in range(1, 6):
        for ordered in (False, True):
            prior = EffectPrior(size, ordered)
            assert_allclose(prior.precision @ np.ones(size), 0, atol=1e-9)
            if size > 1:
                kernel = np.linalg.pinv(prior.precision)
                assert np.trace(kernel) == pytest.approx(size - 1)
                assert np.linalg.matrix_rank(kernel) == size - 1
                smooth = kernel[0, 1] / kernel[0, 0] > -1 / (size - 1) + 1e-9
                assert smooth == (ordered and size > 2)


def test_bad_tables_are_refused():
    values = np.zeros((6, 2))
    with pytest.raises(ValueError, match="a size each"):
        BlockTable((0, 1), (6,), values, 1.0)
    with pytest.raises(ValueError, match="6 rows: expected 4"):
        BlockTable((0, 1), (2, 2), values, 1.0)
    for variance in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="variance"):
            BlockTable((0, 1), (2, 3), values, variance)
    with pytest.raises(ValueError, match="finite"):
        BlockTable((0, 1), (2, 3), values + np.nan, 1.0)
    good = BlockTable((0, 1), (2, 3), values, 1.0)
    with pytest.raises(ValueError, match="overlap"):
        check_blocks([good, BlockTable((1,), (3,), np.zeros((3, 2)), 1.0)], 2)
    with pytest.raises(ValueError, match="counts 2 classes: expected 3"):
        check_blocks([good], 3)
    with pytest.raises(ValueError, match="empty"):
        product_posterior([], [])
    with pytest.raises(ValueError, match="ordered"):
        product_posterior([good], [False])
    with pytest.raises(ValueError, match="measured_totals"):
        product_posterior([good], [False] * 2, BlockTable((), (), [[1.0, 2.0, 3.0]], 1.0))


# Systems of common and own terms -----------------------------------------------------------------


def whole(arrow):
    """The matrix written out: common terms first, then those of each class."""
    k, w, p = arrow.cross.shape
    found = np.zeros((p + k * w, p + k * w))
    found[:p, :p] = arrow.common
    for c in range(k):
        here = slice(p + c * w, p + (c + 1) * w)
        found[here, here], found[here, :p] = arrow.own[c], arrow.cross[c]
        found[:p, here] = arrow.cross[c].T
    return found


def test_solutions_and_inverses_are_those_of_the_whole_matrix():
    rng = np.random.default_rng(0)
    k, w, p = 4, 4, 3
    factors = rng.normal(size=(k, 9, p + w))
    squares = np.einsum("cij,cil->cjl", factors, factors)
    arrow = Arrow(
        np.eye(p) + squares[:, :p, :p].sum(axis=0), squares[:, p:, :p], squares[:, p:, p:]
    )
    dense = whole(arrow)
    sides = rng.normal(size=p), rng.normal(size=(k, w))
    expected = np.linalg.solve(dense, np.concatenate([sides[0], sides[1].ravel()]))
    common, own = arrow.solve(*sides)
    assert_allclose(np.concatenate([common, own.ravel()]), expected)
    inverse, found = np.linalg.inv(dense), arrow.inverse()
    for c in range(k):
        here = slice(p + c * w + 1, p + c * w + 3)
        assert_allclose(found.own_terms(slice(1, 3))[c], inverse[here, here])
    rows = np.r_[0:p, p + 2 * w : p + 2 * w + p, p : 2 * p]
    assert_allclose(found.pair_covariance(2, 0), inverse[np.ix_(rows, rows)])
    assert not np.allclose(found.alone[0], inverse[p : p + w, p : p + w]), "negative control"


# The filter of a block's residual ----------------------------------------------------------------


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
    kept, left, pairs = _filter(table, residual, noise=0.01)
    assert_allclose(kept, residual, atol=0.01 * np.abs(residual).max())
    assert left < 0.011
    assert pairs[0, 1] == pairs[1, 0] > 0.9
    assert np.all(np.diagonal(pairs) == 0)


def test_main_effects_never_pass():
    sizes = (4, 3)
    residual = 100 * (pure(sizes, 2, 0, (0,)) + pure(sizes, 2, 1, (1,)) + 7).reshape(12, 2)
    kept, left, pairs = _filter(BlockTable((0, 1), sizes, residual, 1.0), residual, noise=1.0)
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
        noise_passed.append((_filter(table, noise, 1.0)[0] ** 2).sum())
        error.append(((_filter(table, noise + signal, 1.0)[0] - signal) ** 2).sum())
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


# Trust --------------------------------------------------------------------------------------------

SHARES = np.array([[[0.5, 0.1], [0.1, 0.3]], [[0.1, 0.2], [0.3, 0.4]]])


def a_pair(counts, variance):
    table = BlockTable((0, 1), (2, 2), counts, variance)
    return BlockModel(table, (EffectPrior(2, False),) * 2, ClassTotals(np.full(2, 1000.0), 1.0))


def test_covariances_are_unbiased_under_noise():
    counts = 1000 * SHARES.reshape(2, 4).T
    model = a_pair(counts, 0.0)
    fit = BlockFit.start(model)
    for _ in range(10):
        fit = newton_step(model, fit, np.array([0.3, 0.3]))
    found, halves = _effects(model, fit), np.full(2, 0.5)
    exact, _ = _overall(model, found, halves)
    expected = 0.0
    effects = fit.class_terms - fit.class_terms.mean(axis=0)
    joint = SHARES.mean(axis=0)
    for c in range(2):
        one, two = effects[c, :2], effects[c, 2:4]
        product = (joint * np.outer(one, two)).sum()
        expected += product - (joint.sum(axis=1) @ one) * (joint.sum(axis=0) @ two)
    assert exact == pytest.approx(expected)  # two ordered pairs, each effect weighs half
    rng = np.random.default_rng(0)
    for sigma in (50.0, 150.0, 400.0):  # noise of the sum up to 80 % of the class total
        draws = [
            _overall(a_pair(counts + rng.normal(0, sigma, counts.shape), sigma**2), found, halves)
            for _ in range(2000)
        ]
        values, variances = np.array(draws).T
        error = values.std() / np.sqrt(len(values))
        assert abs(values.mean() - exact) < 4 * error
        assert error < exact / 10, "negative control: the test can see a bias"
        assert 0.5 < values.var() / variances.mean() < 2.5


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    k=st.integers(1, 4),
    seed=st.integers(0, 2**31),
    sigma=st.sampled_from([0.0, 1.0, 100.0, 1e6]),
)
def test_trust_is_positive_and_bounded(sizes, k, seed, sigma):
    rng = np.random.default_rng(seed)
    cut = int(rng.integers(1, len(sizes) + 1))
    tables = []
    for block in (range(cut), range(cut, len(sizes))):
        fans = tuple(sizes[i] for i in block)
        if fans:
            shape = (int(np.prod(fans)), k)
            values = 30 * rng.random(shape) + rng.normal(0, sigma, shape)
            tables.append(BlockTable(tuple(block), fans, values, sigma**2))
    found = product_posterior(tables, [False] * len(sizes)).trust
    assert 0 < found <= MOST_TRUST
