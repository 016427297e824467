r"""Posteriors of labels of cells, with class counts where released, and their pool with tables.

Of each cell there are weighted draws of its class shares. A cell that released its label alone says
the same as every other one of that label; noisy counts tell each by itself.

.. math::

    \log p(c \mid x) = \log \pi_c + v \log \frac{p_\text{tree}(c \mid x)}{\pi_c}
        + w \log \frac{p_\text{tables}(c \mid x)}{\pi_c} + \text{const}

with the class shares :math:`\pi` that the tables tell. Two that knew nothing in common would have
v = w = 1, and two that say the same would share a weight of 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
from scipy.special import softmax

from mrf_matrix.base.arrays import AnyInts, Array, Bools, Longs
from mrf_matrix.posterior.product import ProductPosterior, distinct_numbers
from mrf_matrix.posterior.residual_posterior import ResidualPosterior

TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class CellShares:
    """Weighted draws of the class shares of a cell.

    Attributes
    ----------
    draws : ndarray of shape (draws, k)
        Draws of the shares; those of one label serve for all of them.
    weights : ndarray of shape (draws,)
        They sum to one.
    expected : ndarray of shape (k,), or None
        The mean of the shares, where it is known more exactly than the draws tell.
    turn : int
        How many classes on the first column of the draws is.
    """

    draws: Array
    weights: Array
    expected: Array | None = None
    turn: int = 0

    @property
    def shares(self) -> Array:
        """The draws in the order of the classes, (draws, k): a copy where they are turned."""
        return np.roll(self.draws, self.turn, axis=1) if self.turn else self.draws

    @cached_property
    def probabilities(self) -> Array:
        """Expected share of each class, shape (k,)."""
        return np.asarray(self.weights @ self.shares) if self.expected is None else self.expected

    @cached_property
    def leading_class(self) -> int:
        """The class of the largest expected share."""
        return int(self.probabilities.argmax())

    def rotate(self, places: int) -> "CellShares":
        """Return the same of the classes so many places on: of class 0 what is said of `places`."""
        expected = np.roll(self.probabilities, places)
        return CellShares(self.draws, self.weights, expected, self.turn + places)

    def log_odds(self, one: int, other: int) -> float:
        """Return the log odds of the expected shares of two classes."""
        logs = np.log(np.maximum(self.probabilities, TINY))
        return float(logs[one] - logs[other])

    def deviation(self, one: int, other: int) -> float:
        """Return the root mean square of log odds of two classes around `log_odds`."""
        away = self._odds_drawn(one, other) - self.log_odds(one, other)
        return float(np.sqrt(self.weights @ away**2))

    def odds_at(self, levels: Array, one: int, other: int) -> Array:
        """Return log odds of two classes in the draws at some parts of all weight, in their order.

        Of evenly spaced parts in (0, 1) each draw is among them as often as it weighs.
        """
        upto = np.cumsum(self.weights)
        places = np.searchsorted(upto, levels * upto[-1])
        return np.asarray(self._odds_drawn(one, other)[np.minimum(places, len(upto) - 1)])

    def odds_widths(self, one: int, other: int, level: float) -> tuple[float, float]:
        """Return how far log odds of two classes are below `log_odds`, and above.

        Of each side as in `margin_widths`.
        """
        return self._widths(self._odds_drawn(one, other), self.log_odds(one, other), level)

    @property
    def margin(self) -> float:
        """Log odds of the leading class against the next."""
        rest = np.delete(self.probabilities, self.leading_class)
        return float(np.log(self.probabilities[self.leading_class]) - np.log(max(rest.max(), TINY)))

    def margin_widths(self, level: float) -> tuple[float, float]:
        """Return how far log odds of the leading class against the next are below `margin`, above.

        They are beyond with probability ``(1 - level) / 2`` on each side. In a cell of nearly one
        class they may be far above `margin`, but hardly below: one width for both sides would
        reach 0 though the label is sure. No width is negative: an interval that would leave out
        `margin` is extended to it, and covers more.
        """
        logs = np.log(np.maximum(self.shares, TINY))
        ahead = logs[:, self.leading_class] - np.delete(logs, self.leading_class, axis=1).max(
            axis=1
        )
        return self._widths(ahead, self.margin, level)

    def _odds_drawn(self, one: int, other: int) -> Array:
        logs = np.log(np.maximum(self.shares[:, [one, other]], TINY))
        return np.asarray(logs[:, 0] - logs[:, 1])

    def _widths(self, drawn: Array, middle: float, level: float) -> tuple[float, float]:
        """Return how far the quantiles of draws that leave out equal tails are from a number."""
        tails = [(1 - level) / 2, (1 + level) / 2]
        low, high = np.quantile(drawn, tails, weights=self.weights, method="inverted_cdf")
        return max(middle - float(low), 0.0), max(float(high) - middle, 0.0)


class Table(Protocol):
    """Cells as one table over few attributes."""

    @property
    def places(self) -> tuple[Longs, ...]:
        """For each code of each attribute, its row in the table."""

    @property
    def numbers(self) -> Longs: ...

    @property
    def shares(self) -> Array:
        """The part of all combinations of codes in each place."""


class Partition(Protocol):
    """Cells that every record is in one of."""

    @property
    def attributes(self) -> tuple[int, ...]:
        """Positions of the attributes that cells depend on, rising."""

    @property
    def table(self) -> Table | None:
        """The cells as a table, where that is small."""

    @property
    def cell_shares(self) -> Array:
        """The part of all combinations of codes in each cell."""

    @property
    def boxes(self) -> tuple[tuple[int, Mapping[int, Bools]], ...]:
        """Cells, each with the codes that it holds of every attribute that cells depend on.

        Each combination of codes is in one of them. Those that say the same may have one number.
        """

    def cells(self, codes: AnyInts, /) -> Longs: ...


@dataclass(frozen=True, eq=False)
class LabelPosterior:
    """The cells of a tree, and what is known of each.

    Attributes
    ----------
    partition : Partition
        Which cell a record is in: a tree of labels.
    evidence : tuple of CellShares
        Of the cells of the tree.
    sizes : ndarray of shape (cells,), or None
        Estimated shares of all records, where counts tell them.
    """

    partition: Partition
    evidence: tuple[CellShares, ...]
    sizes: Array | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.evidence[0].draws.shape[1])

    @cached_property
    def labels(self) -> Longs:
        """The class of the largest probability in each cell of the tree."""
        return np.array([one.leading_class for one in self.evidence], dtype=np.int64)

    def cells_at(self, codes: AnyInts) -> Longs:
        """Return the cell of the tree of each record, shape (b,)."""
        return self.partition.cells(codes)

    def probabilities(self, codes: AnyInts) -> Array:
        """Return class probabilities, shape (b, k)."""
        shares = np.array([one.probabilities for one in self.evidence])
        return np.asarray(shares[self.cells_at(codes)])

    def log_odds(self, one: int, other: int) -> tuple[Array, Array]:
        """Return log odds of class `one` against `other` in each cell, and their deviations."""
        odds = np.array([cell.log_odds(one, other) for cell in self.evidence])
        deviations = np.array([cell.deviation(one, other) for cell in self.evidence])
        return odds, deviations

    def __repr__(self) -> str:
        sure = sorted(float(one.probabilities.max()) for one in self.evidence)
        between = f"{sure[0]:.3g}" if sure[0] == sure[-1] else f"{sure[0]:.3g} to {sure[-1]:.3g}"
        return (
            f"LabelPosterior(cells of attributes {list(self.partition.attributes)}, labels right "
            f"with probability {between})"
        )


WEIGHTS_BESIDE_TABLES, WEIGHTS_BESIDE_RESIDUALS = (0.7, 0.7), (0.5, 0.9)
"""Weights of the tree and of the tables: with .6 or .8 of both, and with .7 of both beside
residuals, pools were no better on public sets."""

TablesPosterior = ProductPosterior | ResidualPosterior
"""What tables imply by themselves."""


@dataclass(frozen=True, eq=False)
class PooledPosterior:
    """Log odds of every record by a tree and by tables.

    Attributes
    ----------
    tree : LabelPosterior
    tables : ProductPosterior or ResidualPosterior
        Of blocks measured at once, or of residuals.
    weights : tuple of float
        What the tree and the tables count, v and w.
    """

    tree: LabelPosterior
    tables: TablesPosterior
    weights: tuple[float, float] = WEIGHTS_BESIDE_TABLES

    @classmethod
    def of(cls, tree: LabelPosterior, tables: TablesPosterior) -> "PooledPosterior":
        """Return a tree and tables as one posterior, with the weights of their kind."""
        is_product = isinstance(tables, ProductPosterior)
        return cls(tree, tables, WEIGHTS_BESIDE_TABLES if is_product else WEIGHTS_BESIDE_RESIDUALS)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.tree.n_classes

    def log_odds(self, codes: AnyInts) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k)."""
        return self._pool(codes, self.tables.log_odds(codes))

    def probabilities(self, codes: AnyInts) -> Array:
        """Return class probabilities, those of both averaged over what noise leaves, (b, k)."""
        logs = self._pool(codes, np.log(np.maximum(self.tables.probabilities(codes), TINY)))
        return np.asarray(softmax(logs, axis=1))

    def margin_widths(
        self, codes: AnyInts, first: AnyInts, second: AnyInts, level: float
    ) -> tuple[Array, Array]:
        r"""Return how far the log odds between two classes may be below theirs, and above, (b,).

        .. math:: \sqrt{(v\,u_\text{tree})^2 + (w\,u_\text{tables})^2}

        of the widths :math:`u` of either side (Zou and Donner, Statistics in Medicine 2008): exact
        where one part has all of the width or both are normal. Draws of the tree may be far above
        and hardly below, or the other way round; tails of .025 then had .014 to .033.
        """
        k, cells = self.n_classes, self.tree.cells_at(codes)
        shape = (len(self.tree.evidence), k, k)
        asked, own = distinct_numbers((cells * k + first) * k + second, prod(shape))
        places = np.transpose(np.unravel_index(asked, shape)).tolist()
        evidence = self.tree.evidence
        of_tree = [evidence[cell].odds_widths(*pair, level) for cell, *pair in places]
        sides = np.array(of_tree).reshape(-1, 2)[own].T
        of_tables = np.stack(self.tables.margin_widths(codes, first, second, level))
        v, w = self.weights
        below, above = np.hypot(v * sides, w * of_tables)
        return below, above

    def _pool(self, codes: AnyInts, of_tables: Array) -> Array:
        of_tree = np.log(np.maximum(self.tree.probabilities(codes), TINY))
        (v, w), shares = self.weights, self.tables.log_shares
        return np.asarray(shares + v * (of_tree - shares) + w * (of_tables - shares))

    def __repr__(self) -> str:
        return f"PooledPosterior({self.tree!r}, {self.tables!r})"
