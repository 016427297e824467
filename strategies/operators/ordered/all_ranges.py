"""All sums over intervals of ordered cells."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from strategies.operators.base.arrays import Array
from strategies.operators.base.memory import check_allocation
from strategies.operators.ordered.prefix_sums import OrderedSums


@dataclass(frozen=True, eq=False, repr=False)
class AllRanges(OrderedSums):
    """The ``n (n + 1) / 2`` sums over intervals of n ordered cells.

    Rows are ordered by their first cell, then by their last. Products take cumulated sums, so
    that a product costs its own result; the matrix is built only where it fits.

    Parameters
    ----------
    n : int
        Number of cells.

    Examples
    --------
    >>> AllRanges(2).to_dense()
    array([[1., 0.],
           [1., 1.],
           [0., 1.]])
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Intervals and cells."""
        return self.n * (self.n + 1) // 2, self.n

    @property
    def sums_over(self) -> Array:
        """``(j + 1) (n - j)`` intervals hold cell j."""
        cells = np.arange(self.n, dtype=np.float64)
        return np.asarray((cells + 1.0) * (self.n - cells))

    def _matmat(self, right: Array) -> Array:
        check_allocation("sums over all ranges", (self.shape[0], right.shape[1]))
        sums = np.zeros((self.n + 1, right.shape[1]))
        np.cumsum(right, axis=0, out=sums[1:])
        return np.concatenate([sums[first + 1 :] - sums[first] for first in range(self.n)])

    def _rmatmat(self, left: Array) -> Array:
        steps = np.zeros((self.n + 1, left.shape[1]))
        start = 0
        for first in range(self.n):
            part = left[start : start + self.n - first]
            steps[first] += part.sum(axis=0)
            steps[first + 1 :] -= part
            start += self.n - first
        return np.asarray(np.cumsum(steps[:-1], axis=0))

    def row_bands(self, cells: int = 2**23) -> Iterator[Array]:
        """Yield the rows in order, in dense bands of about so many entries."""
        step = max(1, cells // self.n**2)
        places = np.arange(self.n)
        for start in range(0, self.n, step):
            firsts = np.arange(start, min(self.n, start + step))
            counts = self.n - firsts
            first = np.repeat(firsts, counts)
            last = first + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            yield ((places >= first[:, None]) & (places <= last[:, None])).astype(np.float64)

    def squared_differences(self, prefixes: Array) -> Array:
        """Return ``||x_j - x_(i-1)||²`` for every range i to j, given x of prefix sums (n, r)."""
        check_allocation("squared differences", (self.n, self.n + 1))
        lengths = np.einsum("ij,ij->i", prefixes, prefixes)
        inner = prefixes @ prefixes.T
        whole = [lengths]
        for first in range(1, self.n):
            both = lengths[first:] + lengths[first - 1]
            whole.append(both - 2.0 * inner[first - 1, first:])
        return np.concatenate(whole)

    def to_dense(self) -> Array:
        """Return the matrix as an ndarray, refused above the memory cap."""
        check_allocation("dense AllRanges", self.shape)
        return np.concatenate(list(self.row_bands()))

    def gram_dense(self) -> Array:
        """Return ``(min(i, j) + 1) (n - max(i, j))``, refused above the memory cap."""
        check_allocation("gram of AllRanges", (self.n, self.n))
        cells = np.arange(self.n, dtype=np.float64)
        low, high = np.minimum.outer(cells, cells), np.maximum.outer(cells, cells)
        return np.asarray((low + 1.0) * (self.n - high))

    def row_squares(self) -> Array:
        """Return the cells of every interval."""
        check_allocation("lengths of all ranges", (self.shape[0],))
        return np.concatenate([np.arange(1.0, self.n - first + 1.0) for first in range(self.n)])
