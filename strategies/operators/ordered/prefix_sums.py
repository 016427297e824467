"""All prefix sums over ordered cells, and what sums over intervals have in common."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from strategies.operators.base.arrays import Array
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Norm, Operator


@dataclass(frozen=True, eq=False, repr=False)
class OrderedSums(Operator):
    """0/1 rows over n ordered cells; no two cells are in the same of them."""

    n: int
    is_binary = True
    has_distinct_columns = True

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n={self.n}: expected at least one cell.")
        object.__setattr__(self, "n", int(self.n))

    @property
    @abstractmethod
    def sums_over(self) -> Array:
        """The number of sums that hold each cell, shape (n,)."""

    def column_norms(self, norm: Norm) -> Array:
        """Return the norm of every column: the number of sums that hold the cell, or its root."""
        return self.sums_over if norm == "l1" else np.sqrt(self.sums_over)


@dataclass(frozen=True, eq=False, repr=False)
class PrefixSums(OrderedSums):
    """The n prefix sums over n ordered cells: row i sums cells 0 to i.

    Parameters
    ----------
    n : int
        Number of cells.

    Examples
    --------
    >>> import numpy as np
    >>> PrefixSums(4).matmat(np.arange(4.0))
    array([0., 1., 3., 6.])
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and cells."""
        return self.n, self.n

    @property
    def sums_over(self) -> Array:
        """``n - j`` sums hold cell j."""
        return np.arange(self.n, 0.0, -1.0)

    def _matmat(self, right: Array) -> Array:
        return np.asarray(np.cumsum(right, axis=0))

    def _rmatmat(self, left: Array) -> Array:
        return np.asarray(np.cumsum(left[::-1], axis=0)[::-1])

    def to_dense(self) -> Array:
        """Return the matrix as an ndarray, refused above the memory cap."""
        check_allocation("dense PrefixSums", self.shape)
        return np.tri(self.n)

    def gram_dense(self) -> Array:
        """Return ``n - max(i, j)``, refused above the memory cap."""
        check_allocation("gram of PrefixSums", self.shape)
        cells = np.arange(self.n, dtype=np.float64)
        return np.asarray(self.n - np.maximum.outer(cells, cells))

    def row_gram(self) -> Array:
        """Return ``min(i, j) + 1``, refused above the memory cap."""
        check_allocation("row gram of PrefixSums", self.shape)
        cells = np.arange(1.0, self.n + 1.0)
        return np.asarray(np.minimum.outer(cells, cells))

    def row_squares(self) -> Array:
        """Return 1 to n: the cells in every sum."""
        return np.arange(1.0, self.n + 1.0)
