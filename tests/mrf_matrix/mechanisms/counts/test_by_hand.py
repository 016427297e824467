"""``A @ counts`` is private, whatever A is."""

import pickle

import numpy as np
import pytest

import strategies
from mrf_matrix import RandomTrees, load_dataset, path_matrix
from mrf_matrix.mechanisms import LeafCounts, PrivateDataError, count_cells
from strategies.operators import Dense, Identity

CAR = load_dataset("car")
LABELS = CAR.domain.encode_target(CAR.y)
COUNTS = count_cells(CAR.codes, LABELS, CAR.domain.sizes, CAR.domain.n_classes)
T = path_matrix(RandomTrees(n_trees=2, max_depth=2).grow(CAR.domain, random_state=0))
LEAVES = LeafCounts(T, COUNTS.answers(T))


@pytest.mark.parametrize(
    "answers",
    [
        lambda: T @ COUNTS,
        lambda: T @ LEAVES,
        lambda: strategies.evaluate(T) @ COUNTS,
        lambda: np.ones((3, 1728)) @ COUNTS,
        lambda: Dense(np.full((3, 1728), 0.5)) @ COUNTS,
        lambda: 0.5 * Identity(1728) @ COUNTS,
    ],
)  # fmt: skip
def test_answers_without_noise_show_nothing(answers):
    made = answers()
    assert (
        str(made)
        == repr(made)
        == f"PrivateAnswers({made.shape[0]} x 4, private: "
        + ("measure(A, counts, budget) releases them)")
    )
    for leak in (lambda: pickle.dumps(made), lambda: float(made), lambda: made[0]):
        with pytest.raises((PrivateDataError, TypeError)):
            leak()
    assert np.asarray(made).dtype == object


def test_other_cells_are_refused():
    with pytest.raises(ValueError, match="columns"):
        np.eye(5) @ COUNTS
