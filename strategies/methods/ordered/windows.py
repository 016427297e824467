"""Which rows a windowed p-Identity has, and where: levels of blocks, three blocks a row.

Level l cuts the cells into blocks of ``k_l`` cells; the row of a block lives on the block and its
two neighbours. All is kept by the finest blocks: every cell of finest block c meets the same
``m = 3 L`` rows, so that entries are an array (blocks, m, k) and all products are batched.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators import Array

REACH = 1
"""Neighbours on either side of a block that its row covers."""


JITTER = 0.02
"""Relative size of the random part of a start: more leads to ends that depend on the seed."""
REVIVED = 0.1
"""Roots nearer to zero than this are moved there between descents; rows are of order one."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Rows over n ordered cells.

    Attributes
    ----------
    n : int
        Number of cells.
    sizes : tuple of int
        Cells of a block of each level, rising; each divides the next.
    """

    n: int
    sizes: tuple[int, ...]

    @property
    def block(self) -> int:
        """Cells of a finest block."""
        return self.sizes[0]

    @cached_property
    def n_blocks(self) -> int:
        """Finest blocks, the last of which may be cut off by the last cell."""
        return -(-self.n // self.block)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Rows of each level."""
        return tuple(-(-self.n // size) for size in self.sizes)

    @property
    def p(self) -> int:
        """Rows in all."""
        return sum(self.counts)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Finest blocks, rows that a block meets, cells of a block."""
        return self.n_blocks, (2 * REACH + 1) * len(self.sizes), self.block

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Number of the row at each place, shape (blocks, m); p where there is none."""
        blocks = np.arange(self.n_blocks)
        offsets = np.cumsum((0, *self.counts))
        places = []
        for size, count, offset in zip(self.sizes, self.counts, offsets, strict=False):
            own = blocks * self.block // size
            for shift in range(-REACH, REACH + 1):
                row = own + shift
                places.append(np.where((row >= 0) & (row < count), row + offset, self.p))
        return np.stack(places, axis=1)

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Whether an entry stands for a row and a cell that exist, shape (blocks, m, k)."""
        cells = np.arange(self.n_blocks * self.block).reshape(self.n_blocks, 1, self.block)
        return np.asarray((self.rows < self.p)[:, :, None] & (cells < self.n))

    def by_blocks(self, cells: Array) -> Array:
        """Return one number a cell as (blocks, 1, k), with zeros for cells that do not exist."""
        whole = np.zeros(self.n_blocks * self.block)
        whole[: self.n] = cells
        return whole.reshape(self.n_blocks, 1, self.block)

    @cached_property
    def _pairs(self) -> NDArray[np.int64]:
        """Flat places in a (p + 1, p + 1) matrix of the rows that meet in a block, raveled."""
        rows, p = self.rows, self.p
        return np.asarray((rows[:, :, None] * (p + 1) + rows[:, None, :]).ravel())

    def pair_sums(self, blocks: Array) -> Array:
        """Add numbers of pairs of rows (blocks, m, m) to a matrix (p, p)."""
        p = self.p
        whole = np.bincount(self._pairs, weights=blocks.ravel(), minlength=(p + 1) ** 2)
        return np.asarray(whole.reshape(p + 1, p + 1)[:p, :p])

    def met(self, matrix: Array) -> Array:
        """Take from a matrix (p, p) what rows that meet in a block have there (blocks, m, m)."""
        whole = np.zeros((self.p + 1,) * 2)
        whole[:-1, :-1] = matrix
        blocks, m, _ = self.shape
        return np.asarray(whole.ravel()[self._pairs].reshape(blocks, m, m))

    def start(self, generator: np.random.Generator) -> Array:
        """Return roots to start from: 1 on a row's own block, little beside it, none exact."""
        own = np.arange(self.shape[1]) % (2 * REACH + 1) == REACH
        roots = np.where(own[:, None], 1.0, np.sqrt(1e-3)) * np.ones(self.shape)
        return np.asarray(roots * (1.0 + JITTER * generator.random(self.shape)) * self.mask)

    def away_from_zero(self, roots: Array) -> Array:
        """Return roots with those near zero moved away from it, where ``s |s|`` has no slope."""
        return np.where(np.abs(roots) < REVIVED, np.copysign(REVIVED, roots), roots) * self.mask

    def to_sparse(self, entries: Array) -> sparse.csr_array:
        """Return entries (blocks, m, k) as a sparse matrix (p, n)."""
        cells = np.arange(self.n_blocks * self.block).reshape(self.n_blocks, 1, self.block)
        rows = np.broadcast_to(self.rows[:, :, None], self.shape)
        kept = self.mask & (entries != 0)
        places = (rows[kept], np.broadcast_to(cells, self.shape)[kept])
        return sparse.csr_array((entries[kept], places), shape=(self.p, self.n))
