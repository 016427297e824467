"""Windowed p-Identities: their rows, levels of blocks with three blocks a row, and their loss.

Level l cuts the cells into blocks of ``k_l`` cells; the row of a block lives on the block and its
two neighbours. All is kept by the finest blocks: every cell of finest block c meets the same
``m = 3 L`` rows, so that entries are an array (blocks, m, k) and all products are batched.

The loss and its gradient take near-linear time. With ``A = [I; B] diag(1/e)``,
``e_j = 1 + ||b_j||_1``, ``B = s |s|`` and the workload's Gram ``G_ij = u_min v_max``,

    S = I + B Bᵀ,   H = B diag(e) G diag(e),   Q = H Bᵀ,   T = S⁻¹ H,   Z = S⁻¹ Q S⁻¹,
    r = e² g - colsum(T * B),   loss = sum r,
    dloss/ds = 4 (s r / e - |s| (T - Z B)).

H is never built (p x n). Within a finest block, ``H = e (v P + u N)`` where P and N count what a
row sums before the block and from the block on, one number a row and block, and the few rows that
meet the block add ``X = e (v cumsum(u h) - u cumsum(v h))``, ``h = B diag(e)``.

For any ranges ``G`` is known by the Laplacian L of the cuts between cells in place of two vectors
(`strategies.operators.ordered.ranges`): with C the sums of ``diag(e) Bᵀ`` up to every cut,

    Hᵀ = e (sums of L C from a cell on)    (n x p).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from strategies.methods.descents.descent import REFUSED
from strategies.operators import Array, Ranges
from strategies.operators.base.arrays import Longs
from strategies.operators.ordered.ordered_sums import OrderedGram
from strategies.operators.ordered.ranges import sums_from_cells, sums_to_cuts

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


@dataclass(frozen=True, eq=False)
class WindowLoss:
    """The logarithm of the loss as a function of the roots s, shape ``windows.shape``."""

    gram: OrderedGram
    windows: Windows

    @cached_property
    def low(self) -> Array:
        """u, shape (blocks, 1, k)."""
        return self.windows.by_blocks(self.gram.low)

    @cached_property
    def high(self) -> Array:
        """v, shape (blocks, 1, k)."""
        return self.windows.by_blocks(self.gram.high)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Flat places in a (p + 1, blocks) matrix of every row that meets a block."""
        blocks = self.windows.n_blocks
        return np.asarray(self.windows.rows * blocks + np.arange(blocks)[:, None])

    def _spread(self, sums: Array) -> Array:
        """Write numbers of rows and blocks (blocks, m) to a matrix (p, blocks)."""
        whole = np.zeros((self.windows.p + 1, self.windows.n_blocks))
        whole.ravel()[self._places] = sums
        return whole[:-1]

    def _at_blocks(self, matrix: Array) -> Array:
        """Take from a matrix (p, blocks) the rows that meet each block (blocks, m, 1)."""
        whole = np.concatenate([matrix, np.zeros((1, matrix.shape[1]))])
        return np.asarray(whole.ravel()[self._places][:, :, None])

    def __call__(self, roots: Array) -> tuple[float, Array]:
        """Return the log of the loss at roots s, and its gradient."""
        size = np.abs(roots)
        rows = roots * size
        scale = 1.0 + np.square(roots).sum(axis=1, keepdims=True)
        scaled = rows * scale
        across = rows.transpose(0, 2, 1)
        inverse = inverse_of(self.windows.pair_sums(rows @ across) + np.eye(self.windows.p))
        if inverse is None:
            return REFUSED, np.zeros_like(roots)
        low_cumulated, high_cumulated = (
            np.cumsum(scaled * self.low, axis=2),
            np.cumsum(scaled * self.high, axis=2),
        )
        low_sums, high_sums = (
            self._spread(low_cumulated[:, :, -1]),
            self._spread(high_cumulated[:, :, -1]),
        )
        before = np.cumsum(low_sums, axis=1) - low_sums
        onward = np.cumsum(high_sums[:, ::-1], axis=1)[:, ::-1]
        low, high = self.low * scale, self.high * scale
        within = high * low_cumulated - low * high_cumulated
        moment = (
            before @ high_sums.T + onward @ low_sums.T + self.windows.pair_sums(within @ across)
        )
        bend = inverse @ moment @ inverse
        ahead = self._at_blocks(inverse @ before) * high + self._at_blocks(inverse @ onward) * low
        solved = ahead + self.windows.met(inverse) @ within
        share = self.low * self.high * scale**2 - (solved * rows).sum(axis=1, keepdims=True)
        loss = float(share.sum())
        if not loss > 0:  # rows so large that rounding hides the loss
            return REFUSED, np.zeros_like(roots)
        slope = solved - self.windows.met(bend) @ rows
        gradient = (4.0 / loss) * (roots * (share / scale) - size * slope) * self.windows.mask
        return float(np.log(loss)), gradient


def inverse_of(matrix: Array) -> Array | None:
    """Return the inverse of a symmetric positive definite matrix, None where it is none."""
    factor, info = linalg.lapack.dpotrf(matrix, lower=1)
    if info == 0:
        inverse, info = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return None if info else np.asarray(inverse + np.tril(inverse, -1).T)


@dataclass(frozen=True, eq=False)
class RangeLoss:
    """The same for any ranges: a step costs p times the cuts and the edges of their graph."""

    ranges: Ranges
    windows: Windows

    @cached_property
    def _places(self) -> Longs:
        """Flat places in an (n, p) matrix of the entries that exist, in their order."""
        blocks, _, k = self.windows.shape
        cells = np.arange(blocks * k).reshape(blocks, 1, k)
        places = cells * self.windows.p + self.windows.rows[:, :, None]
        return np.asarray(places[self.windows.mask])

    @cached_property
    def _adding(self) -> sparse.csr_array:
        """What adds numbers of blocks and the rows that meet them up to the rows (p + 1, ...)."""
        rows = self.windows.rows.ravel()
        pairs = (rows, np.arange(len(rows)))
        return sparse.csr_array((np.ones(len(rows)), pairs), shape=(self.windows.p + 1, len(rows)))

    def _moved(self, scaled: Array, scale: Array) -> Array:
        """Return ``Hᵀ`` by blocks (blocks, k, p), from ``B diag(e)``; zero beyond the last cell."""
        n, p, (blocks, _, k) = self.windows.n, self.windows.p, self.windows.shape
        rows = np.zeros((n, p))
        rows.ravel()[self._places] = scaled[self.windows.mask]
        whole = np.zeros((blocks * k, p))
        flow = self.ranges.laplacian @ sums_to_cuts(rows)
        np.multiply(sums_from_cells(flow), scale.ravel()[:n, None], out=whole[:n])
        return whole.reshape(blocks, k, p)

    def __call__(self, roots: Array) -> tuple[float, Array]:
        """Return the log of the loss at roots s, and its gradient."""
        windows, p = self.windows, self.windows.p
        size = np.abs(roots)
        rows = roots * size
        scale = 1.0 + np.square(roots).sum(axis=1, keepdims=True)
        inverse = inverse_of(windows.pair_sums(rows @ rows.transpose(0, 2, 1)) + np.eye(p))
        if inverse is None:
            return REFUSED, np.zeros_like(roots)
        moved = self._moved(rows * scale, scale)
        moment = (self._adding @ (rows @ moved).reshape(-1, p))[:p]
        padded = np.concatenate([inverse, np.zeros((1, p))])
        solved = padded[windows.rows] @ moved.transpose(0, 2, 1)
        share = windows.by_blocks(self.ranges.diagonal) * scale**2
        share -= (solved * rows).sum(axis=1, keepdims=True)
        loss = float(share.sum())
        if not loss > 0:  # rows so large that rounding hides the loss
            return REFUSED, np.zeros_like(roots)
        slope = solved - windows.met(inverse @ moment @ inverse) @ rows
        gradient = (4.0 / loss) * (roots * (share / scale) - size * slope) * windows.mask
        return float(np.log(loss)), gradient
