"""The loss of a given matrix against the definition; no loss below its bound, on thousands."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import strategies
from strategies import Gram, RowSpaceError, evaluate, select
from strategies.operators import Dense, Identity, Kronecker, RowKronecker, RowScaled, Scaled, Sparse

RANDOM = np.random.default_rng(5)
NORMS = ("l1", "l2")


def definition(workload: np.ndarray, matrix: np.ndarray, norm: str) -> float:
    """``||A||² ||W A⁺||_F²``, word for word."""
    sensitivity = np.linalg.norm(matrix, ord=1 if norm == "l1" else 2, axis=0).max()
    return float(sensitivity**2 * np.sum((workload @ np.linalg.pinv(matrix, rcond=1e-12)) ** 2))


@given(st.integers(0, 2**32), st.sampled_from(NORMS))
def test_against_the_definition(seed: int, norm: str) -> None:
    random = np.random.default_rng(seed)
    m, n, q, rank = random.integers(1, 8, size=4)
    matrix = random.normal(size=(m, rank)) @ random.normal(size=(rank, n))
    workload = random.normal(size=(q, m)) @ matrix
    if not np.linalg.cond(matrix[: min(m, n, rank), : min(m, n, rank)]) < 1e4:
        return
    strategy = evaluate(workload, matrix, norm)
    assert strategy.loss == pytest.approx(definition(workload, matrix, norm), rel=1e-7)
    assert strategy.row_errors(workload).sum() == pytest.approx(strategy.loss, rel=1e-7)
    assert strategy.lower_bound <= strategy.loss * (1 + 1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_every_form_agrees(norm: str) -> None:
    workload, matrix = RANDOM.integers(-2, 3, size=(7, 4)), RANDOM.normal(size=(6, 4))
    expected = definition(workload, matrix, norm)
    workloads = [
        workload,
        workload.tolist(),
        sparse.csr_array(workload),
        sparse.coo_matrix(workload),
        Dense(workload),
        Gram(workload.T @ workload),
    ]
    matrices = [matrix, sparse.csc_array(matrix), Sparse(sparse.csr_array(matrix))]
    for form in workloads:
        for given_matrix in matrices:
            assert evaluate(form, given_matrix, norm).loss == pytest.approx(expected, rel=1e-9)


def test_known_losses() -> None:
    prefix = np.tri(4)
    assert evaluate(prefix, np.eye(4)).loss == 10.0
    assert evaluate(prefix, prefix).loss == pytest.approx(64.0)
    assert evaluate(prefix, prefix, "l2").loss == pytest.approx(16.0)
    assert evaluate(prefix, 7 * prefix, "l2").loss == pytest.approx(16.0)


def test_scale_and_row_order_do_not_matter() -> None:
    workload, matrix = RANDOM.normal(size=(5, 4)), RANDOM.normal(size=(6, 4))
    base = evaluate(workload, matrix).loss
    assert evaluate(workload, -3e-5 * matrix).loss == pytest.approx(base, rel=1e-9)
    assert evaluate(workload, matrix[::-1]).loss == pytest.approx(base, rel=1e-9)
    assert evaluate(10 * workload, matrix).loss == pytest.approx(100 * base, rel=1e-9)


def test_the_trap_of_cancelling_traces() -> None:
    """An ill-conditioned strategy's loss keeps its digits (FINDINGS, section 3)."""
    basis = np.linalg.qr(RANDOM.normal(size=(12, 12)))[0]
    matrix = np.logspace(0, -7, 12)[:, None] * basis
    workload = RANDOM.normal(size=(30, 12))
    exact = np.sum(((workload @ basis.T) / np.logspace(0, -7, 12)) ** 2)
    strategy = evaluate(workload, matrix, "l2")
    assert strategy.loss / strategy.sensitivity**2 == pytest.approx(exact, rel=1e-6)


def test_deficient_strategies_serve_what_they_span() -> None:
    rows = RANDOM.normal(size=(2, 5))
    matrix = np.array([[1.0, 1.0], [2.0, -1.0], [0.5, 0.0]]) @ rows
    assert evaluate(rows, matrix).loss == pytest.approx(definition(rows, matrix, "l1"))
    for outside in (np.eye(5), Gram(np.eye(5)), np.tri(9, 5)):
        with pytest.raises(RowSpaceError, match="outside the row space"):
            evaluate(outside, matrix)
    with pytest.raises(RowSpaceError):
        evaluate(rows + 1e-4 * RANDOM.normal(size=(2, 5)), matrix)
    assert issubclass(RowSpaceError, ValueError)


def test_structures_agree_with_their_explicit_forms() -> None:
    masks = [RANDOM.random((20, size)) < 0.6 for size in (3, 4, 2)]
    paths = RowKronecker.from_masks(masks)
    factors = [RANDOM.normal(size=(size + 1, size)) for size in (3, 4, 2)]
    strategy = Kronecker([Dense(factor) for factor in factors])
    for workload in (paths, Kronecker([Dense(np.tri(3)), Identity(4), Dense(np.ones((1, 2)))])):
        for norm in NORMS:
            structured = evaluate(workload, strategy, norm)
            explicit = evaluate(workload.to_dense(), strategy.to_dense(), norm)
            assert structured.loss == pytest.approx(explicit.loss, rel=1e-9)
            rows = structured.row_errors(workload)
            assert rows == pytest.approx(explicit.row_errors(workload.to_dense()), rel=1e-9)


def test_a_domain_too_large_for_its_cells() -> None:
    masks = [np.array([[1, 0], [0, 1], [1, 1]])] + [np.ones((3, 2))] * 99
    paths = RowKronecker.from_masks(masks)
    strategy = evaluate(paths, paths.take_rows([0, 1]))
    # the third row is the sum of the first two, which are disjoint
    assert strategy.loss == pytest.approx(2.0**2 * 4.0)  # the bound counts both rows
    assert strategy.lower_bound <= strategy.loss


A = r"^A \(strategy matrix\)"
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "NaN": (lambda: evaluate([[np.nan]], [[1.0]]), ValueError, "workload: .*NaN"),
    "inf": (lambda: evaluate([[1.0]], [[np.inf]]), ValueError, A + ": .*infinity"),
    "complex": (lambda: evaluate([[1j]], [[1.0]]), TypeError, "workload: .*complex"),
    "text": (lambda: evaluate("prefix", np.eye(2)), TypeError, "workload is of type str"),
    "none": (lambda: evaluate(None, np.eye(2)), TypeError, "workload is of type"),
    "no rows": (lambda: evaluate(np.ones((0, 2)), np.eye(2)), ValueError, "at least one row"),
    "no columns": (lambda: evaluate(np.ones((2, 0)), np.eye(2)), ValueError, "one column"),
    "empty matrix": (lambda: evaluate(np.eye(2), np.ones((0, 2))), ValueError, A + " has shape"),
    "vector": (lambda: evaluate(np.ones(3), np.eye(3)), ValueError, "1 dimensions"),
    "shapes": (lambda: evaluate(np.eye(2), np.eye(3)), ValueError, A + " has 3 columns"),
    "zeros": (lambda: evaluate(np.zeros((2, 2)), np.eye(2)), ValueError, "all zeros"),
    "zero matrix": (lambda: evaluate(np.eye(2), np.zeros((2, 2))), ValueError, A + " is all zeros"),
    "matrix of text": (lambda: evaluate(np.eye(2), "A"), TypeError, A + " is of type str"),
    "one row": (lambda: evaluate(np.eye(2), [[1, 0]]), RowSpaceError, A + " does not determine"),
    "norm": (lambda: evaluate(np.eye(2), np.eye(2), "linf"), ValueError, "norm='linf'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        make()


def test_public_names() -> None:
    assert all(hasattr(strategies, name) for name in strategies.__all__)


SMALL = st.sampled_from([0.0, 0.0, 1.0, 1.0, -1.0, 2.0, 0.5, 3.0, 1e-3, 100.0])


@st.composite
def workloads(draw: st.DrawFn) -> np.ndarray:
    """Small workloads with every defect: repeats, zeros, low rank, one row or column."""
    q, n = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    matrix = draw(arrays(float, (q, n), elements=SMALL))
    kind = draw(
        st.sampled_from(["plain", "low rank", "repeated rows", "repeated columns", "holes"])
    )
    if kind == "low rank":
        rank = draw(st.integers(1, 2))
        right = draw(arrays(float, (rank, n), elements=SMALL))
        matrix = draw(arrays(float, (q, rank), elements=SMALL)) @ right
    if kind == "repeated rows":
        matrix = matrix[draw(st.lists(st.integers(0, q - 1), min_size=1, max_size=9))]
    if kind == "repeated columns":
        matrix = matrix[:, draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=9))]
    if kind == "holes":
        matrix[draw(st.integers(0, q - 1))] = 0.0
        matrix[:, draw(st.integers(0, n - 1))] = 0.0
    return matrix


@given(workloads(), st.sampled_from(NORMS), st.integers(0, 3))
def test_cheap_strategies(workload: np.ndarray, norm: str, seed: int) -> None:
    if not workload.any():
        return
    n = workload.shape[1]
    square = np.random.default_rng(seed).normal(size=(n + 1, n))
    for matrix in (np.eye(n), workload, square, np.vstack([workload, np.eye(n)])):
        strategy = evaluate(workload, matrix, norm)
        assert strategy.loss >= strategy.lower_bound * (1 - 1e-9)
    strategy = select(workload, norm, method="workload_itself", time_limit=0.01)
    assert strategy.loss >= strategy.lower_bound * (1 - 1e-9)


@given(st.integers(0, 2**32), st.sampled_from(NORMS), st.integers(2, 16), st.sampled_from([0, 40]))
def test_rows_beside_the_row_space_are_refused_in_every_form(
    seed: int, norm: str, digits: int, power: int
) -> None:
    """Or so near to it that their loss is not below the bound. A control lies inside."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(2, 9))
    inside = random.integers(1, 4, (8, 2)) @ matrix
    aside = random.normal(size=(8, 9))
    aside -= aside @ np.linalg.pinv(matrix) @ matrix
    workload = 2.0**power * (inside + 10.0**-digits * aside)
    served = []
    for form in (workload, sparse.csr_array(workload), Scaled(0.5, Dense(2 * workload))):
        for measured in (
            matrix,
            1e6 * matrix[::-1],
            RowScaled(np.array([3.0, 1e-3]), Dense(matrix)),
        ):
            try:
                found = evaluate(form, measured, norm)
            except RowSpaceError:
                served.append(False)
            else:
                served.append(True)
                assert found.loss >= found.lower_bound * (1 - 1e-6)
    assert len(set(served)) == 1
    assert digits > 6 or not any(served)
    assert evaluate(2.0**power * inside, matrix, norm).loss > 0


@pytest.mark.parametrize("norm", NORMS)
def test_a_faint_row_is_told_from_rounding(norm):
    """Its second singular value is 5e-8 of the first: nothing, in the rounding of a Gram."""
    workload = np.zeros((4, 4))
    workload[0, :2], workload[1, 1] = (0.5, 100), 1e-3
    assert evaluate(workload, workload, norm).loss > 0


def test_the_inverse_of_faint_rows_keeps_its_digits() -> None:
    """A Gram of more rows than cells has lost them: 4.6 in place of 5 at the worst."""
    for scale in (1e-5, 1e-7, 1e-8):
        rows = np.concatenate([[[0.58, 0.0, 0.58, 0.0, 0.58]] * 2, scale * np.tri(5)])
        found = evaluate(rows, rows, "l2")
        assert found.loss == pytest.approx(5 * found.sensitivity**2)
