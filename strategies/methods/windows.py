"""Windowed p-Identity for Laplace noise over ordered cells, from coarse cells to fine ones.

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
(`strategies.operators.ranges`): with C the sums of ``diag(e) Bᵀ`` up to every cut,

    Hᵀ = e (sums of L C from a cell on)    (n x p).

A chain of block sizes says where the rows live. The descent
starts on cells joined in pairs or fours, with the same rows, where a step costs half or a quarter;
its roots, repeated, are the start over the finer cells. Which chain is best depends on n and on the
workload, so a few descend on coarse cells, and the best one goes on.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from strategies.methods.descents import REFUSED, minimise
from strategies.operators import Array, Operator, Ranges
from strategies.operators.base.arrays import Longs
from strategies.operators.identity import with_rows
from strategies.operators.ordered_sums import OrderedGram
from strategies.operators.ranges import sums_from_cells, sums_to_cuts

REACH = 1
"""Neighbours on either side of a block that its row covers."""


JITTER = 0.02
"""Relative size of the random part of a start: more leads to ends that depend on the seed."""
REVIVED = 0.1
"""Roots nearer to zero than this are moved there between descents; rows are of order one."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Rows over n ordered cells."""

    n: int
    sizes: tuple[int, ...]  # cells of a block of each level, rising; each divides the next

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
        return tuple(-(-self.n // size) for size in self.sizes)

    @property
    def p(self) -> int:
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

    def pad_to_blocks(self, cells: Array) -> Array:
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

    def take_pairs(self, matrix: Array) -> Array:
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

    def move_from_zero(self, roots: Array) -> Array:
        """Return roots with those near zero moved away from it, where ``s |s|`` has no slope."""
        return np.where(np.abs(roots) < REVIVED, np.copysign(REVIVED, roots), roots) * self.mask

    def to_sparse(self, entries: Array) -> sparse.csr_array:
        cells = np.arange(self.n_blocks * self.block).reshape(self.n_blocks, 1, self.block)
        rows = np.broadcast_to(self.rows[:, :, None], self.shape)
        kept = self.mask & (entries != 0)
        places = (rows[kept], np.broadcast_to(cells, self.shape)[kept])
        return sparse.csr_array((entries[kept], places), shape=(self.p, self.n))


@dataclass(frozen=True, eq=False)
class WindowedLoss:
    """The logarithm of the loss as a function of the roots s, shape ``windows.shape``."""

    windows: Windows

    @abstractmethod
    def _solve(self, rows: Array, scale: Array, inverse: Array) -> tuple[Array, Array, Array]:
        """Return T, Q and g, from B, e and S⁻¹: by blocks, but for those of p x p."""

    def __call__(self, roots: Array) -> tuple[float, Array]:
        windows, size = self.windows, np.abs(roots)
        rows = roots * size
        scale = 1.0 + np.square(roots).sum(axis=1, keepdims=True)
        system = windows.pair_sums(rows @ rows.transpose(0, 2, 1)) + np.eye(windows.p)
        inverse = inverse_of(system)
        if inverse is None:
            return REFUSED, np.zeros_like(roots)
        solved, moment, diagonal = self._solve(rows, scale, inverse)
        share = diagonal * scale**2 - (solved * rows).sum(axis=1, keepdims=True)
        loss = float(share.sum())
        if not loss > 0:  # rows so large that rounding hides the loss
            return REFUSED, np.zeros_like(roots)
        slope = solved - windows.take_pairs(inverse @ moment @ inverse) @ rows
        gradient = (4.0 / loss) * (roots * (share / scale) - size * slope) * windows.mask
        return float(np.log(loss)), gradient


@dataclass(frozen=True, eq=False)
class WindowLoss(WindowedLoss):
    """That of ordered cells."""

    gram: OrderedGram

    @cached_property
    def low(self) -> Array:
        """u, shape (blocks, 1, k)."""
        return self.windows.pad_to_blocks(self.gram.low)

    @cached_property
    def high(self) -> Array:
        """v, shape (blocks, 1, k)."""
        return self.windows.pad_to_blocks(self.gram.high)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Flat places in a (p + 1, blocks) matrix of every row that meets a block."""
        blocks = self.windows.n_blocks
        return np.asarray(self.windows.rows * blocks + np.arange(blocks)[:, None])

    def _scatter(self, sums: Array) -> Array:
        """Write numbers of rows and blocks (blocks, m) to a matrix (p, blocks)."""
        whole = np.zeros((self.windows.p + 1, self.windows.n_blocks))
        whole.ravel()[self._places] = sums
        return whole[:-1]

    def _gather(self, matrix: Array) -> Array:
        """Take from a matrix (p, blocks) the rows that meet each block (blocks, m, 1)."""
        whole = np.concatenate([matrix, np.zeros((1, matrix.shape[1]))])
        return np.asarray(whole.ravel()[self._places][:, :, None])

    def _solve(self, rows: Array, scale: Array, inverse: Array) -> tuple[Array, Array, Array]:
        scaled, across = rows * scale, rows.transpose(0, 2, 1)
        low_cumulated = np.cumsum(scaled * self.low, axis=2)
        high_cumulated = np.cumsum(scaled * self.high, axis=2)
        low_sums = self._scatter(low_cumulated[:, :, -1])
        high_sums = self._scatter(high_cumulated[:, :, -1])
        before = np.cumsum(low_sums, axis=1) - low_sums
        onward = np.cumsum(high_sums[:, ::-1], axis=1)[:, ::-1]
        low, high = self.low * scale, self.high * scale
        within = high * low_cumulated - low * high_cumulated
        moment = before @ high_sums.T + onward @ low_sums.T
        moment += self.windows.pair_sums(within @ across)
        ahead = self._gather(inverse @ before) * high + self._gather(inverse @ onward) * low
        return ahead + self.windows.take_pairs(inverse) @ within, moment, self.low * self.high


def inverse_of(matrix: Array) -> Array | None:
    factor, info = linalg.lapack.dpotrf(matrix, lower=1)
    if info == 0:
        inverse, info = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return None if info else np.asarray(inverse + np.tril(inverse, -1).T)


@dataclass(frozen=True, eq=False)
class RangeLoss(WindowedLoss):
    """That of any ranges: a step costs p times the cuts and the edges of their graph."""

    ranges: Ranges

    @cached_property
    def _places(self) -> Longs:
        """Flat places in an (n, p) matrix of the entries that exist, in their order."""
        blocks, _, k = self.windows.shape
        cells = np.arange(blocks * k).reshape(blocks, 1, k)
        places = cells * self.windows.p + self.windows.rows[:, :, None]
        return np.asarray(places[self.windows.mask])

    @cached_property
    def _row_sums(self) -> sparse.csr_array:
        """What adds numbers of blocks and the rows that meet them up to the rows (p + 1, ...)."""
        rows = self.windows.rows.ravel()
        pairs = (rows, np.arange(len(rows)))
        return sparse.csr_array((np.ones(len(rows)), pairs), shape=(self.windows.p + 1, len(rows)))

    def _moments(self, scaled: Array, scale: Array) -> Array:
        """Return ``Hᵀ`` by blocks (blocks, k, p), from ``B diag(e)``; zero beyond the last cell."""
        n, p, (blocks, _, k) = self.windows.n, self.windows.p, self.windows.shape
        rows = np.zeros((n, p))
        rows.ravel()[self._places] = scaled[self.windows.mask]
        whole = np.zeros((blocks * k, p))
        flow = self.ranges.laplacian @ sums_to_cuts(rows)
        np.multiply(sums_from_cells(flow), scale.ravel()[:n, None], out=whole[:n])
        return whole.reshape(blocks, k, p)

    def _solve(self, rows: Array, scale: Array, inverse: Array) -> tuple[Array, Array, Array]:
        p = self.windows.p
        moved = self._moments(rows * scale, scale)
        moment = (self._row_sums @ (rows @ moved).reshape(-1, p))[:p]
        padded = np.concatenate([inverse, np.zeros((1, p))])
        solved = padded[self.windows.rows] @ moved.transpose(0, 2, 1)
        return solved, moment, self.windows.pad_to_blocks(self.ranges.diagonal)


JOINED = 1400
"""Cells from which there are three levels of rows; from twice as many it starts on pairs."""
LARGE = 6000  # cells from which it starts on fours
SHORT = 60
"""Cells of rows up to which one level of blocks serves ranges."""
LONG = 200
"""Joined cells of rows from which a descent for ranges may start on those."""
ROUND = 150  # steps between two revivals of the entries near zero
ENTRY_SECONDS = 8e-8
STEP_SECONDS = 4e-4
"""Seconds of one step per entry and however small, on the reference machine."""
RANGE_SECONDS = 1.5e-9
"""Seconds for each number that is read where a step goes over all rows and cells."""
STALLED = 1e-6  # relative gain of a round below which a descent ends
SMALL_PRODUCTS = 2.5e10  # operations a second in products of matrices of a few hundred rows
TRIAL_SHARE = 0.3  # share of the work for the trials of all chains
FINER_LATER = 0.45  # share of the work left that is spent before cells are parted
NEGLIGIBLE = 1e-5  # share of the largest root below which an entry is dropped: its square is 1e-10


@dataclass(frozen=True, eq=False)
class Descent:
    """Rows over cells joined by a factor, and where their roots are."""

    gram: OrderedGram | Ranges
    sizes: tuple[int, ...]
    factor: int
    roots: Array
    log_loss: float = float("inf")

    @cached_property
    def coarse(self) -> OrderedGram | Ranges:
        return self.gram.coarse(self.factor)

    @cached_property
    def windows(self) -> Windows:
        return windows_of(self.gram.n, self.sizes, self.factor)

    def descend(self, work: float) -> "Descent":
        loss = loss_of(self.coarse, self.windows)
        steps = int(work / step_seconds(loss))
        best = self
        while steps > 0:
            count = min(ROUND, steps) if steps >= ROUND + ROUND // 2 else steps
            start = best.roots if best is self else self.windows.move_from_zero(best.roots)
            roots, log_loss = minimise(loss, start, count)
            steps -= count
            if log_loss < best.log_loss - STALLED:
                best = replace(self, roots=roots, log_loss=log_loss)
            else:
                break
        return best

    def refine(self) -> "Descent":
        """Return the same rows over cells half as wide, their roots repeated."""
        finer = windows_of(self.gram.n, self.sizes, self.factor // 2)
        roots = np.repeat(self.roots, 2, axis=2)[: finer.n_blocks] * finer.mask
        return Descent(self.gram, self.sizes, self.factor // 2, finer.move_from_zero(roots))

    def matrix(self) -> Operator:
        """Return the strategy ``[I; B] diag(1/e)``: every column has L1 norm 1."""
        roots = np.where(
            np.abs(self.roots) > NEGLIGIBLE * np.abs(self.roots).max(), self.roots, 0.0
        )
        rows = self.windows.to_sparse(roots * np.abs(roots))
        scale = 1.0 + np.asarray(abs(rows).sum(axis=0)).ravel()
        rows.data /= scale[rows.indices]
        return with_rows(np.asarray(1.0 / scale, np.float64), rows)


def loss_of(gram: OrderedGram | Ranges, windows: Windows) -> WindowLoss | RangeLoss:
    if isinstance(gram, Ranges):
        return RangeLoss(windows, gram)
    return WindowLoss(windows, gram)


def windows_of(n: int, sizes: tuple[int, ...], factor: int) -> Windows:
    return Windows(-(-n // factor), tuple(size // factor for size in sizes))


def step_seconds(loss: WindowLoss | RangeLoss) -> float:
    blocks, m, k = loss.windows.shape
    p = loss.windows.p
    if isinstance(loss, RangeLoss):
        cuts, edges = loss.windows.n, loss.ranges.laplacian.nnz
        whole = RANGE_SECONDS * p * (12.0 * cuts + edges) + ENTRY_SECONDS * blocks * m * k
        return STEP_SECONDS + whole + (4.0 * cuts * p * m + 6.0 * p**3) / SMALL_PRODUCTS
    products = 8.0 * p * p * blocks + 5.0 * p**3 + 8.0 * blocks * m * m * k
    return STEP_SECONDS + ENTRY_SECONDS * blocks * m * k + products / SMALL_PRODUCTS


def chains(n: int) -> tuple[tuple[int, ...], ...]:
    """Return the block sizes that are tried over n cells, each dividing the next."""
    if n < 128:
        fine = max(2, n // 12)
        return ((fine,), (fine, 4 * fine))
    if n < JOINED:
        return ((16, 128), (16, 256))
    if n < 2 * JOINED:
        return ((16, 256, 1024), (20, 400))
    fine = 20 if n < LARGE else 4 * round(6.0 * (n / 8192) ** (1 / 2))
    return ((fine, 20 * fine, 100 * fine), (fine, 20 * fine))


def range_chains(ranges: Ranges) -> tuple[tuple[int, ...], ...]:
    """Return the block sizes that are tried for ranges: none wider than most of their errors ask.

    Levels beyond the length of rows are idle, and blocks of a tenth of it serve short rows.
    """
    longest = ranges.typical_length
    if longest < SHORT:
        return ((4 * max(1, round(longest / 10)),),)
    fine = ((8, 64), (16, 128))
    pairs = fine if ranges.n < JOINED else ((20, 400),) if ranges.n < LARGE else ((28, 560),)
    return tuple((a, max(2 * a, min(b, longest // (2 * a) * a))) for a, b in pairs)


def best_windowed_rows(
    gram: OrderedGram | Ranges, generator: np.random.Generator, work: float
) -> Operator:
    """Return the best windowed p-Identity found for a workload over ordered cells."""
    tried = range_chains(gram) if isinstance(gram, Ranges) else chains(gram.n)
    trials = [
        first_descent(gram, sizes, generator).descend(TRIAL_SHARE * work / len(tried))
        for sizes in tried
    ]
    best = min(trials, key=lambda one: one.log_loss - np.log(one.coarse.diagonal.sum()))
    rest = (1.0 - TRIAL_SHARE) * work
    while best.factor > 1:
        best = best.descend(FINER_LATER * rest).refine()
        rest *= 1.0 - FINER_LATER
    return best.descend(rest).matrix()


def first_descent(
    gram: OrderedGram | Ranges, sizes: tuple[int, ...], generator: np.random.Generator
) -> Descent:
    """Return a start of a chain over the coarsest cells that its blocks allow."""
    if isinstance(gram, Ranges):
        joined = min(gram.n // JOINED, gram.typical_length // LONG)  # short rows start on all cells
        factor = 4 if joined >= 4 else 2 if joined >= 2 else 1
    else:
        factor = 1 if gram.n < 2 * JOINED else 2 if gram.n < LARGE else 4
    return Descent(gram, sizes, factor, windows_of(gram.n, sizes, factor).start(generator))
