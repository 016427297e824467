"""What a strategy's answers say about a workload: ``W A⁺``, its errors and its estimates.

Each function asks the structure first, then works with explicit matrices where they fit the
memory cap, then with row Grams, which need nothing of length n.
"""

import numpy as np
from scipy import linalg

from strategies.operators.cross_gram import cross_gram
from strategies.operators.memory import fits
from strategies.operators.operator import Array, Operator
from strategies.operators.pseudo_inverse import RowSpace, check_contained, has_full_rank


def error_trace(workload: Operator, matrix: Operator) -> float:
    """Return ``||W A⁺||_F² = tr(WᵀW (AᵀA)⁺)``.

    Parameters
    ----------
    workload : Operator of shape (q, n)
    matrix : Operator of shape (m, n)

    Raises
    ------
    RowSpaceError
        If a row of the workload lies outside the row space of the matrix.
    MemoryCapError
        If the structures offer no rule and explicit matrices exceed the memory cap.
    """
    check_columns(workload, matrix)
    value = matrix.error_trace(workload)
    if value is not None:
        return value
    q, n = workload.shape
    if not is_explicit(matrix) or (q > n and not fits((n, n))):
        return float(row_errors(workload, matrix).sum())
    if q <= n:
        return float(explicit_row_errors(workload.to_dense(), matrix.to_dense()).sum())
    return gram_error_trace(workload.gram_dense(), matrix.to_dense())


def row_errors(workload: Operator, matrix: Operator) -> Array:
    """Return ``||(W A⁺)_r||²`` of every row of the workload, shape (q,)."""
    check_columns(workload, matrix)
    values = matrix.row_errors(workload)
    if values is not None:
        return values
    if is_explicit(matrix) and fits(workload.shape):
        return explicit_row_errors(workload.to_dense(), matrix.to_dense())
    recovery = implicit_recovery(workload, matrix)
    return np.einsum("ij,ij->i", recovery, recovery)


def estimate(workload: Operator, matrix: Operator, answers: Array) -> Array:
    """Return ``W A⁺ @ answers``: what the answers say about every row of the workload."""
    check_columns(workload, matrix)
    answers = matrix.checked_answers(answers)
    values = matrix.estimate(workload, answers)
    if values is not None:
        return values
    if is_explicit(matrix) or matrix.has_cheap_inverse:
        return workload.matmat(matrix.least_squares(answers))
    return implicit_recovery(workload, matrix) @ answers


def is_explicit(matrix: Operator) -> bool:
    """Tell whether the matrix and a square of its columns fit the memory cap."""
    n = matrix.shape[1]
    return fits(matrix.shape, 16) and fits((n, n), 16)


def check_columns(workload: Operator, matrix: Operator) -> None:
    """Refuse a matrix over other cells than the workload's."""
    if workload.shape[1] != matrix.shape[1]:
        raise ValueError(
            f"matrix has {matrix.shape[1]} columns: expected {workload.shape[1]}, one for each "
            f"column of the workload."
        )


def explicit_row_errors(workload: Array, matrix: Array) -> Array:
    """Return ``||(W A⁺)_r||²`` by QR of A, or by its singular values at deficient rank."""
    m, n = matrix.shape
    if m >= n:
        (triangle,) = linalg.qr(matrix, mode="r")
        triangle = triangle[:n]
        if has_full_rank(triangle, m):
            recovery = linalg.solve_triangular(triangle, workload.T, trans="T")
            return np.einsum("ij,ij->j", recovery, recovery)
    space = RowSpace.of(matrix)
    check_contained(float(np.sum((workload @ space.null) ** 2)), float(np.sum(workload**2)))
    recovery = (workload @ space.right) / space.values
    return np.einsum("ij,ij->i", recovery, recovery)


def gram_error_trace(gram: Array, matrix: Array) -> float:
    """Return ``tr(G (AᵀA)⁺)`` for the workload's Gram, as a sum of nonnegative terms."""
    m, n = matrix.shape
    if m >= n:
        (triangle,) = linalg.qr(matrix, mode="r")
        triangle = triangle[:n]
        if has_full_rank(triangle, m):
            half = linalg.solve_triangular(triangle, gram, trans="T")
            return float(np.trace(linalg.solve_triangular(triangle, half.T, trans="T")))
    space = RowSpace.of(matrix)
    outside = float(np.einsum("ij,ij->", space.null, gram @ space.null))
    check_contained(outside, float(np.trace(gram)))
    inside = np.einsum("ij,ij->j", space.right, gram @ space.right)
    return float(np.sum(inside / space.values**2))


def implicit_recovery(workload: Operator, matrix: Operator) -> Array:
    """Return ``W A⁺ = W Aᵀ (A Aᵀ)⁺`` (q x m) from row Grams, without anything of length n.

    Containment is checked by ``||W - W A⁺A||² = ||W||² - tr(W Aᵀ (A Aᵀ)⁺ A Wᵀ)``, to the square
    root of the machine precision.
    """
    cross = cross_gram(workload, matrix)
    values, vectors = linalg.eigh(matrix.row_gram())
    cut = len(values) * np.finfo(float).eps * values.max(initial=0.0)
    kept = values > cut
    inner = cross @ vectors[:, kept]
    total = float(workload.row_squares().sum())
    check_contained(max(total - float(np.sum(inner**2 / values[kept])), 0.0), total)
    return np.asarray((inner / values[kept]) @ vectors[:, kept].T)
