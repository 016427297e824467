"""Matrices behave as NumPy and SciPy lead to expect, singular values that do not converge too."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg, sparse
from scipy.sparse.linalg import aslinearoperator

import strategies.operators as ops
from mrf_matrix import Attribute, Domain, RandomTrees, path_matrix
from strategies import select
from strategies.operators import MemoryCapError, memory_cap
from strategies.operators.base import recovery as pseudo_inverse
from strategies.operators.base.qr import minimum_norm, singular_values
from tests.strategies.operators.test_laws import CASES, Case

RANDOM = np.random.default_rng(0)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def test_forms_are_the_entries_for_numpy_and_scipy(case: Case) -> None:
    matrix, entries = case.operator, case.twin
    assert_allclose(np.asarray(matrix), entries, atol=1e-12)
    assert_allclose(np.asarray(matrix, dtype=np.float32), entries, rtol=1e-6, atol=1e-6)
    assert_allclose(matrix.toarray(), entries, atol=1e-12)
    assert_allclose(matrix.tocsr().toarray(), entries, atol=1e-12)
    assert matrix.nnz == np.count_nonzero(np.asarray(matrix))
    assert (len(matrix), matrix.ndim, matrix.dtype) == (len(entries), 2, np.float64)
    assert np.linalg.norm(matrix) == pytest.approx(np.linalg.norm(entries), abs=1e-12)
    taken, right = aslinearoperator(matrix), RANDOM.normal(size=entries.shape[1])
    assert_allclose(taken.matvec(right), entries @ right, atol=1e-9)
    left = RANDOM.normal(size=len(entries))
    assert_allclose(taken.rmatvec(left), entries.T @ left, atol=1e-9)


def test_rows_and_cells_are_taken(case: Case) -> None:
    matrix, entries = case.operator, case.twin
    m, n = entries.shape
    mask = RANDOM.random(m) < 0.5
    for rows in (slice(1, None, 2), [0, m - 1, 0], [-1], mask, np.arange(m)[::-1]):
        assert_allclose(np.asarray(matrix[rows]), entries[rows], atol=1e-12)
        assert_allclose(
            np.asarray(matrix[rows, [n - 1, 0]]), entries[rows][:, [n - 1, 0]], atol=1e-12
        )
    assert_allclose(matrix[-1], entries[-1], atol=1e-12)
    assert_allclose(matrix[:, 0], entries[:, 0], atol=1e-12)
    assert_allclose(np.asarray(matrix[:, : n // 2]), entries[:, : n // 2], atol=1e-12)
    assert matrix[m - 1, n - 1] == pytest.approx(entries[-1, -1], abs=1e-12)
    assert_allclose(list(matrix), entries, atol=1e-12)
    for key in (m, [0, -m - 1], (0, n), np.ones(m + 1, bool), 0.5, (0, 0, 0)):
        with pytest.raises(IndexError):
            matrix[key]


def test_multiples_and_sums(case: Case) -> None:
    matrix, entries = case.operator, case.twin
    other = RANDOM.normal(size=entries.shape)
    for made, expected in (
        (2 * matrix, 2 * entries),
        (matrix * np.float64(0.5), 0.5 * entries),
        (matrix / 4, entries / 4),
        (-matrix, -entries),
        (matrix + matrix, 2 * entries),
        (matrix + other, entries + other),
        (other - matrix, other - entries),
        (matrix - ops.Dense(other), entries - other),
        (sparse.csr_array(other) + matrix, entries + other),
    ):
        assert_allclose(np.asarray(made), expected, atol=1e-12)
    with pytest.raises(ValueError, match="other has shape"):
        matrix + np.ones((len(entries) + 1, 1))
    for refused in (lambda: matrix * matrix, lambda: np.ones(matrix.shape) * matrix):
        with pytest.raises(TypeError, match="Write @ for the product"):
            refused()


def test_print_shows_entries(case: Case) -> None:
    first, *lines = str(case.operator).splitlines()
    assert first == repr(case.operator)
    assert len(lines) == min(len(case.twin), 9 if len(case.twin) > 16 else 16)
    shown = lines[0].split()[1:]
    wide = case.twin.shape[1] > 24
    assert [float(one) for one in shown if one != "…"] == pytest.approx(
        np.r_[case.twin[0, :5], case.twin[0, -5:]] if wide else case.twin[0], rel=1e-3
    )
    assert "<table>" in case.operator._repr_html_()


def test_rows_of_a_forest_are_told_in_words() -> None:
    domain = Domain(
        [Attribute("age", edges=[0, 40, 60, 90]), Attribute("sex", categories=["F", "M"])]
    )
    paths = path_matrix(RandomTrees(n_trees=1, max_depth=2).grow(domain, random_state=0))
    assert "age = [0, 40) & sex = F" in str(paths)
    assert "age = [0, 40) & sex = F" in str(2 * paths[[0, 1, 2]])
    assert "&amp; sex = F" in paths._repr_html_()


def test_beyond_memory_rows_and_corners_still_show() -> None:
    domain = Domain.from_sizes([4] * 30)
    paths = path_matrix(RandomTrees(n_trees=3, max_depth=2).grow(domain, random_state=0))
    assert "…" in str(paths)
    assert paths[3:5].shape == (2, 4**30)
    for refused in (lambda: np.asarray(paths), lambda: paths[0], lambda: paths + 2 * paths.T.T):
        with pytest.raises(MemoryCapError):
            refused()
    assert str(ops.Identity(2**100)).startswith("Identity(")
    assert ops.Identity(2**100)  # a value is there, whatever its length


@pytest.mark.parametrize(
    "matrix",
    [
        ops.PrefixSums(10**6),
        ops.AllRanges(10**5),
        ops.Identity(10**9),
        ops.Marginals((10,) * 20, [(0, 1), (3,)], [1, 2]),
        ops.Kronecker([ops.PrefixSums(1000)] * 3).T,
        ops.Stack([ops.Identity(10**7), ops.PrefixSums(10**7)]),
        ops.PrefixSums(10**6)[[5]],
    ],
    ids=repr,
)
def test_what_is_too_large_to_look_at_is_still_named(matrix: ops.Operator) -> None:
    assert str(matrix).splitlines()[0] == repr(matrix)
    assert "-0" not in str(-ops.Identity(3))


def test_sums_below_a_cap_are_of_sparse_entries() -> None:
    with memory_cap(10**5):
        both = ops.Identity(2000) + sparse.eye_array(2000)
        assert both.nnz == 2000
        with pytest.raises(MemoryCapError):
            ops.Identity(2000) + np.ones((1, 2000)).repeat(2000, axis=0)


# Singular values ----------------------------------------------------------------------------------


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
