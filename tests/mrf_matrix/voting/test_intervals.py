"""Margins of weight votes: coverage against drawn noise, with controls that must fail."""

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, load_dataset, load_model, save_model
from mrf_matrix.estimators import from_release
from mrf_matrix.voting.margin_widths import margin_quantile

CAR = load_dataset("car")
DOMAIN = Domain.from_sizes(CAR.domain.sizes, n_classes=4)


def fitted(**changes):
    settings = {
        "epsilon": 0.5, "n_trees": 8, "max_depth": 2, "strategy": "identity", "voting": "weight",
        "random_state": 0,
    }  # fmt: skip
    return MatrixForestClassifier(DOMAIN, **(settings | changes)).fit(CAR.codes, CAR.labels)


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


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [3.0, 1.0, 1.0], np.ones(40)])
def test_the_wider_quantile_covers_sums_of_laplace_draws(level, weights):
    generator = np.random.default_rng(0)
    weights = np.asarray(weights)
    draws = generator.laplace(size=(40_000, 2 * len(weights))) @ np.concatenate([weights, -weights])
    deviation = np.sqrt(4 * (weights**2).sum())
    quantile = margin_quantile(level, 2, gaussian=False)
    assert (np.abs(draws) <= quantile * deviation).mean() > level - 0.01
    if level > 0.9 and len(weights) == 1:
        normal = margin_quantile(level, 2, gaussian=True)
        assert (np.abs(draws) <= normal * deviation).mean() < level - 0.001


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
    other = from_release(model.release_, DOMAIN, forest=model.forest_, voting="weight")
    for mine, theirs in zip(
        model.vote_intervals(CAR.codes), other.vote_intervals(CAR.codes), strict=True
    ):
        np.testing.assert_allclose(mine, theirs)
    np.testing.assert_allclose(
        model.expected_vote_error(CAR.codes), other.expected_vote_error(CAR.codes)
    )
