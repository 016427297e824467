"""The published forests of several parties: what they learn, and that they say what they are."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier

from mrf_matrix import FederatedForestClassifier, path_matrix, plan
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.forests import LearnedStructureError

SMALL = FederatedForestClassifier(n_clients=4, n_trees=12, random_state=0)
MODES = ["collaborative", "ncff", "central"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:900]], y[order[:900]], X[order[900:]], y[order[900:]]


def test_it_says_that_it_is_not_private_wherever_it_prints():
    fitted = clone(SMALL).fit(*load_iris(return_X_y=True))
    for text in (repr(SMALL), str(fitted)):
        assert text.endswith("# not private")
    assert fitted.statement_.startswith("NOT A PRIVATE RELEASE")
    assert "**not private**" in FederatedForestClassifier.__doc__
    assert "not private" in FederatedForestClassifier.fit.__doc__
    assert "not private" in SMALL._repr_html_()


@pytest.mark.slow
def test_collaboration_beats_separate_trees_where_parties_know_few_classes(digits):
    X, y, X_test, y_test = digits
    model = FederatedForestClassifier(n_trees=20, chunks=2)
    scores = np.array(
        [
            [
                clone(model)
                .set_params(mode=mode, random_state=seed)
                .fit(X, y)
                .score(X_test, y_test)
                for mode in MODES
            ]
            for seed in range(2)
        ]
    )
    collaborative, ncff, central = scores.mean(axis=0)
    assert central > collaborative > ncff + 0.05
    known = RandomForestClassifier(20, criterion="entropy", random_state=0).fit(X, y)
    assert abs(central - known.score(X_test, y_test)) < 0.02


@pytest.mark.parametrize("mode", MODES)
def test_probabilities_are_averages_over_the_trees(mode):
    X, y = load_iris(return_X_y=True)
    model = clone(SMALL).set_params(mode=mode).fit(X, y)
    leaves = model.forest_.apply(model._codes(X))
    vectors = model.leaf_values_[leaves].mean(axis=1)
    vectors /= vectors.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), vectors)
    np.testing.assert_array_equal(model.predict(X), vectors.argmax(axis=1))
    assert model.forest_.n_trees == 12
    assert model.score(X, y) > 0.9
    again = clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_given_parties_and_trees_of_each():
    X, y = load_iris(return_X_y=True)
    hospital = np.array(["b", "a", "c"])[np.arange(len(X)) % 3]
    model = clone(SMALL).set_params(mode="ncff", trees_per_client=7).fit(X, y, clients=hospital)
    assert model.forest_.n_trees == 21
    np.testing.assert_array_equal(model.clients_, np.array([1, 0, 2])[np.arange(len(X)) % 3])
    one = clone(SMALL).fit(X, y, clients=np.zeros(len(X)))
    central = clone(SMALL).set_params(mode="central").fit(X, y, clients=np.zeros(len(X)))
    np.testing.assert_array_equal(
        one.forest_.apply(one._codes(X)), central.forest_.apply(central._codes(X))
    )


def test_ties_go_to_the_first_class_and_classes_are_sorted():
    domain = Domain([Attribute("x", size=2)], Attribute("y", categories=["z", "a"]))
    X, y = np.array([[0], [0], [1], [1]]), np.array(["z", "a", "z", "a"])
    model = FederatedForestClassifier(domain, n_trees=4).fit(X, y, clients=[0, 0, 1, 1])
    assert model.classes_.tolist() == ["a", "z"]
    assert model.predict(X).tolist() == ["a"] * 4
    assert model.fit(X, np.array(["z", "z", "z", "a"])).predict(X[:1]) == ["z"]


def test_its_trees_serve_the_engine_but_no_private_plan():
    rng = np.random.default_rng(0)
    domain = Domain.from_sizes([4, 3, 2], 2)
    codes = np.stack([rng.integers(0, size, 200) for size in domain.sizes], axis=1)
    labels = (codes[:, 0] > 1) ^ (codes[:, 2] > 0)
    model = clone(SMALL).set_params(domain=domain).fit(codes, labels.astype(int))
    cells = np.ravel_multi_index(tuple(codes.T), domain.sizes) * 2 + labels
    table = np.bincount(cells, minlength=2 * domain.size).reshape(-1, 2)
    expected = leaf_counts(model.forest_, codes, labels.astype(int), 2)
    np.testing.assert_array_equal(path_matrix(model.forest_) @ table, expected)
    with pytest.raises(LearnedStructureError, match="without a budget"):
        plan(domain, forest=model.forest_, epsilon=1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mode": "federated"}, "mode='federated'"),
        ({"aggregate": "median"}, "aggregate='median'"),
        ({"shuffle": "records"}, "shuffle='records'"),
        ({"n_clients": 0}, "n_clients=0"),
        ({"chunks": 0}, "chunks=0"),
        ({"n_passes": 0}, "n_passes=0"),
        ({"min_points": 0}, "min_points=0"),
        ({"mode": "ncff", "trees_per_client": 0}, "trees_per_party=0"),
    ],
)
def test_wrong_parameters_are_refused_by_name(wrong, words):
    with pytest.raises((TypeError, ValueError), match=words):
        clone(SMALL).set_params(**wrong).fit(*load_iris(return_X_y=True))


def test_parties_of_another_number_of_records_are_refused():
    with pytest.raises(ValueError, match="clients has the wrong shape"):
        clone(SMALL).fit(*load_iris(return_X_y=True), clients=[0, 1])
