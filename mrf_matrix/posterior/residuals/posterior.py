r"""What the releases of a residual forest imply: log odds as a sum of tables.

.. math:: F(x) = f_0 + \sum_B g_B(x_B)

with a normal posterior for every table. Probabilities are those of its mean: residuals are taken
from them, so they agree with what the tables said. Averaged over the posterior they would not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mrf_matrix.posterior.residuals.block import EffectBlock

Floats = NDArray[np.float64]
Codes = NDArray[np.integer]
Margins = tuple[NDArray[np.int64], Floats, Floats]


def block_cells(block: EffectBlock, codes: Codes) -> NDArray[np.int64]:
    """Return the cell of a block's table that each record lies in, shape (b,)."""
    places = tuple(codes[:, i] for i in block.attributes)
    return np.asarray(np.ravel_multi_index(places, block.sizes), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ResidualPosterior:
    """Log odds of class 1 as a sum of tables.

    Attributes
    ----------
    base : float
        Log odds of the class totals.
    shift : float
        What tables of residuals added to the intercept.
    blocks : tuple of EffectBlock
        Tables with effects.
    margins : tuple of ndarray
        Released shares of each attribute's codes.
    """

    base: float
    shift: float
    blocks: tuple[EffectBlock, ...]
    margins: tuple[Floats, ...] = ()

    def effects(self, codes: Codes) -> Floats:
        """Return the posterior mean of ``F - base``, shape (b,)."""
        found = np.full(len(codes), self.shift)
        for block in self.blocks:
            found += block.mean[block_cells(block, codes)]
        return found

    def variances(self, codes: Codes) -> Floats:
        """Return the posterior variance of the log odds, shape (b,), as if tables were apart."""
        found = np.zeros(len(codes))
        for block in self.blocks:
            found += np.diagonal(block.covariance)[block_cells(block, codes)]
        return found

    def log_odds(self, codes: Codes) -> Floats:
        """Return the posterior mean of the log odds of class 1, shape (b,)."""
        return np.asarray(self.base + self.effects(codes))

    def probabilities(self, codes: Codes) -> Floats:
        """Return the probabilities of classes 0 and 1, shape (b, 2)."""
        odds = self.log_odds(codes)
        return np.column_stack([expit(-odds), expit(odds)])

    def leading(self, codes: Codes) -> Margins:
        """Return the likelier classes, by how much they lead, and its variance, (b,) each."""
        odds = self.log_odds(codes)
        return (odds > 0).astype(np.int64), np.abs(odds), self.variances(codes)

    @property
    def columns(self) -> tuple["ResidualPosterior", ...]:
        """Itself: class 0 needs no score of its own."""
        return (self,)

    def between(self, one: int, other: int) -> tuple[tuple[float, "ResidualPosterior"], ...]:
        """Return the signed columns that the log odds of one class against the other sum."""
        return ((1.0 if one > other else -1.0, self),)
