"""Matrices given entry by entry: dense, sparse, by their Gram; which of their columns are equal."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse

from strategies.operators.base.arrays import (
    Array,
    Integers,
    Longs,
    Numbers,
    Real,
    as_shape,
    check_allocation,
    checked_sizes,
    divide,
    exponent,
    real_array,
    real_sparse,
)
from strategies.operators.base.operator import Norm, Operator, check_range, explicit
from strategies.operators.masks.anova import (
    Energies,
    line_energies,
    line_gram_energies,
    structure_energies,
)


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Operator):
    """A matrix held as an ndarray.

    Parameters
    ----------
    array : array-like of shape (m, n)
        Finite real entries. Kept as a read-only copy.
    sizes : tuple of int, optional
        Attribute sizes of the product domain whose cells are the columns.

    Examples
    --------
    >>> Dense([[1.0, 2.0], [0.0, 3.0]]).sensitivity("l1")
    5.0
    """

    array: Real
    sizes: tuple[int, ...] | None = None
    _own_numbers = ("array",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "array", real_array("array", self.array, 2))
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, self.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        return as_shape(*self.array.shape)

    def column_norms(self, norm: Norm) -> Array:
        array = self.to_dense()
        if norm == "l1":
            return np.asarray(np.abs(array).sum(axis=0))
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", array, array)))

    def _matmat(self, right: Array) -> Array:
        return self.array @ right

    def _rmatmat(self, left: Array) -> Array:
        return self.array.T @ left

    def to_dense(self) -> Array:
        """Return floats as they are stored, or a copy of integers, refused above the memory cap."""
        if self.array.dtype != np.float64:
            check_allocation("floats of an integer matrix", self.array.shape)
        return self.array.astype(np.float64, copy=False)

    def take_rows(self, rows: Longs) -> Operator:
        return Dense(self.array[rows], self.sizes)

    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix in CSR form; integers stay int64, so that answers stay exact."""
        return sparse.csr_array(self.array)

    def rounded(self, scale: int) -> Operator:
        scaled = np.rint(self.array * float(scale))
        check_range(float(np.abs(scaled).max(initial=0.0)))
        return Dense(scaled.astype(np.int64), self.sizes)


explicit.register(np.ndarray, Dense)


structure_energies.register(Dense, line_energies)


@dataclass(frozen=True, eq=False, repr=False)
class Sparse(Operator):
    """A matrix held in CSR form; integer entries stay int64.

    Parameters
    ----------
    matrix : scipy sparse array or matrix of shape (m, n)
        Finite real entries.
    sizes : tuple of int, optional
        Attribute sizes of the product domain whose cells are the columns.

    Examples
    --------
    >>> Sparse(sparse.eye_array(3)).sensitivity("l2")
    1.0
    """

    matrix: sparse.csr_array
    sizes: tuple[int, ...] | None = None
    _own_numbers = ("matrix",)
    prefers_sparse = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", real_sparse("matrix", self.matrix))
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, self.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        return as_shape(*self.matrix.shape)

    @property
    def entries(self) -> int:
        return int(self.matrix.nnz)

    def _matmat(self, right: Array) -> Array:
        return cast(Array, self.matrix @ right)

    def _rmatmat(self, left: Array) -> Array:
        return cast(Array, self.matrix.T @ left)

    def take_rows(self, rows: Longs) -> Operator:
        return Sparse(self.matrix[rows], self.sizes)

    def to_sparse(self) -> sparse.csr_array:
        return self.matrix


explicit.register(sparse.csr_array, Sparse)


structure_energies.register(Sparse, line_energies)


MatrixLike: TypeAlias = Operator | ArrayLike | sparse.sparray | sparse.spmatrix
"""Matrices that public functions accept."""


def as_operator(matrix: object, name: str = "matrix") -> Operator:
    """Return an operator from an ndarray, a nested list, a scipy sparse matrix or an operator.

    Raises
    ------
    TypeError
        If it is no matrix, or its entries are not real numbers.
    ValueError
        If the matrix is empty, not two-dimensional, or holds NaN or infinity.

    Examples
    --------
    >>> as_operator([[1, 0], [1, 1]])
    Dense(2 x 2)
    """
    operator: Operator
    if isinstance(matrix, Operator):
        operator = matrix
    else:
        if not (isinstance(matrix, list | tuple) or np.ndim(cast(ArrayLike, matrix))):
            raise TypeError(
                f"{name} is of type {type(matrix).__name__}: expected a matrix, which is an "
                f"operator, an ndarray, a list of rows or a SciPy sparse array. A strategy that is "
                f"still to be searched for comes from strategies.select(W, method=...)."
            )
        try:
            if sparse.issparse(matrix):
                operator = Sparse(cast(sparse.csr_array, matrix))
            else:
                operator = Dense(cast(Real, matrix))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
    if 0 in operator.shape:
        raise ValueError(
            f"{name} has shape {operator.shape}: expected at least one row and one column."
        )
    return operator


Keys = NDArray[np.uint64]


def are_equal(values: Numbers) -> bool:
    """Tell whether there are numbers, and all are one."""
    return len(values) > 0 and bool((values == values[0]).all())


def sparse_keys(form: sparse.csc_array) -> Keys:
    """Hash the columns of a CSC array to shape (n, 2): a sum over nonzeros of mixed words."""
    values = form.data
    if are_equal(values):  # as of 0/1 rows: one hash a row, added up by a product
        rows = np.arange(form.shape[0])
        hashes = hash_entries(rows, np.full(len(rows), values[0]))
        ones = (np.full(len(values), values[0] != 0, np.uint64), form.indices, form.indptr)
        return np.asarray(sparse.csc_array(ones, shape=form.shape).T @ hashes)
    entries = hash_entries(form.indices, values)
    entries[values == 0] = 0
    totals = np.zeros((len(form.data) + 1, 2), dtype=np.uint64)
    np.cumsum(entries, axis=0, out=totals[1:])
    return totals[form.indptr[1:]] - totals[form.indptr[:-1]]


def dense_keys(form: Real) -> Keys:
    """Hash the columns of an ndarray to shape (n, 2), a band of rows at a time."""
    q, n = form.shape
    keys = np.zeros((n, 2), dtype=np.uint64)
    step = max(1, 2**20 // n)
    for start in range(0, q, step):
        band = form[start : start + step]
        rows = np.repeat(np.arange(start, start + len(band)), n)
        entries = hash_entries(rows, band.ravel())
        entries[band.ravel() == 0] = 0
        keys += entries.reshape(*band.shape, 2).sum(axis=0, dtype=np.uint64)
    return keys


def hash_entries(rows: Integers, values: Numbers) -> Keys:
    """Hash pairs of a row number and a value to two 64-bit words each."""
    bits = values.astype(np.float64).view(np.uint64)
    word = mixed_words(bits ^ mixed_words(rows.astype(np.uint64)))
    return np.stack([word, mixed_words(word ^ np.uint64(0xD1B54A32D192ED03))], axis=1)


def mixed_words(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words one to one (the finaliser of SplitMix64)."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def agrees(form: Any, picked: Any, inverse: Longs) -> bool:
    """Compare every row with the one that stands for it, entry for entry, a band at a time."""
    step = max(1, 2**22 // form.shape[1])
    return all(
        not np.any((form[s : s + step] != picked[inverse[s : s + step]]).sum())
        for s in range(0, form.shape[0], step)
    )


PSD_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Gram(Operator):
    """The symmetric root of ``WᵀW``: it stands for any W with this Gram.

    Loss and bounds depend on a workload through its Gram alone, so all ranges over n cells, say,
    need n x n numbers and not n²/2 rows.

    Parameters
    ----------
    array : array-like of shape (n, n)
        Symmetric and positive semidefinite.
    sizes : tuple of int, optional
        Attribute sizes of the product domain whose cells are the columns.

    Examples
    --------
    >>> Gram([[2.0, 1.0], [1.0, 2.0]]).gram_dense()
    array([[2., 1.],
           [1., 2.]])
    """

    array: Array
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        array = real_array("gram", self.array, 2).astype(np.float64, copy=False)
        if array.shape[0] != array.shape[1]:
            raise ValueError(f"gram has shape {array.shape}: expected a square matrix W.T @ W.")
        scale = float(np.abs(array).max(initial=0.0))
        if np.abs(array - array.T).max(initial=0.0) > PSD_TOLERANCE * scale:
            raise ValueError("gram is not symmetric: expected W.T @ W.")
        lowest = float(linalg.eigvalsh(array, subset_by_index=[0, 0])[0]) if array.size else 0.0
        if lowest < -PSD_TOLERANCE * scale * len(array):
            raise ValueError(
                f"gram has the eigenvalue {lowest:.3g}: expected W.T @ W, with none < 0."
            )
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, len(array)))

    @property
    def shape(self) -> tuple[int, int]:
        return as_shape(*self.array.shape)

    @cached_property
    def root(self) -> Array:
        """The symmetric positive semidefinite root of the Gram."""
        values, vectors = linalg.eigh(self.array)
        noise = len(values) * np.finfo(float).eps * values[-1]
        # the root of a rounding error of 1e-16 would be 1e-8, and would raise the rank
        roots = np.sqrt(np.where(values > noise, values, 0.0))
        return np.asarray((vectors * roots) @ vectors.T)

    def _matmat(self, right: Array) -> Array:
        return self.root @ right

    def _rmatmat(self, left: Array) -> Array:
        return self.root @ left

    def to_unit(self) -> tuple[Operator, int]:
        power = exponent(self.array) // 2
        return (Gram(divide(self.array, 2 * power), self.sizes), power) if power else (self, 0)

    def to_dense(self) -> Array:
        return self.root

    def gram_dense(self) -> Array:
        return self.array

    def row_squares(self) -> Array:
        """Return the diagonal: the squared norms of the root's rows."""
        return np.diagonal(self.array).copy()

    def column_norms(self, norm: Norm) -> Array:
        return np.sqrt(np.diagonal(self.array)) if norm == "l2" else super().column_norms("l1")


@structure_energies.register
def gram_energies(workload: Gram) -> Energies | None:
    return line_gram_energies(workload.array, workload.sizes)
