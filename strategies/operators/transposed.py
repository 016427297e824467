"""The transpose of a structure."""

from dataclasses import dataclass

from scipy import sparse

from strategies.operators.base.arrays import Array
from strategies.operators.base.operator import Operator, transpose


@dataclass(frozen=True, eq=False, repr=False)
class Transposed(Operator):
    """``A.T``; its columns are the rows of A, so it knows no product domain."""

    inner: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        m, n = self.inner.shape
        return n, m

    @property
    def prefers_sparse(self) -> bool:
        """As the structure it transposes."""
        return self.inner.prefers_sparse

    @property
    def entries(self) -> int:
        """As the structure it transposes."""
        return self.inner.entries

    @property
    def is_binary(self) -> bool:
        """As the structure it transposes."""
        return self.inner.is_binary

    @property
    def T(self) -> Operator:
        """The structure itself."""
        return self.inner

    def _matmat(self, right: Array) -> Array:
        return self.inner._rmatmat(right)

    def _rmatmat(self, left: Array) -> Array:
        return self.inner._matmat(left)

    def to_dense(self) -> Array:
        """Return the matrix as an ndarray, refused above the memory cap."""
        return self.inner.to_dense().T

    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix in CSR form, refused above the memory cap."""
        return sparse.csr_array(self.inner.to_sparse().T)

    def gram_dense(self) -> Array:
        """Return the row gram of A."""
        return self.inner.row_gram()

    def row_gram(self) -> Array:
        """Return the gram of A."""
        return self.inner.gram_dense()


transpose.register(Operator, Transposed)
