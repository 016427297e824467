"""Trust in the sum of votes: what attributes share, measured without bias under noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.posterior import BlockTable, ClassTotals, product_posterior
from mrf_matrix.posterior.block_fit import BlockFit, BlockModel, EffectPrior, newton_step
from mrf_matrix.posterior.product import MOST_TRUST, _effects, _overall

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
