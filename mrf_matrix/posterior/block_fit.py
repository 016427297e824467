r"""One block's log-linear model and a Newton step of its posterior mode.

Cell x of a block with attributes i has in class c the expected count

.. math::

    \mu_c(x) = N_c \exp\Bigl(b_c + \sum_i \alpha_i(x_i) + f_{ic}(x_i)\Bigr) / n_B

and the noisy count :math:`y_c(x)` has variance :math:`\mu_c(x)` (records are drawn) plus the known
noise variance. :math:`\alpha_i` says how common a code is, :math:`f_{ic}` how a class departs from
that, and the intercepts :math:`b_c` take up what the class totals' own error leaves over: without
them that error would be explained by effects.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.posterior.block_table import BlockTable
from mrf_matrix.posterior.class_totals import ClassTotals
from mrf_matrix.posterior.effect_prior import EffectPrior

Array = NDArray[np.float64]

LONGEST_STEP = 0.7
LARGEST_LOG = 6.0
WIDEST_INTERCEPT = 3.0
LEAST_INTERCEPT = 0.01


@dataclass(frozen=True, eq=False)
class BlockModel:
    """What does not change while a block is fitted.

    Parameters
    ----------
    table : BlockTable
    priors : tuple of EffectPrior
        One for each attribute of the block.
    totals : ClassTotals
    """

    table: BlockTable
    priors: tuple[EffectPrior, ...]
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
    def design(self) -> sparse.csr_array:
        """Which codes a cell has, and its intercept: 0/1, shape (n_B, P + 1)."""
        cells, width = self.table.n_cells, len(self.table.sizes) + 1
        columns = np.empty((cells, width), dtype=np.int64)
        columns[:, :-1] = self.table.codes() + np.asarray(self.starts[:-1], dtype=np.int64)
        columns[:, -1] = self.n_codes
        pointers = np.arange(0, cells * width + 1, width)
        return sparse.csr_array(
            (np.ones(cells * width), columns.ravel(), pointers), shape=(cells, self.n_codes + 1)
        )

    @cached_property
    def intercept_precision(self) -> Array:
        """Prior precision of each class's intercept: the error of its total, relative to it."""
        spread = self.totals.error / self.totals.values + LEAST_INTERCEPT
        return np.asarray(1.0 / np.minimum(spread, WIDEST_INTERCEPT) ** 2)

    def expected(self, fit: "BlockFit") -> Array:
        """Return the expected counts, shape (n_B, k)."""
        logs = self.design @ fit.class_terms.T + (self.design[:, :-1] @ fit.common)[:, None]
        logs += np.log(self.totals.values / self.table.n_cells)
        return np.asarray(np.exp(np.clip(logs, -20.0, np.log(self.totals.values.sum()) + 1.0)))

    def prior_precision(self, relevance: Array) -> Array:
        """Return the prior precision of one class's terms, shape (P + 1, P + 1), intercept 0."""
        precision = np.zeros((self.n_codes + 1, self.n_codes + 1))
        for prior, start, variance in zip(self.priors, self.starts, relevance, strict=False):
            here = slice(start, start + prior.size)
            precision[here, here] = prior.precision / variance + prior.constraint
        return precision


@dataclass(frozen=True, eq=False)
class BlockFit:
    r"""Posterior mode of a block and the covariance around it (Laplace approximation).

    Attributes
    ----------
    common : ndarray of shape (P,)
        How common each code is, :math:`\alpha`.
    class_terms : ndarray of shape (k, P + 1)
        Effects :math:`f` and, last, the intercept of each class.
    covariance : ndarray of shape (P + k (P + 1), P + k (P + 1))
        Of ``common`` and the class terms in this order.
    moved : float
        Length of the last step's largest entry.
    """

    common: Array
    class_terms: Array
    covariance: Array
    moved: float = np.inf

    @staticmethod
    def start(model: BlockModel) -> "BlockFit":
        """Return the fit in which nothing depends on anything."""
        n_classes, width = model.table.n_classes, model.n_codes + 1
        return BlockFit(np.zeros(width - 1), np.zeros((n_classes, width)), np.zeros((0, 0)))

    def effect_covariance(self, class_number: int, codes: slice) -> Array:
        """Return the covariance of one class's effects of some codes."""
        width = self.class_terms.shape[1]
        start = len(self.common) + class_number * width
        here = slice(start + codes.start, start + codes.stop)
        return self.covariance[here, here]


def newton_step(model: BlockModel, fit: BlockFit, relevance: Array) -> BlockFit:
    """Return the fit after one Gauss-Newton step towards the posterior mode.

    The largest array is the covariance, ``(P + k (P + 1))²``, beside the design's non-zeros.
    """
    table, width = model.table, model.n_codes + 1
    expected = model.expected(fit)
    spread = table.variance + expected + 1e-12
    weights = expected**2 / spread
    slopes = model.design.T @ ((table.values - expected) * expected / spread)
    order = width - 1 + table.n_classes * width
    curvature = np.zeros((order, order))
    gradient = np.zeros(order)
    common = slice(0, width - 1)
    prior = model.prior_precision(relevance)
    for c, terms in enumerate(fit.class_terms):
        here = slice(width - 1 + c * width, width - 1 + (c + 1) * width)
        own = (model.design.T @ (model.design * weights[:, c : c + 1])).toarray()
        curvature[common, common] += own[:-1, :-1]
        curvature[common, here] = own[:-1]
        curvature[here, common] = own[:-1].T
        precision = prior.copy()
        precision[-1, -1] = model.intercept_precision[c]
        curvature[here, here] = own + precision
        gradient[common] += slopes[:-1, c]
        gradient[here] = slopes[:, c] - precision @ terms
    curvature[common, common] += np.eye(width - 1)
    gradient[common] -= fit.common
    covariance = np.linalg.inv(curvature)
    step = np.clip(covariance @ gradient, -LONGEST_STEP, LONGEST_STEP)
    terms = fit.class_terms + step[width - 1 :].reshape(fit.class_terms.shape)
    return BlockFit(
        np.asarray(np.clip(fit.common + step[: width - 1], -LARGEST_LOG, LARGEST_LOG)),
        np.clip(terms, -LARGEST_LOG, LARGEST_LOG),
        np.asarray(covariance, dtype=np.float64),
        float(np.abs(step).max()),
    )
