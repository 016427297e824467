"""Main effects: the mode of the stated posterior, naive Bayes without noise, nothing under it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix.posterior import BlockTable, ClassTotals, class_totals, product_posterior
from mrf_matrix.posterior.block_effects import _relevances, fit_main_effects
from mrf_matrix.posterior.block_fit import BlockFit, BlockModel, EffectPrior, newton_step
from mrf_matrix.posterior.block_table import check_blocks


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
    assert_allclose(model.expected(fit), product * sums)


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


def test_pure_noise_casts_no_vote():
    rng = np.random.default_rng(0)
    tables = [BlockTable((i,), (4,), rng.normal(25, 1e4, size=(4, 2)), 1e8) for i in range(5)]
    codes = rng.integers(4, size=(30, 5))
    posterior = product_posterior(tables, [False] * 5, BlockTable((), (), [[100.0, 100.0]], 1.0))
    assert_allclose(posterior.probabilities(codes), 0.5, atol=0.05)


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


def test_cells_and_codes_are_inverse():
    table = BlockTable((3, 0), (2, 3), np.zeros((6, 1)), 0.0)
    records = np.zeros((6, 4), dtype=np.int32)
    records[:, [3, 0]] = table.codes()
    np.testing.assert_array_equal(table.cells(records), np.arange(6))
