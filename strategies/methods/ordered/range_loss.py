"""The loss of a windowed p-Identity for any ranges of ordered cells, and its gradient.

As in `strategies.methods.ordered.window_loss`, but ``WᵀW`` is known by the Laplacian L of the cuts
between cells (`strategies.operators.ordered.ranges`) in place of two vectors: with C the sums of
``diag(e) Bᵀ`` up to every cut (n + 1, p),

    Q = Cᵀ L C,    Hᵀ = e (sums of L C from a cell on).

A step costs the products of p rows with the cuts and edges of the graph, and p² n.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

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

    def __call__(self, roots: Array) -> tuple[float, Array]:
        """Return the log of the loss at roots s, and its gradient."""
        n, p, mask = self.windows.n, self.windows.p, self.windows.mask
        s, size = roots[mask], np.abs(roots[mask])
        rows = np.zeros((n, p))  # Bᵀ
        rows.ravel()[self._places] = s * size
        cells = self._places // p
        scale = 1.0 + np.bincount(cells, size * size, n)
        inverse = inverse_of(rows.T @ rows + np.eye(p))
        if inverse is None:
            return float("inf"), np.zeros_like(roots)
        sums = sums_to_cuts(rows * scale[:, None])
        flow = self.ranges.laplacian @ sums
        moment = sums.T @ flow
        solved = (sums_from_cells(flow) * scale[:, None]) @ inverse
        share = scale**2 * self.ranges.diagonal - np.einsum("ij,ij->i", solved, rows)
        loss = float(share.sum())
        if not loss > 0:  # rows so large that rounding hides the loss
            return float("inf"), np.zeros_like(roots)
        solved -= rows @ (inverse @ moment @ inverse)
        gradient = np.zeros_like(roots)
        gradient[mask] = s * (share / scale)[cells] - size * solved.ravel()[self._places]
        return float(np.log(loss)), gradient * (4.0 / loss)
