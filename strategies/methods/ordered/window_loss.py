"""The loss of a windowed p-Identity over ordered cells, and its gradient, in near-linear time.

With ``A = [I; B] diag(1/e)``, ``e_j = 1 + ||b_j||_1``, ``B = s |s|`` and the workload's Gram
``G_ij = u_min v_max``,

    S = I + B Bᵀ,   H = B diag(e) G diag(e),   Q = H Bᵀ,   T = S⁻¹ H,   Z = S⁻¹ Q S⁻¹,
    r = e² g - colsum(T * B),   loss = sum r,
    dloss/ds = 4 (s r / e - |s| (T - Z B)).

H is never built (p x n). Within a finest block, ``H = e (v P + u N)`` where P and N count what a
row sums before the block and from the block on, one number a row and block, and the few rows that
meet the block add ``X = e (v cumsum(u h) - u cumsum(v h))``, ``h = B diag(e)``.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from strategies.methods.ordered.windows import Windows
from strategies.operators import Array
from strategies.operators.ordered.ordered_gram import OrderedGram


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
            return float("inf"), np.zeros_like(roots)
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
            return float("inf"), np.zeros_like(roots)
        slope = solved - self.windows.met(bend) @ rows
        gradient = (4.0 / loss) * (roots * (share / scale) - size * slope) * self.windows.mask
        return float(np.log(loss)), gradient


def inverse_of(matrix: Array) -> Array | None:
    """Return the inverse of a symmetric positive definite matrix, None where it is none."""
    factor, info = linalg.lapack.dpotrf(matrix, lower=1)
    if info == 0:
        inverse, info = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return None if info else np.asarray(inverse + np.tril(inverse, -1).T)
