"""Labels withheld where redrawn noise would change them, under every voting."""

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, load_dataset
from mrf_matrix.estimators import from_release
from mrf_matrix.voting import ensemble as redrawn_votes
from mrf_matrix.voting.ensemble import fresh_leaf_noise
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES

CAR = load_dataset("car")
DOMAIN = Domain.from_sizes(CAR.domain.sizes, n_classes=4)
INFINITE = float("inf")
ASKED = CAR.codes[::4]
RULES = [
    (voting, shrinkage)
    for voting in NOISE_AWARE_VOTINGS
    for shrinkage in SHRINKAGES
    if (voting, shrinkage) != ("weight", "none")
]


def fitted(**changes):
    settings = {
        "epsilon": 1.0, "n_trees": 12, "max_depth": 2, "strategy": "identity", "random_state": 0,
        "noise": "research", "noise_state": 0,
    }  # fmt: skip
    return MatrixForestClassifier(DOMAIN, **(settings | changes)).fit(CAR.codes, CAR.labels)


@pytest.fixture(scope="module")
def noisy():
    return fitted()


@pytest.fixture(scope="module")
def exact():
    return fitted(epsilon=INFINITE, noise="exact", noise_state=None)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"allocation": "per_tree", "strategy": "auto"},
        {"allocation": "disjoint", "strategy": "auto"},
        {"epsilon": None, "rho": 0.2},
        {"neighboring": "replace_one"},
    ],
    ids=str,
)
def test_redrawn_errors_have_the_variance_of_the_leaves(changes):
    model = fitted(**({"n_trees": 3} | changes))
    one = model.ensembles_[0]
    errors = one.redrawn_noise(200, np.random.default_rng(1))
    assert errors.shape == (*model.leaf_values_.shape, 200)
    squares = (errors**2).mean(axis=(1, 2)) / model.leaf_variances_
    assert abs(squares.mean() - 1) < 0.05
    assert abs(errors.mean()) < 0.1 * np.sqrt(model.leaf_variances_.mean())


@pytest.mark.parametrize(("voting", "shrinkage"), RULES)
def test_every_voting_can_abstain(noisy, exact, voting, shrinkage):
    noisy, exact = (one.voted_by(voting, shrinkage) for one in (noisy, exact))
    labels = noisy.predict_or_abstain(ASKED, 0.9, n_draws=40, random_state=0)
    np.testing.assert_array_equal(labels.data, noisy.predict(ASKED))
    again = noisy.predict_or_abstain(ASKED, 0.9, n_draws=40, random_state=0)
    np.testing.assert_array_equal(labels.mask, again.mask)
    kept = ~np.ma.getmaskarray(labels)
    assert kept.mean() > 0.1
    without = exact.predict(ASKED) == labels.data
    assert without[kept].mean() > 0.9
    assert without[kept].mean() >= without.mean()
    if voting in ("product", "posterior"):  # the others say the majority class almost everywhere
        assert without[kept].mean() > without.mean() + 0.02
    assert not np.ma.getmaskarray(exact.predict_or_abstain(CAR.codes[:50], 0.9, n_draws=9)).any()


def test_less_noise_than_there_is_withholds_too_little(noisy, exact, monkeypatch):
    """The negative control: with a tenth of the noise, kept labels are hardly better than all."""
    noisy, exact = (one.voted_by("posterior", "none") for one in (noisy, exact))

    def faint(*arguments):
        return 0.1 * fresh_leaf_noise(*arguments)

    wanted = noisy.predict_or_abstain(ASKED, 0.95, random_state=0)
    monkeypatch.setattr("mrf_matrix.voting.ensemble.fresh_leaf_noise", faint)
    worse = noisy.predict_or_abstain(ASKED, 0.95, random_state=0)
    without = exact.predict(ASKED)
    agree = [(without == labels.data)[~labels.mask].mean() for labels in (wanted, worse)]
    assert agree[0] > 0.95
    assert agree[1] < agree[0] - 0.03


def test_a_stricter_level_withholds_more_and_draws_must_suffice(noisy):
    noisy = noisy.voted_by("hard", "none")
    masked = [
        np.ma.count_masked(noisy.predict_or_abstain(ASKED, level, random_state=0))
        for level in (0.5, 0.8, 0.95)
    ]
    assert masked == sorted(masked)
    assert masked[0] < masked[-1]
    with pytest.raises(ValueError, match=r"n_draws=100: too few .* at least 999"):
        noisy.predict_or_abstain(ASKED, 0.999)
    for draws in (0, 1.5, "many"):
        with pytest.raises((ValueError, TypeError), match="n_draws"):
            noisy.predict_or_abstain(ASKED, 0.5, n_draws=draws)
    with pytest.raises(ValueError, match="level"):
        noisy.predict_or_abstain(ASKED, 1)


def test_batches_of_draws_are_the_same_votes(noisy, monkeypatch):
    noisy = noisy.voted_by("product", "none")
    one = noisy.predict_or_abstain(CAR.codes[:200], 0.6, n_draws=20, random_state=3)
    monkeypatch.setattr(redrawn_votes, "ENTRIES", 1)  # one draw at a time: other numbers
    other = noisy.predict_or_abstain(CAR.codes[:200], 0.6, n_draws=20, random_state=3)
    assert abs(one.mask.mean() - other.mask.mean()) < 0.15


def test_ensembles_can_abstain():
    settings = {"n_trees": 6, "strategy": "identity", "n_ensembles": 2, "max_features": 4}
    model = MatrixForestClassifier(
        DOMAIN, epsilon=2.0, noise="research", noise_state=0, random_state=0, **settings
    ).fit(CAR.codes, CAR.labels)
    labels = model.predict_or_abstain(CAR.codes[:300], 0.8, n_draws=20, random_state=0)
    np.testing.assert_array_equal(labels.data, model.predict(CAR.codes[:300]))


def test_forests_from_a_release_abstain_alike(noisy):
    other = from_release(noisy.release_, DOMAIN, forest=noisy.forest_)
    mine, theirs = (
        one.predict_or_abstain(ASKED, 0.8, n_draws=20, random_state=5)
        for one in (noisy.voted_by("posterior", "none"), other)
    )
    np.testing.assert_array_equal(mine.mask, theirs.mask)
