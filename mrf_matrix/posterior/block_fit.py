r"""One block's log-linear model and a Newton step of its posterior mode.

Cell x of a block with attributes i has in class c the expected count

.. math::

    \mu_c(x) = N_c e^{b_c} \prod_i p_{ic}(x_i), \qquad
        p_{ic}(u) = \frac{e^{\alpha_i(u) + f_{ic}(u)}}{\sum_v e^{\alpha_i(v) + f_{ic}(v)}},

and the noisy count :math:`y_c(x)` has variance :math:`\mu_c(x)` (records are drawn) plus the known
noise variance v: the quasi-likelihood is :math:`(y + v) \log(\mu + v) - \mu`. :math:`\alpha_i` says
how common a code is, :math:`f_{ic}` how a class departs from that, and the intercepts :math:`b_c`
take up what the class totals' own error leaves over: without them that error would be explained by
effects. The shares of a class sum to one, so that skewed attributes need no intercept.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_softmax

from mrf_matrix.posterior.block_table import BlockTable
from mrf_matrix.posterior.effect_prior import EffectPrior
from mrf_matrix.posterior.totals import ClassTotals

Array = NDArray[np.float64]

Design = Array | sparse.csr_array

SMALL_DESIGN = 2**18
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

    def expected(self, fit: "BlockFit") -> Array:
        """Return the expected counts, shape (n_B, k)."""
        logs = self.evidence(fit) + (self.design[:, :-1] @ fit.common)[:, None]
        logs += np.log(self.totals.values) + fit.class_terms[:, -1]
        return np.asarray(np.exp(np.clip(logs, -20.0, np.log(self.totals.values.sum()) + 1.0)))

    def _log_shares(self, fit: "BlockFit") -> list[Array]:
        logs = np.split(fit.common + fit.class_terms[:, :-1], self.starts[1:-1], axis=1)
        return [np.asarray(log_softmax(part, axis=1)) for part in logs]

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
    """Return the fit after one step towards the posterior mode, and the covariance before it.

    The covariance is of the expected information. Where noise makes counts lower than expected,
    the observed information is larger, and steps by the expected one would overshoot and never
    settle: the step's curvature has what is positive of the difference added.

    The largest array is the covariance, ``(P + k (P + 1))²``, beside the design's non-zeros.
    """
    table, width = model.table, model.n_codes + 1
    expected = model.expected(fit)
    spread = table.variance + expected + 1e-12
    slopes = (table.values - expected) * expected / spread
    weights = expected**2 / spread
    beyond = np.maximum(-slopes, 0.0) * table.variance / spread
    shares = np.pad(model.shares(fit), [(0, 0), (0, 1)])
    order = width - 1 + table.n_classes * width
    curvature = np.zeros((order, order))
    excess = np.zeros((order, order))
    gradient = np.zeros(order)
    common = slice(0, width - 1)
    prior = model.prior_precision(relevance)
    for c, terms in enumerate(fit.class_terms):
        here = slice(width - 1 + c * width, width - 1 + (c + 1) * width)
        slope = model.design.T @ slopes[:, c]
        excess_here = _information(model, beyond[:, c], shares[c])
        excess_here += max(slope[-1], 0.0) * _share_covariance(model, shares[c])
        slope -= shares[c] * slope[-1]
        precision = prior.copy()
        precision[-1, -1] = model.intercept_precision[c]
        _add(curvature, _information(model, weights[:, c], shares[c]), here)
        _add(excess, excess_here, here)
        curvature[here, here] += precision
        gradient[common] += slope[:-1]
        gradient[here] = slope - precision @ terms
    curvature[common, common] += np.eye(width - 1)
    gradient[common] -= fit.common
    step = np.asarray(np.linalg.solve(curvature + excess, gradient), dtype=np.float64)
    return _moved(fit, step, np.asarray(np.linalg.inv(curvature), dtype=np.float64))


def _information(model: BlockModel, weights: Array, shares: Array) -> Array:
    """Return ``(D - 1 pᵀ)ᵀ W (D - 1 pᵀ)``, D the design, p the shares of a class's codes.

    A code's term also lowers the shares of the attribute's other codes: the derivatives of the
    log counts are the design less its means. Its last column is ones.
    """
    product = model.design.T @ (model.design * weights[:, None])
    gram = product if isinstance(product, np.ndarray) else product.toarray()
    cross = np.outer(gram[:, -1], shares)
    return np.asarray(gram - cross - cross.T + gram[-1, -1] * np.outer(shares, shares))


def _share_covariance(model: BlockModel, shares: Array) -> Array:
    """Return minus the second derivative of the log counts, the same in every cell."""
    second = np.zeros((len(shares), len(shares)))
    for start, size in zip(model.starts, model.table.sizes, strict=False):
        here = slice(start, start + size)
        second[here, here] = np.diag(shares[here]) - np.outer(shares[here], shares[here])
    return second


def _add(whole: Array, own: Array, here: slice) -> None:
    """Add one class's information of the common terms and of its own to that of all terms."""
    common = slice(0, len(own) - 1)
    whole[common, common] += own[:-1, :-1]
    whole[common, here] += own[:-1]
    whole[here, common] += own[:-1].T
    whole[here, here] += own


def _moved(fit: BlockFit, step: Array, covariance: Array) -> BlockFit:
    """Return the fit one step on, shortened until no entry moves more than `LONGEST_STEP`."""
    step = step * min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
    n_codes = len(fit.common)
    terms = fit.class_terms + step[n_codes:].reshape(fit.class_terms.shape)
    return BlockFit(
        np.asarray(np.clip(fit.common + step[:n_codes], -LARGEST_LOG, LARGEST_LOG)),
        np.clip(terms, -LARGEST_LOG, LARGEST_LOG),
        covariance,
        float(np.abs(step).max()),
    )
