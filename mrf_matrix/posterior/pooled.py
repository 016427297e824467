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

    def margin_variances(self, codes: AnyInts, first: AnyInts, second: AnyInts) -> Array:
        """Return the posterior variance of the log odds between two classes, shape (b,)."""
        k, cells = self.n_classes, self.tree.cells_at(codes)
        shape = (len(self.tree.evidence), k, k)
        asked, own = distinct_numbers((cells * k + first) * k + second, prod(shape))
        places = np.transpose(np.unravel_index(asked, shape)).tolist()
        evidence = self.tree.evidence
        deviations = np.array([evidence[v].deviation(one, other) for v, one, other in places])
        of_tables = self.tables.margin_variances(codes, first, second)
        return np.asarray(WEIGHT**2 * (deviations[own] ** 2 + of_tables))

    def _pool(self, codes: AnyInts, of_tables: Array) -> Array:
        of_tree = np.log(np.maximum(self.tree.probabilities(codes), TINY))
        return np.asarray(self.base + WEIGHT * (of_tree + of_tables - 2 * self.base))

    def __repr__(self) -> str:
        return f"PooledPosterior({self.tree!r}, {self.tables!r})"
