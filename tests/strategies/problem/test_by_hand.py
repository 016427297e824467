"""A strategy's matrices in one's hands: A, AᵀA, A⁺, W A⁺, and what their norms say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import strategies
from mrf_matrix import ZCDP, RandomTrees, load_dataset, measure, path_matrix, reconstruct
from mrf_matrix.mechanisms import count_cells
from strategies.operators import (
    Identity,
    Kronecker,
    Marginals,
    MemoryCapError,
    PrefixSums,
    RowSpaceError,
    Stack,
    memory_cap,
)

RANDOM = np.random.default_rng(0)
WORKLOADS = {
    "prefix sums": np.tri(6),
    "random rows": RANDOM.normal(size=(9, 5)),
    "few rows": RANDOM.normal(size=(2, 5)),
    "marginals": Marginals((2, 3), [(0,), (1,)], [1, 2]),
    "tables": Stack(
        [Kronecker([PrefixSums(3), Identity(4)]), Kronecker([Identity(3), PrefixSums(4)])]
    ),
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_matrices_are_those_of_numpy(name, norm):
    W = WORKLOADS[name]
    found = strategies.select(W, norm, time_limit=0.2, random_state=0)
    A, entries = np.asarray(found.matrix), np.asarray(W)
    assert_allclose(np.asarray(found.gram), A.T @ A, atol=1e-9)
    back = np.asarray(found.reconstruction(W))
    assert_allclose(back @ A, entries, atol=1e-7)
    assert_allclose(entries @ np.asarray(found.pinv), back, atol=1e-7)
    assert found.error == pytest.approx((back**2).sum(), rel=1e-7)
    assert found.loss == pytest.approx(found.sensitivity**2 * found.error)
    assert_allclose(found.row_errors(W), found.sensitivity**2 * (back**2).sum(axis=1), rtol=1e-6)
    assert f"{found.error:.6g}" in str(found)


def test_the_pseudo_inverse_is_that_of_least_norm():
    found = strategies.evaluate(WORKLOADS["few rows"])
    assert_allclose(np.asarray(found.pinv), np.linalg.pinv(WORKLOADS["few rows"]), atol=1e-12)


def test_a_matrix_alone_is_its_own_workload():
    one, both = strategies.evaluate(np.tri(5)), strategies.evaluate(np.tri(5), np.tri(5))
    assert (one.loss, one.error) == (both.loss, both.error)


def test_what_is_not_determined_or_too_large_is_refused():
    found = strategies.evaluate(np.eye(3)[:2])
    with pytest.raises(RowSpaceError):
        found.reconstruction(np.ones((1, 3)))
    large = strategies.evaluate(Identity(3000))
    with memory_cap(10**6):
        for refused in (
            lambda: large.pinv,
            lambda: large.gram,
            lambda: large.reconstruction(Identity(3000)),
        ):
            with pytest.raises(MemoryCapError):
                refused()


def test_a_release_is_taken_back_step_by_step():
    """``W A⁺ y`` by hand is what `reconstruct` gives, and ``A D`` is what is measured."""
    car = load_dataset("car")
    T = path_matrix(RandomTrees(n_trees=4, max_depth=2).grow(car.domain, random_state=0))
    A = strategies.select(T, "l2", random_state=0)
    labels = car.domain.encode_target(car.y)
    counts = count_cells(car.codes, labels, car.domain.sizes, car.domain.n_classes)
    release = measure(A, counts, ZCDP(1), noise="research", random_state=0)
    y = release.values
    assert_allclose(np.asarray(A.reconstruction(T)) @ y, reconstruct(release, T), atol=1e-6)
    assert_allclose(np.asarray(T @ A.pinv), np.asarray(A.reconstruction(T)), atol=1e-9)
