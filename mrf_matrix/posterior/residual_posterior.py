r"""The posterior of a residual forest: log odds as a sum of tables.

.. math:: F(x) = f_0 + \sum_B g_B(x_B)

with a normal posterior for every table: the log odds of two classes, or a score of each of several,
whose softmax are the probabilities. Probabilities are those of its mean: residuals are taken
from them, so they agree with what the tables said. Averaged over the posterior they would not.

Tables of several attributes hold nothing which single attributes could. The means of a pair's
effects over either attribute, by the released shares of the other's codes, are moved to the tables
of these attributes, and its mean to the intercept (Lengerich et al., Purifying Interaction Effects
with the Functional ANOVA, AISTATS 2020).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax
from scipy.stats import norm

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.class_shares import CodeShares
from mrf_matrix.posterior.residual_blocks import (
    LEAST_UNKNOWN,
    EffectBlock,
    Smoothness,
    Table,
    attribute_kernel,
    block_components,
    update_block,
)

LEAST_SHARE = 0.01  # no class is taken to be rarer

USUAL_LEAN, LARGEST_LEAN = 0.15, 0.3
"""Usual distance of a class's share from one half, and the largest that is thought usual."""

LEAST_OF_FAIR = 0.1
"""No code is taken to be rarer than this part of a fair share divided by the number of codes."""


def estimated_total(totals: Array, n_records: int | None) -> float:
    """Return the number of records: the public one, or what noisy class totals say, at least 1."""
    return float(n_records) if n_records is not None else max(float(totals.sum()), 1.0)


def intercept(totals: Array, variance: float, n_records: float) -> tuple[float, float]:
    """Return the log odds of class 1 and what is unknown of them, from noisy class totals.

    The share's distance from one half is shrunk by the noise it may be made of.

    Parameters
    ----------
    totals : ndarray of shape (2,)
    variance : float
        Of the noise on each total.
    n_records : float
        Public, or estimated.
    """
    lean, unknown = (totals[1] - totals[0]) / 2, variance / 2
    usual, largest = (USUAL_LEAN * n_records) ** 2, (LARGEST_LEAN * n_records) ** 2
    signal = min(max(lean**2 - unknown, usual), largest)
    share = 0.5 + lean * signal / (signal + unknown) / n_records
    share = float(np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE))
    slope = n_records * share * (1 - share)
    return log(share / (1 - share)), min(unknown / slope**2, 0.5) + 1e-3


def intercepts(totals: Array, variance: float, n_records: float) -> tuple[Array, Array]:
    """Return the scores of several classes and what is unknown of each, from noisy class totals.

    `totals` (k,); `variance`: of the noise on each; `n_records`: public, or estimated.
    """
    shares = margin(totals, variance, n_records)
    return np.log(shares), np.minimum(variance / (n_records * shares) ** 2, 0.5) + 1e-3


def shrunk_counts(counts: Array, expected: Array, variance: float) -> Array:
    """Return noisy counts, shrunk toward expected ones as far as noise explains the distance.

    Parameters
    ----------
    counts, expected : ndarray of shape (n,)
    variance : float
        Of the noise on each count.
    """
    gaps = counts - expected
    signal = max(float(np.mean(gaps**2)) - variance, 0.0)
    return expected + gaps * (signal / (signal + variance) if signal else 0.0)


def margin(counts: Array, variance: float, n_records: float) -> Array:
    """Return the shares of an attribute's codes from noisy counts; positive, summing to one."""
    fair = np.full(len(counts), n_records / len(counts))
    centred = counts + (n_records - counts.sum()) / len(counts)
    kept = shrunk_counts(centred, fair, variance)
    positive = np.maximum(kept, LEAST_OF_FAIR * fair / len(counts))
    return np.asarray(positive / positive.sum())


Codes = NDArray[np.integer]


def block_cells(block: EffectBlock, codes: Codes) -> NDArray[np.int64]:
    """Return the cell of a block's table that each record lies in, shape (b,)."""
    places = tuple(codes[:, i] for i in block.attributes)
    return np.asarray(np.ravel_multi_index(places, block.sizes), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Score:
    """A sum of tables: the log odds of class 1 of two, or the score of one of several.

    Attributes
    ----------
    base : float
        That of the class totals.
    shift : float
        What tables of residuals added to the intercept.
    blocks : tuple of EffectBlock
        Tables with effects.
    margins : tuple of ndarray
        Released shares of each attribute's codes.
    code_shares : tuple of CodeShares
        Of the column's class, by attribute; empty where no pass followed the first.
    """

    base: float
    shift: float
    blocks: tuple[EffectBlock, ...]
    margins: tuple[Array, ...] = ()
    code_shares: tuple[CodeShares, ...] = ()

    def effects(self, codes: Codes) -> Array:
        """Return the posterior mean of ``F - base``, shape (b,)."""
        found = np.full(len(codes), self.shift)
        for block in self.blocks:
            found += block.mean[block_cells(block, codes)]
        return found

    def variances(self, codes: Codes) -> Array:
        """Return the posterior variance, shape (b,), as if tables were apart."""
        found = np.zeros(len(codes))
        for block in self.blocks:
            found += np.diagonal(block.covariance)[block_cells(block, codes)]
        return found

    def means(self, codes: Codes) -> Array:
        """Return the posterior mean, shape (b,)."""
        return np.asarray(self.base + self.effects(codes))


@dataclass(frozen=True, eq=False)
class ResidualPosterior:
    """What tables of residuals imply of every class.

    Attributes
    ----------
    columns : tuple of Score
        Of two classes the log odds of the second; else a score a class, all over the same tables.
    n_classes : int
    """

    columns: tuple[Score, ...]
    n_classes: int

    @property
    def blocks(self) -> tuple[EffectBlock, ...]:
        """Tables with effects, of the first column."""
        return self.columns[0].blocks

    @property
    def margins(self) -> tuple[Array, ...]:
        """Released shares of each attribute's codes."""
        return self.columns[0].margins

    def signed_columns(self, one: int, other: int) -> tuple[tuple[float, Score], ...]:
        """Return the signed columns that the log odds of one class against another sum."""
        if self.n_classes == 2:
            return ((1.0 if one > other else -1.0, self.columns[0]),)
        return (1.0, self.columns[one]), (-1.0, self.columns[other])

    @property
    def log_shares(self) -> Array:
        """Logarithms of the released class shares, (k,)."""
        bases = [one.base for one in self.columns]
        return np.asarray(log_softmax([0.0, *bases] if self.n_classes == 2 else bases))

    def log_odds(self, codes: Codes) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k)."""
        scores = [one.means(codes) for one in self.columns]
        return np.stack([np.zeros(len(codes)), *scores] if self.n_classes == 2 else scores, axis=1)

    def probabilities(self, codes: Codes) -> Array:
        """Return class probabilities, shape (b, k)."""
        odds = self.log_odds(codes)
        if self.n_classes == 2:
            return np.column_stack([expit(-odds[:, 1]), expit(odds[:, 1])])
        return np.asarray(softmax(odds, axis=1))

    def margin_widths(
        self, codes: Codes, first: Codes, second: Codes, level: float
    ) -> tuple[Array, Array]:
        """Return how far the log odds between two classes may be below their mean, and above.

        Both are the same, (b,): normal quantiles at `level`, as if tables were apart.
        """
        variances = np.stack([one.variances(codes) for one in self.columns], axis=1)
        rows = np.arange(len(codes))
        if self.n_classes == 2:
            found = variances[:, 0]
        else:
            found = variances[rows, first] + variances[rows, second]
        widths = float(norm.ppf(0.5 + level / 2)) * np.sqrt(found)
        return widths, widths

    def __repr__(self) -> str:
        return f"ResidualPosterior({len(self.blocks)} tables, {self.n_classes} classes)"


def purify(score: Score) -> Score:
    """Return the same sums, with no mean left over any attribute in tables of several.

    There are tables of all attributes of such a table. Variances move as if tables were apart.
    """
    blocks, shift = list(score.blocks), score.shift
    singles = {b.attributes[0]: at for at, b in enumerate(blocks) if len(b.attributes) == 1}
    for place, block in enumerate(score.blocks):
        if len(block.attributes) == 1:
            continue
        margins = [score.margins[i] for i in block.attributes]
        mean, parts, rest = _projections(margins)
        shift += float(mean @ block.mean)
        for i, part in zip(block.attributes, parts, strict=True):
            blocks[singles[i]] = _add_part(blocks[singles[i]], part, block)
        nothing = replace(block, mean=0 * block.mean, covariance=0 * block.covariance)
        blocks[place] = _add_part(nothing, rest, block)
    return replace(score, blocks=tuple(blocks), shift=shift)


def _projections(margins: Sequence[Array]) -> tuple[Array, list[Array], Array]:
    """Return a table's mean, the main effect of each attribute, and the rest, as matrices.

    They are ``q``, ``E_i - 1 q'`` with ``E_i`` the means given a code of attribute i, and what
    identity is left: of shapes (n,), (n_i, n) and (n, n).
    """
    mean = _product(margins)
    rest = np.eye(len(mean)) - mean
    parts, cells = [], np.indices([len(one) for one in margins]).reshape(len(margins), -1)
    for axis, codes in enumerate(cells):
        rows = [np.eye(len(q)) if j == axis else q[None, :] for j, q in enumerate(margins)]
        parts.append(_product(rows) - mean)
        rest -= parts[-1][codes]
    return mean, parts, rest


def _product(factors: Sequence[Array]) -> Array:
    return reduce(lambda one, other: np.asarray(np.kron(one, other), dtype=np.float64), factors)


def _add_part(block: EffectBlock, part: Array, other: EffectBlock) -> EffectBlock:
    """Return a block with a linear part of another's effects, (n, other's n), added to its own."""
    covariance = block.covariance + part @ other.covariance @ part.T
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] = np.maximum(covariance[diagonal], LEAST_UNKNOWN)
    return replace(block, mean=block.mean + part @ other.mean, covariance=covariance)


LARGEST_VARIANCE = 1.0
"""Variances of effects enter the mean that others are drawn to as no more than this."""

LEAST_CURVATURE = 1e-9  # added to curvatures, that no cell is impossible


@dataclass(frozen=True)
class PoolingSettings:
    """How variances of effects are drawn to each other; see `ResidualSettings`."""

    smoothness: Smoothness
    prior_visits: float
    prior_variance: float
    strength: float
    largest_step: float

    def cap(self, effects: Array) -> Array:
        """Return effects on the log odds, none beyond the largest step."""
        return np.clip(effects, -self.largest_step, self.largest_step)


@dataclass(frozen=True, eq=False)
class ResidualState:
    """The posterior of one column while a residual forest learns.

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
    pooling : PoolingSettings
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
    pooling: PoolingSettings
    blocks: tuple[EffectBlock, ...]
    shift: float = 0.0
    variances: tuple[float, ...] = ()
    code_shares: tuple[CodeShares, ...] = ()

    def empty_block(self, attributes: Sequence[int]) -> EffectBlock:
        """Return a block of attributes without effects."""
        kernels = [
            attribute_kernel(
                self.sizes[i], ordered=self.ordered[i], smoothness=self.pooling.smoothness
            )
            for i in attributes
        ]
        components = block_components(kernels, [self.margins[i] for i in attributes])
        return EffectBlock.empty(attributes, [self.sizes[i] for i in attributes], components)

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
    def mean_squares(self) -> list[float]:
        """Mean square of what each attribute's effects move the log odds by, as far as known."""
        return [
            float(shares @ block.mean**2)
            for block, shares in zip(self.blocks, self.margins, strict=False)
        ]

    def cap(self) -> "ResidualState":
        """Return the state with no effect beyond the largest step."""
        blocks = (replace(one, mean=self.pooling.cap(one.mean)) for one in self.blocks)
        return replace(self, blocks=tuple(blocks))

    def visit(
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
        update = update_block(
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
    def score(self) -> Score:
        """What predictions need."""
        seen = tuple(block for block in self.blocks if block.n_visits)
        found = Score(self.base, self.shift, seen, self.margins, self._revisited_shares)
        return purify(found)

    @property
    def _revisited_shares(self) -> tuple[CodeShares, ...]:
        """Shares of the codes that a later pass looked at, by attribute; none without one."""
        pairs = list(zip(self.code_shares, self.blocks, strict=False))
        if not any(block.n_visits > 1 for _, block in pairs):
            return ()
        return tuple(
            one if block.left is None or block.n_visits < 2 else one.with_remainder(block.left)
            for one, block in pairs
        )
