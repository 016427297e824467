r"""A tree of labels and tables asked together: a logarithmic pool of both.

*What a residual forest says of every class, as a pool asks for it.* Of two classes its log odds are
those of the second, of several there is a score for each. Here both are log probabilities up to a
constant, beside the class shares that its first release tells.

.. math::

    \log p(c \mid x) = \log \pi_c + v \log \frac{p_\text{tree}(c \mid x)}{\pi_c}
        + w \log \frac{p_\text{tables}(c \mid x)}{\pi_c} + \text{const}

with the class shares :math:`\pi` that the tables tell. Two that knew nothing in common would have
v = w = 1, and two that say the same would share a weight of 1.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from scipy.special import log_softmax, softmax
from scipy.stats import norm

from mrf_matrix.base.arrays import AnyInts, Array
from mrf_matrix.posterior.labelled import TINY, LabelPosterior
from mrf_matrix.posterior.product import ProductPosterior, distinct_numbers
from mrf_matrix.posterior.residuals.posterior import Codes, ResidualPosterior
from mrf_matrix.posterior.residuals.several import SeveralPosterior


@dataclass(frozen=True, eq=False)
class ResidualEvidence:
    """Log probabilities of all classes by tables of residuals.

    Attributes
    ----------
    posterior : ResidualPosterior or SeveralPosterior
        What the releases imply.
    """

    posterior: ResidualPosterior | SeveralPosterior

    @property
    def _is_of_two(self) -> bool:
        return isinstance(self.posterior, ResidualPosterior)

    @property
    def log_shares(self) -> Array:
        """Logarithms of the released class shares, (k,)."""
        bases = [one.base for one in self.posterior.columns]
        return np.asarray(log_softmax([0.0, *bases] if self._is_of_two else bases))

    def log_odds(self, codes: Codes) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k)."""
        scores = [one.log_odds(codes) for one in self.posterior.columns]
        return np.stack([np.zeros(len(codes)), *scores] if self._is_of_two else scores, axis=1)

    def probabilities(self, codes: Codes) -> Array:
        """Return class probabilities, shape (b, k)."""
        return self.posterior.probabilities(codes)

    def margin_widths(
        self, codes: Codes, first: Codes, second: Codes, level: float
    ) -> tuple[Array, Array]:
        """Return how far the log odds between two classes may be below their mean, and above.

        Both are the same, (b,): normal quantiles at `level`, as if tables were apart.
        """
        variances = np.stack([one.variances(codes) for one in self.posterior.columns], axis=1)
        rows = np.arange(len(codes))
        if self._is_of_two:
            found = variances[:, 0]
        else:
            found = variances[rows, first] + variances[rows, second]
        widths = float(norm.ppf(0.5 + level / 2)) * np.sqrt(found)
        return widths, widths

    def __repr__(self) -> str:
        return f"ResidualEvidence({len(self.posterior.columns[0].blocks)} tables)"


WEIGHTS_BESIDE_TABLES, WEIGHTS_BESIDE_RESIDUALS = (0.7, 0.7), (0.5, 0.9)
"""Weights of the tree and of the tables: with .6 or .8 of both, and with .7 of both beside
residuals, pools were no better on public sets."""

TablesPosterior = ProductPosterior | ResidualPosterior | SeveralPosterior
"""What tables imply by themselves."""


@dataclass(frozen=True, eq=False)
class PooledPosterior:
    """Log odds of every record by a tree and by tables.

    Attributes
    ----------
    tree : LabelPosterior
    tables : ProductPosterior or ResidualEvidence
        Of blocks measured at once, or of residuals.
    weights : tuple of float
        What the tree and the tables count, v and w.
    """

    tree: LabelPosterior
    tables: ProductPosterior | ResidualEvidence
    weights: tuple[float, float] = WEIGHTS_BESIDE_TABLES

    @classmethod
    def of(cls, tree: LabelPosterior, tables: TablesPosterior) -> "PooledPosterior":
        """Return a tree and tables as one posterior, with the weights of their kind."""
        if isinstance(tables, ProductPosterior):
            return cls(tree, tables, WEIGHTS_BESIDE_TABLES)
        return cls(tree, ResidualEvidence(tables), WEIGHTS_BESIDE_RESIDUALS)

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
