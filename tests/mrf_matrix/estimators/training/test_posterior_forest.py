"""Classifiers of tables: posterior forests with their plans and searches, and naive Bayes."""

import json
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import CategoricalNB

from mrf_matrix import Domain, MatrixForestClassifier, PrivacyLedger, load_dataset, plan
from mrf_matrix.estimators import (
    PosteriorForestClassifier,
    PrivateNaiveBayesClassifier,
    from_design,
)
from mrf_matrix.planning import ExpectedLoss, tune
from mrf_matrix.posterior import ProductPosterior

INFINITE = float("inf")


def research(data, **changes):
    parameters = {"noise": "research", "noise_state": 0, "random_state": 0, "n_records": 1700}
    return PosteriorForestClassifier(data.domain, **(parameters | changes))


# Privacy -------------------------------------------------------------------------------------


def test_what_cannot_be_predicted_from_is_refused_before_it_is_paid():
    ledger = PrivacyLedger(epsilon=10**7)
    domain = Domain.from_sizes([6000, 2], n_classes=5)
    model = PosteriorForestClassifier(domain, n_blocks=2, ledger=ledger)
    with pytest.raises(ValueError, match="covariance"):
        model.fit(np.zeros((3, 2), int), [0, 1, 2])
    many = PosteriorForestClassifier(
        Domain.from_sizes([2] * 13, n_classes=200), epsilon=1e6, n_blocks=1, ledger=ledger
    )
    with pytest.raises(ValueError, match="components"):
        many.fit(np.zeros((3, 13), int), [0, 1, 2])
    wrong = PosteriorForestClassifier(Domain.from_sizes([2, 2], n_classes=2), ledger=ledger)
    for X, y in (([[0, 2]], [0]), ([[0, 1]], [2]), (np.zeros((0, 2), int), [])):
        with pytest.raises(ValueError, match=r"not in the categories|no records"):
            wrong.fit(X, y)
    assert not ledger.charges


# Edges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1e4, 1e6, INFINITE])
@pytest.mark.parametrize(
    ("sizes", "k"), [([3], 2), ([2, 1, 3], 1), ([1, 5], 3), ([2] * 6, 2), ([4, 3, 2], 5)]
)
def test_every_budget_gives_probabilities(sizes, k, epsilon):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, sizes, size=(60, len(sizes))), rng.integers(0, max(k - 1, 1), size=60)
    most = sum(size > 1 for size in sizes)
    both = ({"n_blocks": most}, {"n_blocks": 1, "n_records": 10**7})
    for settings in both if epsilon in (1e-3, 1e4) else ({"n_records": 1},):
        model = PosteriorForestClassifier(
            Domain.from_sizes(sizes, n_classes=k), epsilon=epsilon, random_state=0, **settings
        )
        shares = model.fit(X, y).predict_proba(X)
        assert shares.shape == (60, k)
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))


def test_a_margin_is_computed_once(car, monkeypatch):
    model = research(car, epsilon=0.3).fit(car.X, car.y)
    codes = car.codes.astype(np.int32)
    odds, shares = model.posterior_.log_odds(codes), model.posterior_.probabilities(codes)
    first, second = np.argsort(-shares, axis=1, kind="stable")[:, :2].T
    variances = model.posterior_.margin_variances(codes, first, second)
    by_odds = np.argsort(-odds, axis=1, kind="stable")[:, :2].T
    differ = (np.sort([first, second], axis=0) != np.sort(by_odds, axis=0)).any(axis=0)
    assert differ.any()  # both ways are taken
    asked = {"log_odds": [], "margin_variances": []}
    for name in asked:
        right = getattr(ProductPosterior, name)

        def counted(self, codes, *classes, right=right, name=name):
            asked[name].append(len(codes))
            return right(self, codes, *classes)

        monkeypatch.setattr(ProductPosterior, name, counted)
    margins, widths, _ = model.vote_intervals(car.X, level=0.9)
    assert asked == {"log_odds": [len(codes)], "margin_variances": [len(codes), differ.sum()]}
    rows = np.arange(len(codes))
    ahead = odds[rows, first] - odds[rows, second]
    np.testing.assert_allclose(margins, np.maximum(ahead, 0))
    np.testing.assert_allclose(widths, norm.ppf(0.95) * np.sqrt(variances) + np.maximum(-ahead, 0))


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
def test_labels_that_averaging_reversed_have_no_margin_and_are_withheld(car, epsilon):
    """Intervals hold those of the log odds, and zero whenever they do or lie below it."""
    model = research(car, epsilon=epsilon).fit(car.X, car.y)
    codes = car.codes.astype(np.int32)
    odds, shares = model.posterior_.log_odds(codes), model.posterior_.probabilities(codes)
    first, second = np.argsort(-shares, axis=1, kind="stable")[:, :2].T
    ahead = odds[np.arange(len(codes)), first] - odds[np.arange(len(codes)), second]
    errors = np.sqrt(model.posterior_.margin_variances(codes, first, second))
    reversed_ = ahead < 0
    assert 0 < reversed_.sum() < len(codes) / 10
    assert (ahead + norm.ppf(0.505) * errors < 0).any()  # at the first level, wholly below zero
    for level in (0.01, 0.5, 0.95):
        half = norm.ppf(0.5 + level / 2) * errors
        margins, widths, above = model.vote_intervals(car.X, level)
        assert margins.min() == 0
        assert (margins - widths <= ahead - half + 1e-12).all()
        assert (margins + above >= ahead + half - 1e-12).all()
        np.testing.assert_allclose(widths[~reversed_], half[~reversed_])
        withheld = model.predict_or_abstain(car.X, level).mask
        np.testing.assert_array_equal(withheld, ahead <= half)
        assert withheld[reversed_].all()


def test_without_noise_a_class_that_none_has_is_never_predicted():
    domain = Domain.from_sizes([3, 2], n_classes=3)
    X = np.array(list(product(range(3), range(2))) * 20)
    model = PosteriorForestClassifier(domain, epsilon=INFINITE).fit(X, 2 * (X[:, 0] > 0))
    np.testing.assert_array_equal(model.predict(X), 2 * (X[:, 0] > 0))
    assert model.predict_proba(X)[:, 1].max() < 0.01


# What it is worth ----------------------------------------------------------------------------


def mean_scores(data, make, seeds):
    domain = Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes)
    scores, majorities = [], []
    for seed in range(seeds):
        train, test, y, test_y = train_test_split(
            data.codes, data.labels, test_size=0.3, random_state=seed
        )
        model = make(domain, len(train), seed).fit(train, y)
        scores.append(model.score(test, test_y))
        majorities.append((test_y == np.bincount(y).argmax()).mean())
    return np.mean(scores), np.mean(majorities)


def ours(epsilon):
    return lambda domain, n, seed: PosteriorForestClassifier(
        domain,
        epsilon=epsilon,
        n_records=n,
        noise="research",
        noise_state=seed,
        random_state=seed,
    )


def naive_bayes(domain, n, seed):
    return PrivateNaiveBayesClassifier(domain, epsilon=1.0, noise="research", noise_state=seed)


@pytest.mark.slow
def test_it_beats_private_naive_bayes_and_the_majority():
    gains = []
    for name in ("car", "tic_tac_toe", "monks_3"):
        data = load_dataset(name)
        score, majority = mean_scores(data, ours(1.0), 5)
        assert score > majority + 0.02, name
        gains.append(score - mean_scores(data, naive_bayes, 5)[0])
    assert np.mean(gains) > 0, gains


def test_skewed_attributes_are_no_worse_than_naive_bayes():
    """Classes that differ in how skewed their attributes are: .66 without normalised shares."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1000)
    rare = rng.choice(3, p=[0.9, 0.05, 0.05], size=(1000, 6))
    X = np.where((y == 0)[:, None], rare, rng.integers(3, size=(1000, 6)))
    for epsilon in (1.0, INFINITE):
        model = PosteriorForestClassifier(
            Domain.from_sizes([3] * 6, n_classes=2),
            epsilon=epsilon,
            noise="research",
            noise_state=0,
            random_state=0,
        )
        assert model.fit(X, y).score(X, y) > 0.9


@pytest.mark.slow
def test_little_budget_costs_no_more_than_a_point_of_the_majority():
    """Of 20 splits: .011 above, with a standard error of .006."""
    score, majority = mean_scores(load_dataset("car"), ours(0.1), 20)
    assert score > majority - 0.01


def test_domains_too_large_to_enumerate_halfway():
    """Thirteen attributes of four codes: their weighted paths once ran out of memory."""
    wine = load_dataset("wine")
    assert prod(wine.domain.sizes) > 10**7
    model = research(wine, epsilon=2.0, n_records=178).fit(wine.X, wine.y)
    assert model.score(wine.X, wine.y) > 0.6


# Plans and searches -------------------------------------------------------------------------------


DATA = load_dataset("monks_1")


SIZES = [3, 2, 4, 2]


def a_plan(domain=None, **changes):
    given = {"epsilon": 1, "n_records": 400, "random_state": 0} | changes
    return plan(domain or Domain.from_sizes(SIZES, n_classes=3), "tables", **given)


CLASSES = {"matrix": MatrixForestClassifier, "tables": PosteriorForestClassifier}


FEW = {"kind": ["matrix"], "max_depth": [1, 2], "n_trees": [4], "strategy": ["identity"]}


def test_flips_of_leaves_follow_the_noise_of_their_own_row():
    made = a_plan()
    last = made.forest.n_leaves - 1
    law, scale = made.parts[0].mechanism.law, made.parts[0].row_factors
    rng = np.random.default_rng(0)
    for row in (0, last):
        noise = law.research((2, 40_000), rng) / scale[row]
        flipped = (noise[0] - noise[1] > 10).mean() + 0.5 * (noise[0] - noise[1] == 10).mean()
        assert made.flip_probabilities(10, rows=[row])[0] == pytest.approx(flipped, abs=0.01)


def test_what_has_no_expected_error_is_refused_by_name():
    made = a_plan()
    for figure in ("rms_per_vote", "vote_variances", "lower_bound", "certified_ratio"):
        with pytest.raises(ValueError, match="tables"):
            getattr(made, figure)
    with pytest.raises(ValueError, match="tables"):
        made.flip_probabilities(share=0.1, of="vote")
    assert "rms_per_vote" not in made.to_dict(bound=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_trees": 3}, "n_trees with kind='tables'"),
        ({"max_features": 2, "strategy": "identity"}, "max_features, strategy"),
        ({"budget_shares": [1]}, "budget_shares"),
        ({"voting": "hard"}, "voting='hard'"),
        ({"allocation": "per_tree"}, "allocation"),
        ({"n_blocks": 0}, "n_blocks=0"),
        ({"n_blocks": 2, "blocks": [[0]]}, "both given"),
        ({"blocks": []}, "blocks=\\[\\]"),
        ({"blocks": "01"}, "blocks='01'"),
        ({"blocks": 3}, "blocks=3"),
        ({"blocks": [[0], []]}, "blocks holds"),
        ({"budget_shares": np.array([0.5, 0.5])}, "budget_shares"),
        ({"n_records": 0}, "n_records=0"),
        ({"blocks": ["01"]}, "blocks holds '01'"),
        ({"blocks": [[0], [0, 1]]}, "one block only"),
        ({"blocks": [[9]]}, "attribute 9"),
    ],
)
def test_parameters_that_do_not_fit_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        a_plan(**given)


def test_the_accuracy_objective_counts_right_labels():
    made, goal = a_plan(epsilon=20, n_records=4000), ExpectedLoss(n_targets=8)
    drowned = goal(a_plan(epsilon=0.001, n_records=4000))
    assert goal(made) < 0.35 < drowned < 1
    assert goal(made) == goal(made)


def test_a_search_tries_forests_of_both_kinds():
    domain = Domain.from_sizes([2, 2, 3], n_classes=2)
    options = {"epsilon": 1, "n_records": 300, "objective_options": {"n_targets": 3}}
    spaces = [FEW, {"kind": ["tables"], "n_blocks": ["auto", 3]}]
    found = tune(domain, space=spaces, **options)
    assert len(found.trials) == 4
    columns = list(found.to_frame().columns)
    assert {"kind", "max_depth", "n_blocks"} < set(columns[: columns.index("value")])
    first = tune(domain, space=[{"kind": ["tables"], "n_blocks": [3]}], **options)
    assert first.kind == "tables"
    assert np.isnan(first.best.rms_per_vote)
    assert json.loads(json.dumps(first.to_dict()))["best_params"]["n_blocks"] == 3
    model = from_design(first, noise="research", noise_state=0)
    assert isinstance(model, PosteriorForestClassifier)
    assert (model.n_blocks, model.n_records, model.epsilon) == (3, 300, 1)
    front = found.pareto("value", "rms_per_vote")
    assert front
    assert {found.kind_of(trial) for trial in front} == {"matrix"}
    for trial in found.trials:
        made = from_design(found, trial)
        assert isinstance(made, CLASSES[found.kind_of(trial)])
        assert (
            trial.design.items()
            >= {name: getattr(made, name) for name in trial.design if name != "kind"}.items()
        )
    codes = np.random.default_rng(0).integers(0, 2, size=(60, 3))
    model.fit(codes, codes[:, 0])
    seed = {"random_state": found.request["random_state"]}
    assert model.forest_ == plan(domain, "tables", epsilon=1, n_blocks=3, **seed).forest


@pytest.mark.parametrize("objective", ["flip", "error", "bound"])
def test_objectives_of_votes_refuse_what_multiplies(objective):
    found = tune(DATA.domain, epsilon=1, n_records=300, objective=objective, kind="tables")
    assert found.trials[0].value == float("inf")
    assert "votes by product" in found.trials[0].note


def test_a_plan_hands_its_blocks_to_the_classifier():
    made = a_plan(DATA.domain, n_blocks=2, neighboring="replace_one")
    model = from_design(made)
    assert model.blocks == [list(block) for block in made.parts[0].blocks]
    assert (model.neighboring, model.epsilon) == ("replace_one", 1)


def test_blocks_by_name_are_those_by_position():
    names = DATA.domain.names
    by_name = a_plan(DATA.domain, blocks=[[names[2], names[0]], [names[1]]])
    assert by_name.parts[0].blocks == ((0, 2), (1,))
    assert by_name.forest == a_plan(DATA.domain, blocks=[[0, 2], [1]]).forest


# Naive Bayes: scikit-learn's without noise, equal shares of the budget with it --------------------


def fitted(domain, codes, labels, **settings):
    sizes = Domain.from_sizes(domain.sizes, n_classes=domain.n_classes)
    return PrivateNaiveBayesClassifier(sizes, **settings).fit(codes, labels)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    k=st.integers(1, 4),
    n=st.integers(1, 40),
    seed=st.integers(0, 2**31),
)
def test_without_noise_it_is_categorical_nb(sizes, k, n, seed):
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes(sizes, n_classes=k)
    X, y = rng.integers(0, sizes, size=(n, len(sizes))), rng.integers(0, k, size=n)
    queries = rng.integers(0, sizes, size=(20, len(sizes)))
    ours = fitted(domain, X, y, epsilon=INFINITE)
    theirs = CategoricalNB(alpha=1.0, min_categories=sizes).fit(X, y)  # of the classes it met
    shares = np.zeros((20, k))
    shares[:, theirs.classes_] = theirs.predict_proba(queries)
    np.testing.assert_allclose(ours.predict_proba(queries), shares, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(("neighboring", "factor"), [("add_remove", 1), ("replace_one", 2)])
def test_every_marginal_has_an_equal_share(car, neighboring, factor):
    epsilon = Fraction(1, 2)
    model = PrivateNaiveBayesClassifier(car.domain, epsilon=epsilon, neighboring=neighboring)
    release = model.fit(car.X, car.y).release_
    assert release.mechanism.rounded.column_sum == 7  # six attributes, and the class totals
    assert release.sensitivity == 7 * factor
    assert release.noise_scale == factor * 7 / epsilon
    assert release.is_private
    assert "Private release" in model.privacy_report_.statement


def test_leaves_are_the_marginals(car):
    model = fitted(car.domain, car.codes, car.labels, epsilon=INFINITE)
    row = 0
    for i, size in enumerate(car.domain.sizes):
        for code in range(size):
            expected = np.bincount(car.labels[car.codes[:, i] == code], minlength=4)
            np.testing.assert_array_equal(model.leaf_values_[row], expected)
            row += 1
    np.testing.assert_array_equal(model.leaf_values_[row:], [np.bincount(car.labels)])


def test_noise_has_the_variance_that_is_reported(car):
    exact = fitted(car.domain, car.codes, car.labels, epsilon=INFINITE).leaf_values_
    errors = []
    for seed in range(300):
        model = fitted(
            car.domain, car.codes, car.labels, epsilon=0.5, noise="research", noise_state=seed
        )
        errors.append(model.leaf_values_ - exact)
    found = np.mean(np.square(errors))
    assert found == pytest.approx(model.privacy_report_.expected_rms_per_leaf**2, rel=0.03)
    assert abs(np.mean(errors)) < 4 * np.sqrt(found / np.size(errors))


def test_posteriors_are_the_product_of_the_leaves(car):
    model = fitted(car.domain, car.codes, car.labels, epsilon=0.2, noise="research", noise_state=3)
    assert (model.leaf_values_ < 0).any()  # noise that has to be clipped
    shares = model.predict_proba(car.codes[:50])
    np.testing.assert_allclose(shares, [by_hand(model, car, x) for x in car.codes[:50]], rtol=1e-9)
    np.testing.assert_array_equal(model.predict(car.codes[:50]), shares.argmax(axis=1))


def by_hand(model, car, record):
    """Return a record's posterior by the textbook, one class at a time."""
    values, posterior = np.maximum(model.leaf_values_, 0.0), []
    for label in range(4):
        start, product = 0, max(values[-1, label], 0.5)
        for size, code in zip(car.domain.sizes, record, strict=True):
            counts = values[start : start + size, label] + 1.0
            product *= counts[code] / counts.sum()
            start += size
        posterior.append(product)
    return np.array(posterior) / sum(posterior)


def test_a_domain_of_more_cells_than_can_be_counted():
    rng = np.random.default_rng(0)
    domain = Domain.from_sizes([2] * 150, n_classes=2)
    X = rng.integers(0, 2, size=(400, 150))
    X[:, 0], y = X[:, 1], X[:, 1]
    model = fitted(domain, X, y, epsilon=INFINITE)
    assert model.score(X, y) > 0.8
    assert model.release_.sensitivity == 151


@pytest.mark.parametrize(("sizes", "trees", "leaves"), [([1, 3, 1], 2, 4), ([1], 1, 1)])
def test_attributes_of_one_code_are_left_out(sizes, trees, leaves):
    zeros = np.zeros((4, len(sizes)), dtype=int)
    model = PrivateNaiveBayesClassifier(Domain.from_sizes(sizes, n_classes=2))
    forest = model.fit(zeros, [0, 0, 1, 1]).forest_
    assert (forest.n_trees, forest.n_leaves) == (trees, leaves)


@pytest.mark.parametrize(("epsilon", "is_certain"), [(INFINITE, True), (100, False)])
def test_a_class_without_records_is_never_chosen_without_noise(epsilon, is_certain):
    """With noise its total is taken for half a record at least."""
    model = fitted(
        Domain.from_sizes([2], n_classes=2), np.array([[0], [1]] * 20), np.zeros(40, dtype=int),
        epsilon=epsilon,
    )  # fmt: skip
    shares = model.predict_proba([[0], [1]])[:, 1]
    assert (shares == 0).all() == is_certain
    assert shares.max() < 0.05
