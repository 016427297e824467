r"""The posterior of a record's class, from one release of disjoint blocks of attributes.

.. math::

    \log p(c \mid x) = \log N_c + \lambda \sum_B \Bigl( \sum_{i \in B} f_{ic}(x_i)
        + g_{Bc}(x_B) \Bigr) + \text{const}

Blocks vote by product. Main effects f (naive Bayes, where each block is a single attribute) and
interactions g are shrunk by the known noise; a block that noise drowns adds nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.posterior.block_fit import BlockFit, BlockModel
from mrf_matrix.posterior.block_table import BlockTable, check_blocks
from mrf_matrix.posterior.class_totals import ClassTotals, class_totals
from mrf_matrix.posterior.dependence import trust
from mrf_matrix.posterior.interactions import Interactions, fit_interactions
from mrf_matrix.posterior.main_effects import fit_main_effects

Array = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class ProductPosterior:
    """Log odds of every record, and how sure the release is of them.

    Attributes
    ----------
    totals : ClassTotals
    models, fits, interactions : tuples
        One of each for every block.
    trust : float
        Factor of the sum of log odds, see `mrf_matrix.posterior.dependence`.
    """

    totals: ClassTotals
    models: tuple[BlockModel, ...]
    fits: tuple[BlockFit, ...]
    interactions: tuple[Interactions, ...]
    trust: float

    def log_odds(self, codes: Codes) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k).

        Parameters
        ----------
        codes : ndarray of shape (b, d)
        """
        evidence = np.zeros((len(codes), len(self.totals.values)))
        for model, fit, beyond in zip(self.models, self.fits, self.interactions, strict=True):
            cells = model.table.cells(codes)
            effects = model.design[:, :-1] @ fit.class_terms[:, :-1].T + beyond.logs
            evidence += effects[cells]
        return np.asarray(np.log(self.totals.values) + self.trust * evidence)

    def margin_variances(self, codes: Codes, first: NDArray[Any], second: NDArray[Any]) -> Array:
        """Return the posterior variance of the log odds between two classes, shape (b,).

        Of the normal approximation around the posterior mode: noise and the drawing of records,
        not the model's own error.

        Parameters
        ----------
        codes : ndarray of shape (b, d)
        first, second : ndarrays of int, shape (b,)
            Numbers of the classes.
        """
        k = len(self.totals.values)
        variances = np.zeros(len(codes))
        for model, fit, beyond in zip(self.models, self.fits, self.interactions, strict=True):
            cells = model.table.cells(codes)
            pairs, inverse = np.unique(
                np.stack([cells, first, second]), axis=1, return_inverse=True
            )
            found = _contrast_variances(model, fit, pairs[0], pairs[1], pairs[2])
            found += beyond.variances[pairs[0], pairs[1]] + beyond.variances[pairs[0], pairs[2]]
            variances += found[inverse.ravel()]
        relative = self.totals.error / self.totals.values
        totals = relative[first] ** 2 + relative[second] ** 2
        return np.asarray(np.where(k > 1, totals, 0.0) + self.trust**2 * variances)

    def probabilities(self, codes: Codes) -> Array:
        r"""Return class probabilities, averaged over the posterior of the log odds, (b, k).

        The average of a softmax over normal log odds is approximated by dividing them by
        :math:`\sqrt{1 + \pi v / 8}` (MacKay, 1992), v the variance between the leading two.
        """
        logs = self.log_odds(codes)
        if logs.shape[1] > 1:
            order = np.argsort(logs, axis=1, kind="stable")
            variances = self.margin_variances(codes, order[:, -1], order[:, -2])
            prior = np.log(self.totals.shares)
            logs = prior + (logs - prior) / np.sqrt(1 + np.pi * variances / 8)[:, None]
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def product_posterior(
    tables: Sequence[BlockTable],
    ordered: Sequence[bool],
    measured_totals: BlockTable | None = None,
) -> ProductPosterior:
    """Return the posterior that a release's tables of disjoint blocks imply.

    Parameters
    ----------
    tables : sequence of BlockTable
        Blocks that share no attribute, with the noise variance of each.
    ordered : sequence of bool
        For each attribute of the domain, whether its codes are in a meaningful order.
    measured_totals : BlockTable, optional
        The class totals' own measurement.

    Raises
    ------
    ValueError
        If there are no tables, or they overlap.
    """
    if not tables:
        raise ValueError("tables is empty: expected at least one block of attributes.")
    check_blocks(tables, tables[0].n_classes)
    totals = class_totals(tables, measured_totals)
    models, fits = fit_main_effects(tables, totals, ordered)
    interactions = tuple(
        fit_interactions(model.table, model.expected(fit))
        for model, fit in zip(models, fits, strict=True)
    )
    return ProductPosterior(totals, tuple(models), tuple(fits), interactions, trust(models, fits))


def _contrast_variances(
    model: BlockModel,
    fit: BlockFit,
    cells: NDArray[Any],
    first: NDArray[Any],
    second: NDArray[Any],
) -> Array:
    """Return the variance of main-effect log odds between two classes in some cells."""
    width = model.n_codes + 1
    columns = model.design.indices.reshape(model.table.n_cells, -1)[cells, :-1]
    one = len(fit.common) + first[:, None] * width + columns
    two = len(fit.common) + second[:, None] * width + columns
    rows = np.concatenate([one, two], axis=1)
    signs = np.concatenate([np.ones_like(one), -np.ones_like(two)], axis=1)
    total = np.zeros(len(cells))
    for left in range(rows.shape[1]):
        covariances = fit.covariance[rows[:, left][:, None], rows]
        total += signs[:, left] * (signs * covariances).sum(axis=1)
    return np.maximum(total, 0.0)
