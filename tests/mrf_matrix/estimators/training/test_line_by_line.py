"""Training by hand, a line a step: the same numbers as the classifier's, bit by bit."""

import numpy as np
import pytest

import strategies
from mrf_matrix import (
    ZCDP,
    MatrixForestClassifier,
    PureDP,
    RandomTrees,
    count_stream,
    expected_error,
    load_dataset,
    measure,
    path_matrix,
    prediction_workload,
    query_matrix,
    reconstruct,
)
from mrf_matrix.compilation import leaf_incidence
from mrf_matrix.error import direct_error
from mrf_matrix.mechanisms import row_variances
from mrf_matrix.voting import leaf_votes
from strategies.operators import Identity

CAR = load_dataset("car")
FOREST = RandomTrees(n_trees=8, max_depth=2).grow(CAR.domain, random_state=0)
T = path_matrix(FOREST)
Q = query_matrix(CAR.codes, CAR.domain)
D = count_stream([(CAR.X, CAR.y)], CAR.domain)
SORTED = np.argsort(CAR.domain.classes)  # classifiers sort their classes
NORMS = {PureDP: "l1", ZCDP: "l2"}


@pytest.mark.parametrize("voting", ["hard", "weight"])
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5), PureDP(float("inf"))], ids=repr)
def test_every_step_is_the_classifier_s(budget, voting):
    A = strategies.select(T, NORMS[type(budget)], method="workload_itself")
    y = measure(A, D, budget, noise="research", random_state=3)
    C = reconstruct(y, T)[:, SORTED]
    V = leaf_incidence(T, Q) @ leaf_votes(C, voting)
    labels = np.sort(CAR.domain.classes)[V.argmax(axis=1)]

    claim = {budget.parameter: budget.exact if not budget.is_infinite else float("inf")}
    model = MatrixForestClassifier(
        CAR.domain, **claim, forest=FOREST, strategy=A, voting=voting,
        noise="research", noise_state=3,
    ).fit(CAR.X, CAR.y)  # fmt: skip
    assert np.array_equal(model.release_.answers, y.answers)
    assert np.array_equal(model.leaf_values_, C)
    assert np.array_equal(model.model_.votes(CAR.codes), V)
    assert np.array_equal(model.predict(CAR.X), labels)
    # integers are measured, so that A itself takes answers back to a millionth of a record
    for found in (A.reconstruction(T) @ y.values, T @ (A.pinv @ y.values)):
        np.testing.assert_allclose(found[:, SORTED], C, atol=1e-4)
    assert budget.is_infinite == (y.noise == "none")
    assert str(y).startswith("NOT A PRIVATE RELEASE")


def test_another_seed_is_another_forest():
    A = strategies.select(T, method="identity")
    one, other = (measure(A, D, PureDP(1), noise="research", random_state=i) for i in (0, 1))
    assert not np.array_equal(reconstruct(one, T), reconstruct(other, T))


def test_several_ensembles_are_measured_one_after_the_other():
    model = MatrixForestClassifier(
        CAR.domain, epsilon=1, n_trees=6, max_depth=2, n_ensembles=2, max_features=3,
        strategy="identity", random_state=0, noise="research", noise_state=3,
    ).fit(CAR.X, CAR.y)  # fmt: skip
    stream = np.random.default_rng(3)
    for one in model.ensembles_:
        counts = D.marginal(one.features)
        y = measure(one.strategy, counts, PureDP(0.5), noise="research", random_state=stream)
        leaves = reconstruct(y, path_matrix(one.forest))
        assert np.array_equal(leaves, one.leaf_values)


@pytest.mark.parametrize(
    "W", [T, prediction_workload(T, Q[:20]), Identity(CAR.domain.size)],
    ids=["leaves", "queries", "cells"],
)  # fmt: skip
def test_one_call_gives_the_errors_of_leaves_queries_or_cells(W):
    A = strategies.evaluate(W, Identity(CAR.domain.size))
    known = expected_error(A, W, epsilon=1).row_variances
    y = measure(A, D, PureDP(1), noise="research", random_state=0)
    np.testing.assert_allclose(row_variances(y, W), known)
    np.testing.assert_allclose(A.row_errors(W) * y.variance, known)  # of sensitivity 1
    assert len(known) == W.shape[0]
    assert direct_error(W, epsilon=1).row_variances.shape == known.shape
