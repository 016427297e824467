r"""A tree of labels and a posterior forest asked together: a logarithmic pool of both.

.. math::

    \log p(c \mid x) = \log \pi_c + w \log \frac{p_\text{tree}(c \mid x)}{\pi_c}
        + w \log \frac{p_\text{tables}(c \mid x)}{\pi_c} + \text{const}

with the class shares :math:`\pi` that the tables tell. Two that knew nothing in common would have
w = 1, and two that say the same 1/2.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array
from mrf_matrix.posterior.labelled import TINY, LabelPosterior
from mrf_matrix.posterior.product import ProductPosterior, distinct_numbers

WEIGHT = 0.7
"""The w of both: .6 and .8 were no better on public sets."""


@dataclass(frozen=True, eq=False)
class PooledPosterior:
    """Log odds of every record by a tree and by tables.

    Attributes
    ----------
    tree : LabelPosterior
    tables : ProductPosterior
    """

    tree: LabelPosterior
    tables: ProductPosterior

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.tree.n_classes

    @property
    def base(self) -> Array:
        """Logarithms of the class shares, (k,)."""
        return np.asarray(np.log(self.tables.totals.shares))

    def log_odds(self, codes: AnyInts) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k)."""
        return self._pool(codes, self.tables.log_odds(codes))

    def probabilities(self, codes: AnyInts) -> Array:
        """Return class probabilities, those of both averaged over what noise leaves, (b, k)."""
        logs = self._pool(codes, np.log(np.maximum(self.tables.probabilities(codes), TINY)))
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def margin_widths(
        self, codes: AnyInts, first: AnyInts, second: AnyInts, level: float
    ) -> tuple[Array, Array]:
        r"""Return how far the log odds between two classes may be below theirs, and above, (b,).

        .. math:: w \sqrt{u_\text{tree}^2 + u_\text{tables}^2}

        of the widths :math:`u` of either side (Zou and Donner, Statistics in Medicine 2008): exact
        where one part has all of the width or both are normal. Draws of the tree may be far above
        and hardly below, or the other way round; tails of .025 then had .014 to .033.
        """
        k, cells = self.n_classes, self.tree.cells_at(codes)
        shape = (len(self.tree.evidence), k, k)
        asked, own = distinct_numbers((cells * k + first) * k + second, prod(shape))
        places = np.transpose(np.unravel_index(asked, shape)).tolist()
        evidence = self.tree.evidence
        of_tree = [evidence[v].odds_widths(one, other, level) for v, one, other in places]
        sides = np.array(of_tree).reshape(-1, 2)[own].T
        of_tables = self.tables.margin_widths(codes, first, second, level)
        below, above = WEIGHT * np.hypot(sides, of_tables)
        return below, above

    def _pool(self, codes: AnyInts, of_tables: Array) -> Array:
        of_tree = np.log(np.maximum(self.tree.probabilities(codes), TINY))
        return np.asarray(self.base + WEIGHT * (of_tree + of_tables - 2 * self.base))

    def __repr__(self) -> str:
        return f"PooledPosterior({self.tree!r}, {self.tables!r})"
