"""An explicit matrix that is mostly zeros."""

from dataclasses import dataclass
from typing import cast

from scipy import sparse

from strategies.operators.base.arrays import Array
from strategies.operators.base.explicit_forms import as_shape
from strategies.operators.base.operator import Operator, explicit
from strategies.operators.base.validation import checked_sizes, real_sparse
from strategies.operators.masks.energies import line_energies, structure_energies


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
    prefers_sparse = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", real_sparse("matrix", self.matrix))
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, self.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return as_shape(*self.matrix.shape)

    @property
    def entries(self) -> int:
        """Stored entries."""
        return int(self.matrix.nnz)

    def _matmat(self, right: Array) -> Array:
        return cast(Array, self.matrix @ right)

    def _rmatmat(self, left: Array) -> Array:
        return cast(Array, self.matrix.T @ left)

    def to_sparse(self) -> sparse.csr_array:
        """Return the CSR form itself."""
        return self.matrix


explicit.register(sparse.csr_array, Sparse)


structure_energies.register(Sparse, line_energies)
