"""A residual forest while it learns: what all releases so far imply. No record is in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.residuals.block import (
    EffectBlock,
    Smoothness,
    Table,
    attribute_kernel,
    block_components,
    updated,
)
from mrf_matrix.posterior.residuals.class_shares import CodeShares
from mrf_matrix.posterior.residuals.posterior import ResidualPosterior, purify

LARGEST_VARIANCE = 1.0
"""Variances of effects enter the mean that others are drawn to as no more than this."""

LEAST_CURVATURE = 1e-9  # added to curvatures, that no cell is impossible


@dataclass(frozen=True)
class Pooling:
    """How variances of effects are drawn to each other; see `ResidualSettings`."""

    smoothness: Smoothness
    prior_visits: float
    prior_variance: float
    strength: float
    largest_step: float

    def capped(self, effects: Array) -> Array:
        """Return effects on the log odds, none beyond the largest step."""
        return np.clip(effects, -self.largest_step, self.largest_step)


@dataclass(frozen=True, eq=False)
class ResidualState:
    """What releases imply, as frozen values.

    Attributes
    ----------
    sizes : tuple of int
    ordered : tuple of bool
    n_records : float
        Public, or estimated from a release.
    base, base_variance : float
        Log odds of the class totals, and what is unknown of the intercept.
    margins : tuple of ndarray
        Shares of each attribute's codes.
    pooling : Pooling
    blocks : tuple of EffectBlock
        Those seen, single attributes first, in the order of the attributes.
    shift : float
        What tables of residuals added to the intercept.
    variances : tuple of float
        Picked at each visit so far.
    code_shares : tuple of CodeShares
        By attribute, as the first pass tells them.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    n_records: float
    base: float
    base_variance: float
    margins: tuple[Array, ...]
    pooling: Pooling
    blocks: tuple[EffectBlock, ...]
    shift: float = 0.0
    variances: tuple[float, ...] = ()
    code_shares: tuple[CodeShares, ...] = ()

    def unseen_block(self, attributes: Sequence[int]) -> EffectBlock:
        """Return a block of attributes without effects."""
        kernels = [
            attribute_kernel(
                self.sizes[i], ordered=self.ordered[i], smoothness=self.pooling.smoothness
            )
            for i in attributes
        ]
        components = block_components(kernels, [self.margins[i] for i in attributes])
        return EffectBlock.unseen(attributes, [self.sizes[i] for i in attributes], components)

    def expected_counts(self, attributes: Sequence[int]) -> Array:
        """Return expected counts of a table's cells, attributes taken as independent."""
        shares: Array = np.ones(1)
        for i in attributes:
            shares = np.multiply.outer(shares, self.margins[i]).ravel()
        return np.asarray(self.n_records * shares)

    def with_block(self, block: EffectBlock) -> "ResidualState":
        """Return the state with one more block."""
        return replace(self, blocks=(*self.blocks, block))

    @property
    def intercept(self) -> float:
        """Log odds where no table has an effect."""
        return self.base + self.shift

    @property
    def moved(self) -> list[float]:
        """Mean square of what each attribute's effects move the log odds by, as far as known."""
        return [
            float(shares @ block.mean**2)
            for block, shares in zip(self.blocks, self.margins, strict=False)
        ]

    def capped(self) -> "ResidualState":
        """Return the state with no effect beyond the largest step."""
        blocks = (replace(one, mean=self.pooling.capped(one.mean)) for one in self.blocks)
        return replace(self, blocks=tuple(blocks))

    def visited(
        self,
        place: int,
        residuals: Array,
        curvatures: Array,
        variance: float,
        *,
        within: Callable[[Array], Array] = np.asarray,
    ) -> tuple["ResidualState", Array]:
        """Return the state after a table of residuals of one block, and what log odds gain.

        Parameters
        ----------
        place : int
            Of the block.
        residuals, curvatures : ndarray of shape (n,)
        variance : float
            Of the noise on each residual.
        within : callable
            What becomes of the change of effects on the log odds.
        """
        pooling = self.pooling
        seen = pooling.prior_visits * pooling.prior_variance + sum(self.variances)
        update = updated(
            self.blocks[place],
            Table(residuals, curvatures + LEAST_CURVATURE, variance),
            self.base_variance,
            seen / (pooling.prior_visits + len(self.variances)),
            within=within,
            pooling=pooling.strength,
        )
        state = replace(
            self,
            blocks=(*self.blocks[:place], update.block, *self.blocks[place + 1 :]),
            base_variance=max(update.intercept_variance, 1e-4),
            shift=self.shift + update.intercept_step,
            variances=(*self.variances, min(update.variance, LARGEST_VARIANCE)),
        )
        return state, update.step

    @property
    def posterior(self) -> ResidualPosterior:
        """What predictions need."""
        seen = tuple(block for block in self.blocks if block.n_visits)
        found = ResidualPosterior(self.base, self.shift, seen, self.margins, self._looked_at)
        return purify(found)

    @property
    def _looked_at(self) -> tuple[CodeShares, ...]:
        """Shares of the codes that a later pass looked at, by attribute; none without one."""
        pairs = list(zip(self.code_shares, self.blocks, strict=False))
        if not any(block.n_visits > 1 for _, block in pairs):
            return ()
        return tuple(
            one if block.left is None or block.n_visits < 2 else one.after(block.left)
            for one, block in pairs
        )
