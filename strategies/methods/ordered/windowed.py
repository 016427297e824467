"""Windowed p-Identity for Laplace noise over ordered cells, from coarse cells to fine ones.

A chain of block sizes says where the rows live (`strategies.methods.ordered.windows`). The descent
starts on cells joined in pairs or fours, with the same rows, where a step costs half or a quarter;
its roots, repeated, are the start over the finer cells. Which chain is best depends on n and on the
workload, so a few descend on coarse cells, and the best one goes on.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from strategies.methods.descents.descent import minimise
from strategies.methods.ordered.windows import RangeLoss, WindowLoss, Windows
from strategies.operators import Array, Operator, Ranges
from strategies.operators.ordered.ordered_sums import OrderedGram
from strategies.operators.ordered.p_identity import with_rows

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
        """The workload over the joined cells."""
        return self.gram.coarse(self.factor)

    @cached_property
    def windows(self) -> Windows:
        """The rows over the joined cells."""
        return windows_of(self.gram.n, self.sizes, self.factor)

    @property
    def relative_loss(self) -> float:
        """Log of the loss over the Identity's, over the joined cells."""
        return self.log_loss - float(np.log(self.coarse.diagonal.sum()))

    def after(self, work: float) -> "Descent":
        """Return the descent after some seconds of work."""
        loss = loss_of(self.coarse, self.windows)
        steps = int(work / step_seconds(loss))
        best = self
        while steps > 0:
            count = min(ROUND, steps) if steps >= ROUND + ROUND // 2 else steps
            start = best.roots if best is self else self.windows.away_from_zero(best.roots)
            roots, log_loss = minimise(loss, start, count)
            steps -= count
            if log_loss < best.log_loss - STALLED:
                best = replace(self, roots=roots, log_loss=log_loss)
            else:
                break
        return best

    def over_finer_cells(self) -> "Descent":
        """Return the same rows over cells half as wide, their roots repeated."""
        finer = windows_of(self.gram.n, self.sizes, self.factor // 2)
        roots = np.repeat(self.roots, 2, axis=2)[: finer.n_blocks] * finer.mask
        return Descent(self.gram, self.sizes, self.factor // 2, finer.away_from_zero(roots))

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
    """Return the loss of rows over windows for a workload."""
    if isinstance(gram, Ranges):
        return RangeLoss(gram, windows)
    return WindowLoss(gram, windows)


def windows_of(n: int, sizes: tuple[int, ...], factor: int) -> Windows:
    """Return the rows of a chain over joined cells."""
    return Windows(-(-n // factor), tuple(size // factor for size in sizes))


def step_seconds(loss: WindowLoss | RangeLoss) -> float:
    """Return the seconds of one step on the reference machine."""
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
    """Return the best windowed p-Identity found for a workload over ordered cells.

    `work`: seconds of the reference machine; turned into numbers of steps.
    """
    tried = range_chains(gram) if isinstance(gram, Ranges) else chains(gram.n)
    trials = [
        first_descent(gram, sizes, generator).after(TRIAL_SHARE * work / len(tried))
        for sizes in tried
    ]
    best = min(trials, key=lambda trial: trial.relative_loss)
    rest = (1.0 - TRIAL_SHARE) * work
    while best.factor > 1:
        best = best.after(FINER_LATER * rest).over_finer_cells()
        rest *= 1.0 - FINER_LATER
    return best.after(rest).matrix()


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
