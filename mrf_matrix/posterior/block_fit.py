r"""One block: its noisy table, its log-linear model, and a Newton step of its posterior mode.

Cell x of a block with attributes i has in class c the expected count

.. math::

    \mu_c(x) = N_c e^{b_c} \prod_i p_{ic}(x_i), \qquad
        p_{ic}(u) = \frac{e^{\alpha_i(u) + f_{ic}(u)}}{\sum_v e^{\alpha_i(v) + f_{ic}(v)}},

and the noisy count :math:`y_c(x)` has variance :math:`\mu_c(x)` (records are drawn) plus the known
noise variance v: the quasi-likelihood is :math:`(y + v) \log(\mu + v) - \mu`. :math:`\alpha_i` says
how common a code is, :math:`f_{ic}` how a class departs from that, and the intercepts :math:`b_c`
take up what the class totals' own error leaves over: without them that error would be explained by
effects. The shares of a class sum to one, so that skewed attributes need no intercept.

An effect is a vector over the attribute's codes, normal with covariance :math:`\tau_i K`, where
:math:`K` is centred (an effect that is equal for all codes is none) and, for ordered codes, smooth:

.. math::

    K \propto P \bigl((1-s) I + s\, (\rho^{|u-v|})_{uv}\bigr) P, \qquad P = I - \tfrac1n J,

scaled to trace :math:`n - 1`. How much an attribute matters, :math:`\tau_i`, is not set: it is
learned from the release.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_softmax

from mrf_matrix.base.arrays import Array
from strategies.operators.base.arrays import plain_floats


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Noisy counts of every combination of a block's codes, in each class.

    Parameters
    ----------
    attributes : tuple of int
        Positions of the block's attributes in the domain.
    sizes : tuple of int
        Their numbers of codes. Cells are numbered with the last attribute running fastest.
    values : ndarray of shape (n_B, k)
        Unbiased estimates of the counts.
    variance : float
        Known noise variance of each entry, in records squared; 0 for exact counts.

    Raises
    ------
    ValueError
        If the shapes do not fit, a value is not finite, or the variance is negative.
    """

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    values: Array
    variance: float

    def __post_init__(self) -> None:
        values = plain_floats("values", self.values)
        if len(self.sizes) != len(self.attributes) or values.ndim != 2:
            raise ValueError(
                f"a block of attributes {self.attributes} has sizes {self.sizes} and values of "
                f"shape {values.shape}: expected a size each, and values of shape (cells, k)."
            )
        if len(values) != prod(self.sizes):
            raise ValueError(
                f"values has {len(values)} rows: expected {prod(self.sizes)}, a row for each cell "
                f"of sizes {self.sizes}."
            )
        if not np.isfinite(values).all():
            raise ValueError("values holds NaN or infinity: expected finite numbers.")
        if not 0 <= self.variance < np.inf:
            raise ValueError(f"variance={self.variance!r}: expected a finite non-negative number.")
        object.__setattr__(self, "values", values)

    @property
    def n_cells(self) -> int:
        """Number of cells n_B."""
        return len(self.values)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.values.shape[1])

    @property
    def totals(self) -> Array:
        """Class totals by this block alone, of variance ``n_B * variance`` each, shape (k,)."""
        return np.asarray(self.values.sum(axis=0))

    def cells(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
        """Return the cells of records given by the codes of all the domain's attributes, (b,)."""
        cells = np.zeros(len(codes), dtype=np.intp)
        for attribute, size in zip(self.attributes, self.sizes, strict=True):
            cells *= size
            cells += codes[:, attribute]
        return cells

    def codes(self) -> NDArray[np.intp]:
        """Return every cell's code of each attribute of the block, shape (n_B, m)."""
        return np.stack(np.unravel_index(np.arange(self.n_cells), self.sizes), axis=1)


def check_blocks(tables: Sequence[BlockTable], n_classes: int) -> None:
    """Refuse blocks that share an attribute, or count other classes.

    Raises ValueError if they do.
    """
    seen = [i for table in tables for i in table.attributes]
    if len(seen) != len(set(seen)):
        raise ValueError(f"blocks of attributes {seen} overlap: expected each attribute once.")
    for table in tables:
        if table.n_classes != n_classes:
            raise ValueError(
                f"block {table.attributes} counts {table.n_classes} classes: expected {n_classes}."
            )


@dataclass(frozen=True, eq=False)
class ClassTotals:
    """How many records each class has, as far as a release tells.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Positive.
    error : float
        Standard error of the unbiased estimates behind them, in records.
    """

    values: Array
    error: float

    @property
    def shares(self) -> Array:
        """Share of each class."""
        return np.asarray(self.values / self.values.sum())


@dataclass(frozen=True, eq=False)
class Arrow:
    """A symmetric positive definite matrix of this shape: w own terms a class, P common ones."""

    common: Array  # (P, P): C
    cross: Array  # (k, w, P): each class's own terms against the common ones, B
    own: Array  # (k, w, w): A

    def solve(self, common: Array, own: Array) -> tuple[Array, Array]:
        sides = np.concatenate([self.cross, own[:, :, None]], axis=2)
        solved = np.linalg.solve(self.own, sides)
        slopes, alone = solved[:, :, :-1], solved[:, :, -1]
        left = self._left(slopes)
        found = np.linalg.solve(left, common - np.einsum("cwp,cw->p", self.cross, alone))
        return np.asarray(found), np.asarray(alone - slopes @ found)

    def inverse(self) -> "ArrowInverse":
        own = np.linalg.inv(self.own)
        slopes = own @ self.cross
        left = self._left(slopes)
        return ArrowInverse(np.asarray(np.linalg.inv(left)), np.asarray(slopes), np.asarray(own))

    def _left(self, slopes: Array) -> Array:
        """Return what is left of the common terms' precision, S: one product a class."""
        left = self.common.copy()
        for cross, slope in zip(self.cross, slopes, strict=True):
            left -= cross.T @ slope
        return left


@dataclass(frozen=True, eq=False)
class ArrowInverse:
    """The inverse of an `Arrow`: a covariance of common terms and of every class's own."""

    common: Array  # (P, P): covariance of the common terms
    slopes: Array  # (k, w, P): by which own terms fall where common ones rise, U
    alone: Array  # (k, w, w): covariance of own terms were the common ones known

    def own_terms(self, terms: slice) -> Array:
        """Return the covariance of some own terms of each class, shape (k, n, n)."""
        slopes = self.slopes[:, terms]
        moved = slopes @ self.common @ slopes.transpose(0, 2, 1)
        return np.asarray(self.alone[:, terms, terms] + moved)

    def pair_covariance(self, one: int, other: int) -> Array:
        """Return the covariance of the common terms, and of the first P own ones of two classes.

        Shape (3 P, 3 P), in this order.
        """
        width = len(self.common)
        moves = np.vstack([np.eye(width), -self.slopes[one, :width], -self.slopes[other, :width]])
        found = moves @ self.common @ moves.T
        for place, number in ((1, one), (2, other)):
            here = slice(place * width, (place + 1) * width)
            found[here, here] += self.alone[number, :width, :width]
        return np.asarray(found)

    @property
    def is_finite(self) -> bool:
        return all(np.isfinite(one).all() for one in (self.common, self.slopes, self.alone))


SMOOTHNESS = 0.7
CORRELATION = 0.9
FIRM = 1e3
"""Precision of the sum of an effect over its codes: zero, as good as."""


@dataclass(frozen=True)
class EffectPrior:
    """Prior precision of effects, up to the variance that is learned."""

    size: int  # number of codes n
    ordered: bool  # whether neighbouring codes have similar effects

    @cached_property
    def precision(self) -> Array:
        """Pseudo-inverse of K, shape (n, n)."""
        n = self.size
        if n == 1:
            return np.zeros((1, 1))
        kernel = np.eye(n)
        if self.ordered and n > 2:
            steps = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
            kernel = (1 - SMOOTHNESS) * kernel + SMOOTHNESS * CORRELATION**steps
        centre = np.eye(n) - 1.0 / n
        kernel = centre @ kernel @ centre
        return np.asarray(np.linalg.pinv(kernel * ((n - 1) / np.trace(kernel)), hermitian=True))

    @cached_property
    def constraint(self) -> Array:
        """Precision that keeps effects centred, (n, n): not scaled by the learned variance."""
        return np.full((self.size, self.size), FIRM / self.size)


Design = Array | sparse.csr_array

SMALL_DESIGN = 2**18
AT_ONCE = 2**22
"""Entries of the products of a design that are held at once, of several classes together."""

LONGEST_STEP = 0.7
LARGEST_LOG = 6.0
WIDEST_INTERCEPT = 3.0
LEAST_INTERCEPT = 0.01


@dataclass(frozen=True, eq=False)
class BlockModel:
    """Table, priors and design of a block, the same at every step of its fit."""

    table: BlockTable
    priors: tuple[EffectPrior, ...]  # one for each attribute of the block
    totals: ClassTotals

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each attribute's codes start among the P codes of the block, and P itself."""
        return tuple(np.cumsum([0, *self.table.sizes]).tolist())

    @property
    def n_codes(self) -> int:
        """Codes of all attributes of the block, P."""
        return self.starts[-1]

    @cached_property
    def design(self) -> Design:
        """Which codes a cell has, and its intercept: 0/1, shape (n_B, P + 1).

        An array up to `SMALL_DESIGN` entries, where a sparse one costs more than it saves.
        """
        cells, width = self.table.n_cells, len(self.table.sizes) + 1
        columns = np.empty((cells, width), dtype=np.int64)
        columns[:, :-1] = self.table.codes() + np.asarray(self.starts[:-1], dtype=np.int64)
        columns[:, -1] = self.n_codes
        pointers = np.arange(0, cells * width + 1, width)
        design = sparse.csr_array(
            (np.ones(cells * width), columns.ravel(), pointers), shape=(cells, self.n_codes + 1)
        )
        if cells * (self.n_codes + 1) > SMALL_DESIGN:
            return design
        return np.asarray(design.toarray(), dtype=np.float64)

    @cached_property
    def intercept_precision(self) -> Array:
        """Prior precision of each class's intercept: the error of its total, relative to it."""
        spread = self.totals.error / self.totals.values + LEAST_INTERCEPT
        return np.asarray(1.0 / np.minimum(spread, WIDEST_INTERCEPT) ** 2)

    def shares(self, fit: "BlockFit") -> Array:
        """Return the share of a class's records with each code of each attribute, shape (k, P)."""
        return np.concatenate([np.exp(logs) for logs in self._log_shares(fit)], axis=1)

    def evidence(self, fit: "BlockFit") -> Array:
        r"""Return what a cell says of the classes, shape (n_B, k).

        :math:`\sum_i \log p_{ic}(x_i) - \alpha_i(x_i)`: the log likelihood, but for what all
        classes share.
        """
        logs = np.concatenate(self._log_shares(fit), axis=1) - fit.common
        return np.asarray(self.design[:, :-1] @ logs.T)

    def expected_counts(self, fit: "BlockFit") -> Array:
        logs = self.evidence(fit) + (self.design[:, :-1] @ fit.common)[:, None]
        logs += np.log(self.totals.values) + fit.class_terms[:, -1]
        return np.asarray(np.exp(np.clip(logs, -20.0, np.log(self.totals.values.sum()) + 1.0)))

    def _log_shares(self, fit: "BlockFit") -> list[Array]:
        logs = np.split(fit.common + fit.class_terms[:, :-1], self.starts[1:-1], axis=1)
        return [np.asarray(log_softmax(part, axis=1)) for part in logs]

    def variances(self, fit: "BlockFit", here: slice, one: int, other: int) -> Array:
        """Return the variances of an attribute's log odds between two classes, shape (n_i,).

        The gradient in code u is ``m_two - m_one`` for what is common, ``e_u - m_one`` for the
        effects of the first class and ``m_two - e_u`` for those of the second, m the shares.
        """
        codes = np.arange(here.start, here.stop)
        rows = np.concatenate([codes + place * self.n_codes for place in range(3)])
        covariance = fit.covariance.pair_covariance(one, other)[np.ix_(rows, rows)]
        first, second = (self.shares(fit)[c, here] for c in (one, other))
        unit = np.eye(len(codes))
        common = np.tile(second - first, (len(codes), 1))
        gradient = np.hstack([common, unit - first, second - unit])
        return np.asarray(np.maximum(((gradient @ covariance) * gradient).sum(axis=1), 0.0))

    def prior_precision(self, relevance: Array) -> Array:
        """Return the prior precision of one class's terms, shape (P + 1, P + 1), intercept 0."""
        precision = np.zeros((self.n_codes + 1, self.n_codes + 1))
        for prior, start, variance in zip(self.priors, self.starts, relevance, strict=False):
            here = slice(start, start + prior.size)
            precision[here, here] = prior.precision / variance + prior.constraint
        return precision


@dataclass(frozen=True, eq=False)
class BlockFit:
    r"""Posterior mode of a block and the covariance around it (Laplace approximation)."""

    common: Array  # (P,): how common each code is, :math:`\alpha`
    class_terms: Array  # (k, P + 1): effects :math:`f` and, last, the intercept of each class
    covariance: ArrowInverse  # of ``common`` and of each class's terms
    moved: float = np.inf  # length of the last step's largest entry

    @staticmethod
    def start(model: BlockModel) -> "BlockFit":
        """Return the fit in which nothing depends on anything."""
        k, codes = model.table.n_classes, model.n_codes
        own, slopes = np.zeros((k, codes + 1, codes + 1)), np.zeros((k, codes + 1, codes))
        unknown = ArrowInverse(np.zeros((codes, codes)), slopes, own)
        return BlockFit(np.zeros(codes), np.zeros((k, codes + 1)), unknown)


def newton_step(model: BlockModel, fit: BlockFit, relevance: Array) -> BlockFit:
    """Return the fit after one step towards the posterior mode, and the covariance before it.

    The covariance is of the expected information. Where noise makes counts lower than expected,
    the observed information is larger, and steps by the expected one would overshoot and never
    settle: the step's curvature has what is positive of the difference added.

    The largest arrays hold ``(P + 1)²`` numbers a class, beside the design's non-zeros.
    """
    table = model.table
    expected = model.expected_counts(fit)
    spread = table.variance + expected + 1e-12
    slopes = (table.values - expected) * expected / spread
    beyond = np.maximum(-slopes, 0.0) * table.variance / spread
    shares = np.pad(model.shares(fit), [(0, 0), (0, 1)])
    slope = np.asarray(model.design.T @ slopes).T
    excess = _information(model, beyond, shares)
    excess += np.maximum(slope[:, -1], 0.0)[:, None, None] * _share_covariance(model, shares)
    slope = slope - shares * slope[:, -1:]
    information = _information(model, expected**2 / spread, shares)
    prior = np.tile(model.prior_precision(relevance), (table.n_classes, 1, 1))
    prior[:, -1, -1] = model.intercept_precision
    step = _arrow(information + excess, prior).solve(
        slope[:, :-1].sum(axis=0) - fit.common,
        slope - np.einsum("cuv,cv->cu", prior, fit.class_terms),
    )
    return _move(fit, step, _arrow(information, prior).inverse())


def _arrow(information: Array, prior: Array) -> Arrow:
    common = information[:, :-1, :-1].sum(axis=0) + np.eye(information.shape[1] - 1)
    return Arrow(common, information[:, :, :-1], information + prior)


def _information(model: BlockModel, weights: Array, shares: Array) -> Array:
    """Return ``(D - 1 pᵀ)ᵀ W (D - 1 pᵀ)`` of each class, D the design, p the shares of its codes.

    A code's term also lowers the shares of the attribute's other codes: the derivatives of the
    log counts are the design less its means. Its last column is ones.
    """
    gram = _grams(model.design, weights.T)
    cross = gram[:, :, -1:] * shares[:, None, :]
    gram += gram[:, -1:, -1:] * shares[:, :, None] * shares[:, None, :]
    return np.asarray(gram - cross - cross.transpose(0, 2, 1))


def _grams(design: Design, weights: Array) -> Array:
    """Return ``Dᵀ W D`` for each row of weights, shape (k, P + 1, P + 1)."""
    if not isinstance(design, np.ndarray):
        return np.stack([(design.T @ (design * own[:, None])).toarray() for own in weights])
    together = np.array_split(weights, -(-len(weights) * design.size // AT_ONCE))
    return np.concatenate([(design.T * some[:, None, :]) @ design for some in together])


def _share_covariance(model: BlockModel, shares: Array) -> Array:
    """Return minus the second derivative of each class's log counts, the same in every cell."""
    second = np.zeros((*shares.shape, shares.shape[1]))
    for start, size in zip(model.starts, model.table.sizes, strict=False):
        here = slice(start, start + size)
        own = shares[:, here]
        second[:, here, here] = np.eye(size) * own[:, None] - own[:, :, None] * own[:, None]
    return second


def _move(fit: BlockFit, step: tuple[Array, Array], covariance: ArrowInverse) -> BlockFit:
    """Return the fit one step on, shortened until no entry moves more than `LONGEST_STEP`."""
    longest = max(float(np.abs(one).max(initial=0.0)) for one in step)
    share = min(1.0, LONGEST_STEP / max(longest, 1e-300))
    common, terms = fit.common + share * step[0], fit.class_terms + share * step[1]
    return BlockFit(
        np.asarray(np.clip(common, -LARGEST_LOG, LARGEST_LOG)),
        np.asarray(np.clip(terms, -LARGEST_LOG, LARGEST_LOG)),
        covariance,
        share * longest,
    )
