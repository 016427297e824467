"""Votes of classifiers: how far noise may have moved their margins, and what is withheld."""

import numpy as np
import pytest
from car_forests import ASKED, CAR, CAR_DOMAIN, fitted_to_car, stumps
from sklearn.naive_bayes import CategoricalNB

from mrf_matrix import Domain, MatrixForestClassifier, load_model, save_model
from mrf_matrix.estimators import from_release
from mrf_matrix.study import expected_calibration_error

# Coverage ----------------------------------------------------------------------------------------


def fitted(**changes):
    settings = {
        "epsilon": 0.5, "n_trees": 8, "max_depth": 2, "strategy": "identity", "voting": "weight",
        "random_state": 0,
    }  # fmt: skip
    return MatrixForestClassifier(CAR_DOMAIN, **(settings | changes)).fit(CAR.codes, CAR.labels)


@pytest.mark.parametrize(
    ("budget", "kind"),
    [({"epsilon": 0.5}, "matrix"), ({"epsilon": None, "rho": 0.1}, "per_tree")],
)
def test_intervals_cover_the_margin_without_noise(budget, kind):
    strategy = {"strategy": "identity"} if kind == "matrix" else {"strategy": "auto"}
    true = fitted(epsilon=float("inf"), allocation=kind, **strategy)._votes(CAR.codes)
    covered, halved, level = [], [], 0.8
    for seed in range(3):
        model = fitted(noise="research", noise_state=seed, allocation=kind, **(strategy | budget))
        votes = model._votes(CAR.codes)
        first, second = np.argsort(-votes, axis=1, kind="stable")[:, :2].T
        rows = np.arange(len(votes))
        margin, half_width, above = model.vote_intervals(CAR.codes, level)
        np.testing.assert_array_equal(above, half_width)
        np.testing.assert_allclose(margin, votes[rows, first] - votes[rows, second])
        off = np.abs(margin - (true[rows, first] - true[rows, second]))
        covered.append((off <= half_width).mean())
        halved.append((off <= half_width / 4).mean())
    assert np.mean(covered) >= level - 0.02
    assert np.mean(halved) < level  # the negative control


def test_labels_are_withheld_where_noise_may_have_chosen():
    model = fitted(noise="research", noise_state=0)
    labels = model.predict_or_abstain(CAR.codes, level=0.95)
    margin, half_width, _ = model.vote_intervals(CAR.codes, level=0.95)
    np.testing.assert_array_equal(np.ma.getmaskarray(labels), margin <= half_width)
    np.testing.assert_array_equal(np.asarray(labels.data), model.predict(CAR.codes))
    stricter = model.predict_or_abstain(CAR.codes, level=0.999)
    assert np.ma.count_masked(stricter) >= np.ma.count_masked(labels) > 0
    kept = ~np.ma.getmaskarray(labels)
    right = CAR.labels == model.predict(CAR.codes)
    assert right[kept].mean() > right.mean()


def test_without_noise_only_ties_are_withheld():
    labels = fitted(epsilon=float("inf")).predict_or_abstain(CAR.codes)
    assert np.ma.count_masked(labels) == 0


def test_what_has_no_interval_says_so(tmp_path):
    model = fitted(voting="hard")
    with pytest.raises(ValueError, match=r"voting='hard'.*weight votes"):
        model.vote_intervals(CAR.codes)
    with pytest.raises(ValueError, match="shrinkage='votes'"):
        fitted(shrinkage="votes").vote_intervals(CAR.codes)
    for level in (0, 1, 95, "0.95", True):
        with pytest.raises(ValueError, match="level"):
            fitted().vote_intervals(CAR.codes, level)
    save_model(fitted(), tmp_path / "m")
    assert len(load_model(tmp_path / "m").vote_intervals(CAR.codes)) == 3  # its release is there


def test_forests_from_a_release_have_the_same_intervals():
    model = fitted(noise="research", noise_state=0)
    other = from_release(model.release_, CAR_DOMAIN, forest=model.forest_, voting="weight")
    for mine, theirs in zip(
        model.vote_intervals(CAR.codes), other.vote_intervals(CAR.codes), strict=True
    ):
        np.testing.assert_allclose(mine, theirs)
    np.testing.assert_allclose(
        model.expected_vote_error(CAR.codes), other.expected_vote_error(CAR.codes)
    )


# Redrawn noise -----------------------------------------------------------------------------------


INFINITE = float("inf")
VOTINGS = ("hard", "weight", "product", "shares", "posterior")
SHRINKAGES = ("none", "votes", "leaves")
RULES = [
    (voting, shrinkage)
    for voting in VOTINGS
    for shrinkage in SHRINKAGES
    if (voting, shrinkage) != ("weight", "none")
]


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
    model = fitted_to_car(**({"n_trees": 3} | changes))
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
    few = {"level": 0.9, "n_draws": 9, "random_state": 0}
    once, again = (noisy.predict_or_abstain(ASKED[:50], **few).mask for _ in range(2))
    np.testing.assert_array_equal(once, again)
    kept = ~np.ma.getmaskarray(labels)
    assert kept.mean() > 0.1
    without = exact.predict(ASKED) == labels.data
    assert without[kept].mean() > 0.9
    assert without[kept].mean() >= without.mean()
    if voting in ("product", "posterior"):  # the others say the majority class almost everywhere
        assert without[kept].mean() > without.mean() + 0.02
    assert not np.ma.getmaskarray(exact.predict_or_abstain(CAR.codes[:50], 0.9, n_draws=9)).any()


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


# Votes --------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("voting", VOTINGS)
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
        for rule in errors:
            shares = model.voted_by(rule).predict_proba(car.codes[test])
            errors[rule] += expected_calibration_error(car.labels[test], shares) / 3
    assert errors["posterior"] < min(errors["hard"], errors["weight"]), errors
