"""The loss of a windowed p-Identity for any ranges of ordered cells, and its gradient.

As in `strategies.methods.ordered.window_loss`, but ``WᵀW`` is known by the Laplacian L of the cuts
between cells (`strategies.operators.ordered.ranges`) in place of two vectors: with C the sums of
``diag(e) Bᵀ`` up to every cut (n + 1, p),

    Hᵀ = e (sums of L C from a cell on).

A step costs the products of p rows with the cuts and edges of the graph: rows meet few others.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from strategies.methods.ordered.window_loss import inverse_of
from strategies.methods.ordered.windows import Windows
from strategies.operators import Array, Ranges
from strategies.operators.base.arrays import Longs
from strategies.operators.ordered.ranges import sums_from_cells, sums_to_cuts


@dataclass(frozen=True, eq=False)
class RangeLoss:
    """The logarithm of the loss as a function of the roots s, shape ``windows.shape``."""

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
            return float("inf"), np.zeros_like(roots)
        moved = self._moved(rows * scale, scale)
        moment = (self._adding @ (rows @ moved).reshape(-1, p))[:p]
        padded = np.concatenate([inverse, np.zeros((1, p))])
        solved = padded[windows.rows] @ moved.transpose(0, 2, 1)
        share = windows.by_blocks(self.ranges.diagonal) * scale**2
        share -= (solved * rows).sum(axis=1, keepdims=True)
        loss = float(share.sum())
        if not loss > 0:  # rows so large that rounding hides the loss
            return float("inf"), np.zeros_like(roots)
        slope = solved - windows.met(inverse @ moment @ inverse) @ rows
        gradient = (4.0 / loss) * (roots * (share / scale) - size * slope) * windows.mask
        return float(np.log(loss)), gradient
