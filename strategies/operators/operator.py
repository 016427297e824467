"""The base of all structured matrices: a matrix is a value that knows how it acts.

A structure is a class and states its action; everything else has a rule here that is right for
every structure, densifying below the memory cap, and that a structure overrides where it has a
cheaper one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from strategies.operators.memory import check_allocation

if TYPE_CHECKING:
    from strategies.operators.transposed import Transposed

Norm = Literal["l1", "l2"]
Array = NDArray[np.float64]


class Operator(ABC):
    """A real matrix known by its action.

    Subclasses are frozen dataclasses. Columns are the cells of a domain; when the domain is a
    product of attributes, `sizes` holds the attributes' sizes, cells are numbered in C order
    (last attribute fastest), and cells may be given as rows of codes.
    """

    __array_ufunc__ = None  # so that `ndarray @ operator` reaches __rmatmul__

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns as exact Python integers (columns may exceed 2**63)."""

    @abstractmethod
    def _matmat(self, right: Array) -> Array:
        """Return ``A @ right`` for a checked (n, j) array."""

    @abstractmethod
    def _rmatmat(self, left: Array) -> Array:
        """Return ``A.T @ left`` for a checked (m, j) array."""

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """Sizes of the product domain whose cells are the columns, None when unstructured."""
        return None

    @property
    def T(self) -> "Transposed":
        """The transpose, as an operator."""
        from strategies.operators.transposed import Transposed

        return Transposed(self)

    def matmat(self, right: NDArray[Any]) -> Array:
        """Return ``A @ right`` for an (n,) vector or an (n, j) array."""
        return self._apply(self._matmat, right, self.shape[1], "right")

    def rmatmat(self, left: NDArray[Any]) -> Array:
        """Return ``A.T @ left`` for an (m,) vector or an (m, j) array."""
        return self._apply(self._rmatmat, left, self.shape[0], "left")

    def _apply(self, action: Any, operand: NDArray[Any], length: int, name: str) -> Array:
        operand = np.asarray(operand)
        if operand.ndim not in (1, 2) or operand.shape[0] != length:
            raise ValueError(
                f"{name} has shape {operand.shape}: expected ({length},) or ({length}, j) "
                f"to match an operator of shape {self.shape}."
            )
        block = operand.astype(np.float64, copy=False).reshape(length, -1)
        result: Array = action(block)
        return result[:, 0] if operand.ndim == 1 else result

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Operator):
            from strategies.operators.product import Product

            return Product(self, other)
        return self.matmat(other.toarray() if sparse.issparse(other) else other)

    def __rmatmul__(self, other: Any) -> Array:
        return self.rmatmat(np.asarray(other).T).T

    def to_dense(self) -> Array:
        """Return the matrix as an ndarray, refused above the memory cap."""
        m, n = self.shape
        check_allocation(f"dense {type(self).__name__}", (m, n))
        if m < n:
            check_allocation("identity to densify with", (m, m))
            return self._rmatmat(np.eye(m)).T
        check_allocation("identity to densify with", (n, n))
        return self._matmat(np.eye(n))

    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix in CSR form, refused above the memory cap."""
        return sparse.csr_array(self.to_dense())

    def gram_dense(self) -> Array:
        """Return ``A.T @ A`` (n x n), refused above the memory cap."""
        n = self.shape[1]
        check_allocation(f"gram of {type(self).__name__}", (n, n))
        dense = self.to_dense()
        return dense.T @ dense

    def row_gram(self) -> Array:
        """Return ``A @ A.T`` (m x m), refused above the memory cap."""
        m = self.shape[0]
        check_allocation(f"row gram of {type(self).__name__}", (m, m))
        dense = self.to_dense()
        return dense @ dense.T

    def column_norms(self, norm: Norm) -> Array:
        """Return the L1 or L2 norm of every column, shape (n,)."""
        return np.asarray(linalg.norm(self.to_dense(), ord=1 if norm == "l1" else 2, axis=0))

    def sensitivity(self, norm: Norm) -> float:
        """Return the largest column norm: the sensitivity under add/remove neighbours."""
        return float(self.column_norms(norm).max(initial=0.0))

    def columns(self, cells: NDArray[np.integer[Any]]) -> sparse.csr_array:
        """Return the columns at the given cells, as a sparse (m, len(cells)) matrix.

        Parameters
        ----------
        cells : ndarray of int
            Flat cell numbers of shape (N,), or rows of codes of shape (N, d) where `sizes` is
            known. A mechanism counts ``A @ D`` exactly from these without building n.
        """
        return sparse.csr_array(self.to_sparse().tocsc()[:, self.flat_cells(cells)])

    def flat_cells(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Turn rows of codes into flat cell numbers; flat numbers pass through."""
        cells = np.asarray(cells)
        if cells.ndim == 1:
            return cells.astype(np.int64, copy=False)
        if self.sizes is None:
            raise ValueError(
                f"cells has shape {cells.shape}: {type(self).__name__} knows no product domain, "
                f"so cells must be flat numbers of shape (N,)."
            )
        return np.ravel_multi_index(tuple(cells.T), self.sizes).astype(np.int64)

    def rounded(self, scale: int) -> "Operator":
        """Return the operator with exact integer entries ``round(scale * A[i, j])``."""
        from strategies.operators.sparse import Sparse

        matrix = self.to_sparse()
        return Sparse(sparse.csr_array(np.rint(matrix * scale).astype(np.int64)))

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return the exact sensitivity of an integer operator.

        The largest column sum of absolute entries for "l1", and of *squared* entries for "l2",
        as a Python integer.
        """
        matrix = abs(self.to_sparse()).astype(np.int64)
        if norm == "l2":
            matrix = matrix.multiply(matrix)
        return int(matrix.sum(axis=0).max())

    def least_squares(self, answers: NDArray[Any]) -> Array:
        """Return ``A⁺ @ answers``, the least-squares estimate of the cells, minimum norm."""
        solution: Array = linalg.lstsq(self.to_dense(), np.asarray(answers, dtype=np.float64))[0]
        return solution


def as_shape(rows: int, columns: int) -> tuple[int, int]:
    """Return a shape as exact Python integers."""
    return int(rows), int(columns)


def same_columns(operators: Sequence[Operator]) -> int:
    """Return the common number of columns, or refuse."""
    counts = {operator.shape[1] for operator in operators}
    if len(counts) != 1:
        raise ValueError(f"operators have {sorted(counts)} columns: expected one common number.")
    return counts.pop()
