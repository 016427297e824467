"""Product, posterior and odds votes: naive Bayes, silence where there is no signal, exact noise."""

import numpy as np
import pytest
from sklearn.naive_bayes import CategoricalNB

from mrf_matrix import Domain, MatrixForestClassifier, RandomTrees, load_dataset
from mrf_matrix.base.checks import one_word
from mrf_matrix.forests import concatenate
from mrf_matrix.study import expected_calibration_error
from mrf_matrix.voting import NoisyLeaves, leaf_evidence
from mrf_matrix.voting.ensemble import ensemble_votes, independent_noise
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES, evidence_scale

INFINITE = float("inf")


def stumps(domain):
    return concatenate(
        [
            RandomTrees(1, 1, attributes=[i]).grow(domain, random_state=0)
            for i in range(domain.n_attributes)
        ]
    )


@pytest.fixture(scope="module")
def car():
    return load_dataset("car")


def test_stumps_under_product_voting_are_naive_bayes(car):
    half = np.random.default_rng(0).permutation(len(car.codes))[:700]
    model = MatrixForestClassifier(
        car.domain, epsilon=INFINITE, forest=stumps(car.domain), voting="product",
        strategy="identity",
    ).fit(car.X.iloc[half] if hasattr(car.X, "iloc") else car.X[half], car.y[half])  # fmt: skip
    twin = CategoricalNB(alpha=1.0, min_categories=list(car.domain.sizes))
    twin.fit(car.codes[half], car.y[half])
    np.testing.assert_array_equal(model.classes_, twin.classes_)
    np.testing.assert_allclose(
        model.predict_proba(car.X), twin.predict_proba(car.codes), rtol=1e-9, atol=1e-12
    )


def test_attributes_that_are_asked_again_and_again_count_once(car):
    """Ten copies of every stump say the same as one of each."""
    once = stumps(car.domain)
    often = concatenate([once] * 10)
    values = np.random.default_rng(0).uniform(0, 50, size=(once.n_leaves, 4))
    for rule in ("product", "posterior"):
        votes = [
            ensemble_votes(
                [(tuple(range(6)), NoisyLeaves(forest, np.tile(values, (copies, 1)), 4.0))],
                car.codes.astype(np.int32),
                rule,
                "leaves",
            )
            for forest, copies in ((once, 1), (often, 10))
        ]
        np.testing.assert_allclose(votes[0], votes[1], rtol=1e-7)
    assert evidence_scale([(tuple(range(6)), once)]) == 1.0


@pytest.mark.parametrize("rule", ["shares", "posterior"])
def test_leaves_of_noise_alone_add_nothing(rule):
    """One root with signal, leaves that differ by noise only: all leaves say the same."""
    domain = Domain.from_sizes([20, 20], n_classes=2)
    forest = RandomTrees(n_trees=8, max_depth=1).grow(domain, random_state=0)
    noise = np.random.default_rng(0).normal(scale=4.0, size=(forest.n_leaves, 2))
    leaves = NoisyLeaves(forest, np.array([30.0, 10.0]) + noise, 16.0)
    table, _ = leaf_evidence(leaves, rule, "leaves")
    spread = max(np.ptp(table[forest.leaf_tree == t], axis=0).max() for t in range(8))
    assert spread < (0.06 if rule == "posterior" else 0.02)
    if rule == "posterior":
        np.testing.assert_allclose(table, 0, atol=0.3)  # trees differ in what their roots say
    first = np.where(np.arange(forest.n_leaves) % 2, 35.0, 5.0)
    told = NoisyLeaves(forest, np.stack([first, 40 - first], axis=1) + noise, 16.0)
    # the negative control: leaves that do differ
    assert np.ptp(leaf_evidence(told, rule, "leaves")[0], axis=0).max() > 0.5


@pytest.mark.parametrize("voting", NOISE_AWARE_VOTINGS)
@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_without_noise_shrinkage_changes_nothing(car, voting, shrinkage):
    model = MatrixForestClassifier(
        car.domain, epsilon=INFINITE, n_trees=8, max_depth=2, strategy="identity", random_state=0
    ).fit(car.X, car.y)
    plain = model.voted_by(voting).predict_proba(car.X)
    shrunk = model.voted_by(voting, shrinkage).predict_proba(car.X)
    np.testing.assert_allclose(shrunk.sum(axis=1), 1)
    np.testing.assert_allclose(plain, shrunk, atol=1e-9)


@pytest.mark.parametrize("kind", ["matrix", "per_tree", "disjoint"])
def test_leaf_variances_are_exact(car, kind):
    """Against noise drawn anew, within four deviations of a mean square."""
    settings = {"n_trees": 4, "max_depth": 2, "random_state": 0, "allocation": kind}
    if kind == "matrix":
        settings["strategy"] = "identity"
    exact = MatrixForestClassifier(car.domain, epsilon=INFINITE, **settings).fit(car.X, car.y)
    squares, draws = 0.0, 25
    for seed in range(draws):
        if kind == "disjoint":
            break
        model = MatrixForestClassifier(
            car.domain, epsilon=0.1, noise="research", noise_state=seed, **settings
        ).fit(car.X, car.y)
        squares = squares + ((model.leaf_values_ - exact.leaf_values_) ** 2).mean(axis=1) / draws
    if kind == "disjoint":
        model = MatrixForestClassifier(car.domain, epsilon=0.1, **settings).fit(car.X, car.y)
        np.testing.assert_allclose(model.leaf_variances_, model.release_.variance)
        return
    assert abs((squares / model.leaf_variances_).mean() - 1) < 0.2
    assert (exact.leaf_variances_ == 0).all()


def test_several_ensembles_have_one_prior(car):
    """Votes of an ensemble and its copy are the votes of one."""
    forest = stumps(car.domain)
    values = np.random.default_rng(1).uniform(1, 50, size=(forest.n_leaves, 4))
    part = (tuple(range(6)), NoisyLeaves(forest, values, independent_noise(forest, 0.0)))
    codes = car.codes.astype(np.int32)
    one = ensemble_votes([part], codes, "product")
    np.testing.assert_allclose(ensemble_votes([part, part], codes, "product"), one, rtol=1e-9)


def test_posterior_probabilities_are_better_calibrated_than_shares_of_votes(car):
    """Expected calibration error under noise, mean over three draws, on the other half."""
    half = np.random.default_rng(0).permutation(len(car.codes))
    train, test = half[:1300], half[1300:]
    domain = Domain.from_sizes(car.domain.sizes, n_classes=4)
    errors = {"hard": 0.0, "weight": 0.0, "posterior": 0.0}
    for seed in range(3):
        model = MatrixForestClassifier(
            domain, epsilon=1.0, max_depth=3, strategy="identity", noise="research",
            noise_state=seed, random_state=seed,
        ).fit(car.codes[train], car.labels[train])  # fmt: skip
        for voting in errors:
            shares = model.voted_by(voting).predict_proba(car.codes[test])
            errors[voting] += expected_calibration_error(car.labels[test], shares) / 3
    assert errors["posterior"] < min(errors["hard"], errors["weight"]), errors


def test_unknown_shrinkage_is_refused(car):
    with pytest.raises(ValueError, match=r"shrinkage='all'.*'none', 'votes', 'leaves'"):
        one_word("shrinkage", "all", SHRINKAGES)
    with pytest.raises(ValueError, match="shrinkage"):
        MatrixForestClassifier(car.domain, shrinkage="all").fit(car.X, car.y)


def test_leaves_with_noise_of_their_own(car):
    """Votes of a mean over trees have 1/τ of a leaf's variance; without noise there is none."""
    forest = RandomTrees(n_trees=5, max_depth=2).grow(car.domain, random_state=0)
    values = np.zeros((forest.n_leaves, 2))
    noisy = NoisyLeaves(forest, values, 2.0)
    assert noisy.is_noisy is True
    assert np.array_equal(noisy.variances, np.full(forest.n_leaves, 2.0))
    draws = np.random.default_rng(0).normal(size=(4000, 5)) * np.sqrt(2.0)
    assert draws.mean(axis=1).var() == pytest.approx(2.0 * noisy.noise.vote_share, rel=0.1)
    assert NoisyLeaves(forest, values, 0.0).is_noisy is False
