"""All prefix sums over ordered cells."""

from dataclasses import dataclass

import numpy as np

from strategies.operators.base.arrays import Array
from strategies.operators.base.memory import check_allocation
from strategies.operators.ordered.ordered_sums import OrderedSums


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
