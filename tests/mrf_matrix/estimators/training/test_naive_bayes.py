"""Private naive Bayes: scikit-learn's without noise, equal shares of the budget with it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import CategoricalNB

from mrf_matrix import Domain, load_dataset
from mrf_matrix.estimators import PrivateNaiveBayesClassifier

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
    for seed in range(120):
        model = fitted(
            car.domain, car.codes, car.labels, epsilon=0.5, noise="research", noise_state=seed
        )
        errors.append(model.leaf_values_ - exact)
    found = np.mean(np.square(errors))
    assert found == pytest.approx(model.privacy_report_.expected_rms_per_leaf**2, rel=0.05)
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
