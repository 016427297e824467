"""Singular values where divide and conquer does not converge."""

import numpy as np
import pytest
from scipy import linalg

from mrf_matrix import Domain, RandomTrees, path_matrix
from strategies import select
from strategies.operators.base import recovery as pseudo_inverse
from strategies.operators.base.qr import minimum_norm, singular_values

RNG = np.random.default_rng(4)
MATRICES = {
    "tall": RNG.normal(size=(7, 4)),
    "wide": RNG.normal(size=(3, 6)),
    "deficient": np.kron(np.eye(3), np.ones((2, 2))),
    "zeros": np.zeros((3, 2)),
    "tiny": 1e-200 * RNG.normal(size=(4, 4)),
}


@pytest.fixture
def no_divide_and_conquer(monkeypatch):
    """Let the fast drivers fail as LAPACK does; return how often they were asked."""
    asked = []

    def failing(fast, driver):
        def call(*arguments, lapack_driver=driver, **named):
            if lapack_driver == driver:
                asked.append(driver)
                raise linalg.LinAlgError("SVD did not converge")
            return fast(*arguments, lapack_driver=lapack_driver, **named)

        return call

    monkeypatch.setattr(linalg, "svd", failing(linalg.svd, "gesdd"))
    monkeypatch.setattr(linalg, "lstsq", failing(linalg.lstsq, "gelsd"))
    return asked


@pytest.mark.parametrize("name", MATRICES)
def test_the_slow_route_agrees(name, no_divide_and_conquer):
    matrix = MATRICES[name]
    values, right = singular_values(matrix)
    expected = np.linalg.svd(matrix, compute_uv=False)
    scale = expected[0] or 1.0
    np.testing.assert_allclose(values / scale, expected / scale, atol=1e-12)
    np.testing.assert_allclose(right @ right.T, np.eye(len(values)), atol=1e-12)
    answers = matrix @ RNG.normal(size=matrix.shape[1])
    solved = minimum_norm(matrix, answers, 1e-12)
    np.testing.assert_allclose(solved, np.linalg.pinv(matrix, rcond=1e-12) @ answers, atol=1e-9)
    assert no_divide_and_conquer == ["gesdd", "gelsd"]


def test_marginals_survive_a_failure(no_divide_and_conquer, monkeypatch):
    """Marginals without full rank: their loss is computed again from singular values.

    Whether the Gram shows a clear gap depends on rounding, so it is told to show none.
    """
    monkeypatch.setattr(pseudo_inverse, "from_gram", lambda gram: None)
    domain = Domain.from_sizes([4, 4, 4])
    forest = RandomTrees(n_trees=2, max_depth=2, splits="binary").grow(domain, random_state=0)
    found = select(path_matrix(forest), norm="l1", method="marginals")
    assert no_divide_and_conquer
    assert 0 < found.lower_bound <= found.loss * (1 + 1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_named(bad):
    for call in (singular_values, lambda matrix: minimum_norm(matrix, np.ones(2))):
        with pytest.raises(ValueError, match="NaN or infinity"):
            call(np.array([[1.0, bad], [0.0, 1.0]]))
