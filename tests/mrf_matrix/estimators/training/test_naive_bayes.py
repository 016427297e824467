"""Private naive Bayes: scikit-learn's without noise, equal shares of the budget with it."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.naive_bayes import CategoricalNB

from mrf_matrix import Attribute, Domain, PrivacyLedger, load_dataset
from mrf_matrix.estimators import PrivateNaiveBayesClassifier
from mrf_matrix.mechanisms import BudgetError
from mrf_matrix.voting.evidence import naive_bayes_forest, naive_bayes_leaf_logs

INFINITE = float("inf")


@pytest.fixture(scope="module")
def car():
    return load_dataset("car")


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


def test_without_noise_it_is_categorical_nb_on_real_data(car):
    ours = fitted(car.domain, car.codes, car.labels, epsilon=INFINITE)
    theirs = CategoricalNB(min_categories=list(car.domain.sizes)).fit(car.codes, car.labels)
    np.testing.assert_array_equal(ours.predict(car.codes), theirs.predict(car.codes))


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


def test_zcdp_adds_up_in_squares(car):
    model = PrivateNaiveBayesClassifier(car.domain, epsilon=None, rho=0.5)
    assert model.fit(car.X, car.y).release_.sensitivity == pytest.approx(7**0.5)


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


def test_classes_are_sorted_whatever_their_order_in_the_domain():
    domain = Domain([Attribute("x", size=2)], target=Attribute("y", categories=["no", "maybe"]))
    X, y = [[0]] * 3 + [[1]] * 2, ["no"] * 3 + ["maybe"] * 2
    model = PrivateNaiveBayesClassifier(domain, epsilon=INFINITE).fit(X, y)
    assert list(model.classes_) == ["maybe", "no"]
    assert list(model.predict([[0], [1]])) == ["no", "maybe"]


def test_a_domain_of_more_cells_than_can_be_counted():
    rng = np.random.default_rng(0)
    domain = Domain.from_sizes([2] * 150, n_classes=2)
    X = rng.integers(0, 2, size=(400, 150))
    X[:, 0], y = X[:, 1], X[:, 1]
    model = fitted(domain, X, y, epsilon=INFINITE)
    assert model.score(X, y) > 0.8
    assert model.release_.sensitivity == 151


def test_attributes_of_one_code_are_left_out():
    forest = naive_bayes_forest(Domain.from_sizes([1, 3, 1]))
    assert (forest.n_trees, forest.n_leaves) == (2, 4)
    assert naive_bayes_forest(Domain.from_sizes([1])).n_leaves == 1


def test_a_class_without_records_is_never_chosen_without_noise():
    forest = naive_bayes_forest(Domain.from_sizes([2]))
    values = np.array([[1.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    logs = naive_bayes_leaf_logs(forest, values, alpha=1.0, floor=0.0)
    assert np.isneginf(logs[-1, 1])
    kept = naive_bayes_leaf_logs(forest, values, alpha=1.0, floor=0.5)
    assert kept[-1, 1] == np.log(0.5)


def test_every_fit_is_charged_and_the_overdraft_refused(car):
    ledger = PrivacyLedger(epsilon=1.0)
    model = PrivateNaiveBayesClassifier(car.domain, epsilon=0.75, ledger=ledger)
    model.fit(car.X, car.y)
    assert ledger.spent == Fraction(3, 4)
    with pytest.raises(BudgetError):
        clone(model).fit(car.X, car.y)
    assert ledger.spent == Fraction(3, 4)


def test_research_noise_is_reproducible_and_says_so(car):
    made = [
        fitted(car.domain, car.codes, car.labels, noise="research", noise_state=5) for _ in range(2)
    ]
    np.testing.assert_array_equal(made[0].leaf_values_, made[1].leaf_values_)
    assert "NOT A PRIVATE RELEASE" in made[0].privacy_report_.statement


def test_a_fitted_model_holds_no_records(car):
    model = PrivateNaiveBayesClassifier(car.domain, epsilon=1.0).fit(car.X, car.y)
    again = pickle.loads(pickle.dumps(model))  # private counts refuse to be pickled
    np.testing.assert_array_equal(again.predict(car.X), model.predict(car.X))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0}, "alpha=0"),
        ({"alpha": True}, "alpha=True"),
        ({"alpha": INFINITE}, "alpha=inf"),
        ({"noise_state": 1}, "noise_state was given with noise='exact'"),
        ({"noise": "none"}, "noise='none'"),
        ({"epsilon": -1}, "epsilon"),
        ({"domain": None}, "domain=None"),
        ({"neighboring": "any"}, "neighboring"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_spent(car, changes, message):
    ledger = PrivacyLedger(epsilon=1.0)
    model = PrivateNaiveBayesClassifier(car.domain, ledger=ledger).set_params(**changes)
    with pytest.raises(ValueError, match=message):
        model.fit(car.X, car.y)
    assert ledger.spent == 0
