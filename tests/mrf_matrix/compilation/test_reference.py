"""The papers' own forests, reloaded: their figures come out to the last unit."""

import json

import numpy as np
import pytest

from mrf_matrix.compilation import (
    path_matrix,
    path_matrix_from_codes,
    prediction_workload,
    query_matrix,
)
from mrf_matrix.domain import Domain
from mrf_matrix.forests import forest_from_paths

ENSEMBLES = [
    *[(name, 0) for name in ("car", "balance", "iris")],
    *[("heart", i) for i in range(2)],
    *[("mushroom", i) for i in range(5)],
]


@pytest.fixture(scope="module", params=ENSEMBLES, ids=lambda e: f"{e[0]}-{e[1]}")
def ensemble(request, shared_dir):
    name, number = request.param
    folder = shared_dir / "workloads"
    figures = json.loads((folder / "reference.json").read_text())[name]["ensemble_workloads"]
    arrays = np.load(folder / f"{name}_seed0.npz")
    end = figures[number]["suffix"]
    domain = Domain.from_sizes(arrays["domain" + end].tolist())
    forest = forest_from_paths(arrays["paths" + end], arrays["tree_id" + end], domain)
    return forest, {key: arrays[key + end] for key in ("paths", "tree_id", "Q")}, figures[number]


def test_the_rebuilt_forest_has_the_published_paths(ensemble):
    forest, arrays, figures = ensemble
    assert forest.domain.size == figures["cells"]
    assert forest.n_leaves == figures["training"]["rows"]
    published = np.lexsort((*arrays["paths"].T, arrays["tree_id"]))
    mine = forest.paths()
    order = np.lexsort((*mine.T, forest.leaf_tree))
    assert np.array_equal(mine[order], arrays["paths"][published])


def test_identity_loss_of_training(ensemble):
    """With A = I the loss is ||T||_F^2: the ones of T."""
    forest, arrays, figures = ensemble
    T = path_matrix_from_codes(arrays["paths"], forest.domain, arrays["tree_id"])
    assert T.row_sums().sum() == figures["training"]["identity"]
    assert path_matrix(forest).row_sums().sum() == figures["training"]["identity"]


def test_noise_on_every_row_of_the_workload(ensemble):
    """Laplace noise on every answer, nothing averaged: sensitivity squared times the rows."""
    forest, arrays, figures = ensemble
    T = path_matrix(forest)
    assert T.sensitivity("l1") ** 2 * T.shape[0] == figures["training"]["laplace"]
    W = prediction_workload(T, query_matrix(arrays["Q"], forest.domain))
    assert W.sensitivity("l1") ** 2 * W.shape[0] == figures["prediction"]["laplace"]


def test_identity_loss_of_prediction(ensemble):
    forest, arrays, figures = ensemble
    W = prediction_workload(path_matrix(forest), query_matrix(arrays["Q"], forest.domain))
    assert W.shape == (figures["prediction"]["rows"], figures["cells"])
    assert (W.to_dense() ** 2).sum() == figures["prediction"]["identity"]
