r"""The posterior of a record's class, from one release of disjoint blocks of attributes.

.. math::

    \log p(c \mid x) = \log N_c + \lambda \sum_B \Bigl( \sum_{i \in B} \log p_{ic}(x_i)
        + g_{Bc}(x_B) \Bigr) + \text{const}

Blocks vote by product. Shares p of main effects (naive Bayes, where each block is a single
attribute) and interactions g are shrunk by the known noise; a block that noise drowns adds nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import norm

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.block_fit import BlockFit, BlockModel
from mrf_matrix.posterior.block_table import BlockTable, ClassTotals, check_blocks, class_totals
from mrf_matrix.posterior.dependence import trust
from mrf_matrix.posterior.interactions import Interactions, fit_interactions
from mrf_matrix.posterior.main_effects import fit_main_effects
from strategies.operators.base.arrays import one_thread

Codes = NDArray[np.integer[Any]]

MOST_PRESENT = 2**24  # combinations of a cell and two classes that are marked in an array, as bytes


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        blocks = [list(model.table.attributes) for model in self.models]
        shown = " ".join(map(str, blocks[:4])) + (" ..." if len(blocks) > 4 else "")
        return (
            f"ProductPosterior({len(blocks)} blocks {shown}, {len(self.totals.values)} classes, "
            f"trust {self.trust:.2f})"
        )

    totals: ClassTotals
    models: tuple[BlockModel, ...]
    fits: tuple[BlockFit, ...]
    interactions: tuple[Interactions, ...]
    trust: float

    @property
    def log_shares(self) -> Array:
        """Logarithms of the class shares, (k,)."""
        return np.asarray(np.log(self.totals.shares))

    def log_odds(self, codes: Codes) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k).

        Parameters
        ----------
        codes : ndarray of shape (b, d)
        """
        evidence = np.zeros((len(codes), len(self.totals.values)))
        for model, fit, beyond in zip(self.models, self.fits, self.interactions, strict=True):
            cells = model.table.cells(codes)
            evidence += (model.evidence(fit) + beyond.logs)[cells]
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
            asked, own = distinct_numbers(
                (cells * k + first) * k + second, len(beyond.logs) * k * k
            )
            cell, one, two = np.unravel_index(asked, (len(beyond.logs), k, k))
            found = _contrast_variances(model, fit, cell, one, two)
            found += beyond.variances[cell, one] + beyond.variances[cell, two]
            variances += found[own]
        relative = self.totals.error / self.totals.values
        totals = relative[first] ** 2 + relative[second] ** 2
        return np.asarray(np.where(k > 1, totals, 0.0) + self.trust**2 * variances)

    def margin_widths(
        self, codes: Codes, first: NDArray[Any], second: NDArray[Any], level: float
    ) -> tuple[Array, Array]:
        """Return how far the log odds between two classes may be below their mean, and above.

        Both are the same, (b,): normal quantiles at `level`. The rest as in `margin_variances`.
        """
        quantile = float(norm.ppf(0.5 + level / 2))
        widths = quantile * np.sqrt(self.margin_variances(codes, first, second))
        return widths, widths

    def probabilities(self, codes: Codes) -> Array:
        r"""Return class probabilities, averaged over the posterior of the log odds, (b, k).

        The average of a softmax over normal log odds is approximated by dividing them by
        :math:`\sqrt{1 + \pi v / 8}` (MacKay, 1992), v the variance between the leading two.
        """
        logs, prior = self.log_odds(codes), np.log(self.totals.shares)
        added, variances = logs - prior, np.zeros((len(logs), 1))
        if logs.shape[1] > 1:
            order = np.argsort(logs, axis=1, kind="stable")
            variances[:, 0] = self.margin_variances(codes, order[:, -1], order[:, -2])
        shrunk = added / np.sqrt(1 + np.pi * variances / 8)
        return np.asarray(softmax(prior + shrunk, axis=1))


def product_posterior(
    tables: Sequence[BlockTable], ordered: Sequence[bool], measured_totals: BlockTable | None = None
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
        If there are no tables, they overlap or count other classes, an attribute has no entry in
        ``ordered``, or ``measured_totals`` is no block of no attributes.
    """
    if not tables:
        raise ValueError("tables is empty: expected at least one block of attributes.")
    check_blocks(tables, tables[0].n_classes)
    last = max(i for table in tables for i in (-1, *table.attributes))
    if last >= len(ordered):
        raise ValueError(
            f"ordered has {len(ordered)} entries: expected one for each attribute of the domain, "
            f"and a block holds attribute {last}."
        )
    if measured_totals is not None and measured_totals.values.shape != (1, tables[0].n_classes):
        raise ValueError(
            f"measured_totals has values of shape {measured_totals.values.shape}: expected (1, k), "
            f"the totals of the {tables[0].n_classes} classes."
        )
    totals = class_totals(tables, measured_totals)
    with one_thread():
        models, fits = fit_main_effects(tables, totals, ordered)
        interactions = tuple(
            fit_interactions(model.table, model.expected(fit))
            for model, fit in zip(models, fits, strict=True)
        )
    trusted = trust(models, fits, [beyond.pair_weights for beyond in interactions])
    return ProductPosterior(totals, tuple(models), tuple(fits), interactions, trusted)


def distinct_numbers(
    numbers: NDArray[Any], limit: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the distinct numbers below a limit, and for each number which of them it is.

    The largest array has `limit` entries, of a block's table squared in the classes, or where
    these are above `MOST_PRESENT` as many as there are numbers.
    """
    if limit > MOST_PRESENT:
        found, own = np.unique(numbers, return_inverse=True)
        return found, own
    present = np.zeros(limit, dtype=bool)
    present[numbers] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


def _contrast_variances(
    model: BlockModel, fit: BlockFit, cells: NDArray[Any], first: NDArray[Any], second: NDArray[Any]
) -> Array:
    """Return the variance of main-effect log odds between two classes in some cells."""
    variances, means = np.zeros(len(cells)), model.shares(fit)
    number = first * model.table.n_classes + second
    order = np.argsort(number, kind="stable")
    ends = np.flatnonzero(np.diff(number[order])) + 1
    for here in np.split(order, ends) if len(order) else []:
        one, two = int(first[here[0]]), int(second[here[0]])
        variances[here] = _pair_variances(model, fit, means, cells[here], one, two)
    return np.maximum(variances, 0.0)


def _pair_variances(
    model: BlockModel, fit: BlockFit, means: Array, cells: NDArray[Any], one: int, two: int
) -> Array:
    """Return the variance of ``g · terms`` with g the gradient of the log odds in each cell.

    g is ``D_x - m_one`` for the effects of class one, ``m_two - D_x`` for those of class two, and
    ``m_two - m_one`` for what is common, m the shares of the codes: affine in the cell's row D_x.
    """
    n_codes = model.n_codes
    covariance = fit.covariance.of_two(one, two)
    still = np.concatenate([means[two] - means[one], -means[one], means[two]])
    moving = covariance[:, n_codes : 2 * n_codes] - covariance[:, 2 * n_codes :]
    square = moving[n_codes : 2 * n_codes] - moving[2 * n_codes :]
    # Sums of entries, not products of rows: what a record has must not depend on the others asked.
    codes = np.unravel_index(cells, model.table.sizes)
    places = [own + start for own, start in zip(codes, model.starts, strict=False)]
    linear, found = 2 * (still @ moving), np.full(len(cells), still @ covariance @ still)
    for row in places:
        found += linear[row]
        for column in places:
            found += square[row, column]
    return found
