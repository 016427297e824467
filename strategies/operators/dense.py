"""An explicit matrix."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Real
from strategies.operators.base.exact_integers import check_range
from strategies.operators.base.explicit_forms import as_shape
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Norm, Operator, explicit
from strategies.operators.base.validation import checked_sizes, real_array
from strategies.operators.masks.energies import line_energies, structure_energies


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Operator):
    """A matrix held as an ndarray.

    Parameters
    ----------
    array : array-like of shape (m, n)
        Finite real entries. Kept as a copy that nobody can write to.
    sizes : tuple of int, optional
        Attribute sizes of the product domain whose cells are the columns.

    Examples
    --------
    >>> Dense([[1.0, 2.0], [0.0, 3.0]]).sensitivity("l1")
    5.0
    """

    array: Real
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "array", real_array("array", self.array, 2))
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, self.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return as_shape(*self.array.shape)

    def column_norms(self, norm: Norm) -> Array:
        """Return the L1 or L2 norm of every column, shape (n,)."""
        array = self.to_dense()
        if norm == "l1":
            return np.asarray(np.abs(array).sum(axis=0))
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", array, array)))

    def _matmat(self, right: Array) -> Array:
        return self.array @ right

    def _rmatmat(self, left: Array) -> Array:
        return self.array.T @ left

    def to_dense(self) -> Array:
        """Return the matrix as an ndarray of floats: as it is stored, or a copy of integers.

        Raises
        ------
        MemoryCapError
            If a copy would not fit.
        """
        if self.array.dtype != np.float64:
            check_allocation("floats of an integer matrix", self.array.shape)
        return self.array.astype(np.float64, copy=False)

    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix in CSR form; integers stay int64, so that answers stay exact."""
        return sparse.csr_array(self.array)

    def rounded(self, scale: int) -> Operator:
        """Return the operator with entries ``round(scale * A[i, j])``, dense as it is."""
        scaled = np.rint(self.array * float(scale))
        check_range(float(np.abs(scaled).max(initial=0.0)))
        return Dense(scaled.astype(np.int64), self.sizes)


explicit.register(np.ndarray, Dense)


structure_energies.register(Dense, line_energies)
