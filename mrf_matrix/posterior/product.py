r"""The posterior of a record's class, from one release of disjoint blocks of attributes.

*How far the attributes' votes repeat each other, and how much to trust their sum.* A product of
class-conditional probabilities counts what two attributes have in common twice. For the effects
:math:`f_i, f_j` of two attributes on the log odds of a class,

.. math::

    W_{ij} = M_{ij} - B_{ij}, \qquad M_{ij} = \operatorname{cov}(f_i, f_j), \qquad
    B_{ij} = \operatorname{cov}(\bar f_i, \bar f_j),

is their covariance within classes: M over all records, B between the classes' means, which single
attributes tell. The tables of blocks show M for pairs that were measured together. It is linear in
the noisy counts, so noise of known variance is all that is unknown about it. Under independence
within classes W = 0. Attributes that vary together beyond their class have W > 0, and mostly a
similar correlation r. Those of a designed experiment, where every combination occurs as often, are
independent *over all records*: M = 0, so W = -B. The sum of W over measured pairs, pulled toward
what is usual by as much as noise hides it, is therefore carried over to all pairs in proportion to
:math:`s_i s_j` where it is positive and to :math:`B_{ij}` where it is negative, s the effects'
standard deviations within classes. Attributes whose B adds up to more than their variances cannot
be independent over all records (codings that exclude each other vary against each other too): a
negative sum is then one of the measured pairs alone, and the others correlate as usual.

Were log odds normal, the true log odds would be the sum times

.. math::

    \lambda = \frac{\sum_i s_i^2 + \sum_{i \ne j} \kappa_{ij} W_{ij}}
        {\sum_i s_i^2 + \sum_{i \ne j} W_{ij}},

where :math:`\kappa_{ij}` is the share of a pair's interaction that the sum holds already.

.. math::

    \log p(c \mid x) = \log N_c + \lambda \sum_B \Bigl( \sum_{i \in B} \log p_{ic}(x_i)
        + g_{Bc}(x_B) \Bigr) + \text{const}

Blocks vote by product. Shares p of main effects (naive Bayes, where each block is a single
attribute) and interactions g are shrunk by the known noise; a block that noise drowns adds nothing.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import norm

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.block_fit import BlockFit, BlockModel, ClassTotals

USUAL_CORRELATION = 0.05
CORRELATION_SPREAD = 0.15
"""Mean and standard deviation of mean correlations before the release is seen."""

LEAST_VARIANCE = 1e-4  # of the mean correlation: pairs in no common block need not correlate alike

MOST_TRUST = 4.0


def _cross(rows: Array) -> float:
    """Return the sum of the inner products of all ordered pairs of different rows."""
    return float((rows.sum(axis=0) ** 2).sum() - (rows**2).sum())


def _correlate_spreads(
    correlation: float, spreads: list[Array], between: list[Array]
) -> tuple[float, list[Array]]:
    """Return what covariances within classes are, of all pairs: a factor, and rows of each block.

    The covariance of two attributes is the factor times the inner product of their rows, so that
    nothing of the length of all pairs is needed.
    """
    if correlation >= 0:
        return correlation, spreads
    variance = sum(float((own**2).sum()) for own in spreads)
    if _cross(np.concatenate(between)) >= variance:  # none would be left within classes
        return USUAL_CORRELATION, spreads
    measured = sum(map(_cross, between))
    share = correlation * sum(map(_cross, spreads)) / measured if measured > 0 else -1.0
    return max(share, -1.0), between


@dataclass(frozen=True, eq=False)
class _Effects:
    """Effects of a block's attributes on the log odds of each class against the average class.

    ``terms[j]`` has shape (n_j, k), ``shares[j]`` (k, n_j), ``means`` (b, k', k): of the effects on
    class k among the records of class k'.
    """

    terms: list[Array]
    shares: list[Array]
    means: Array

    def variances(self, shares: Array) -> Array:
        """Return each attribute's variance of effects within classes, shape (b,)."""
        squares = np.stack(
            [own @ terms**2 for own, terms in zip(self.shares, self.terms, strict=True)]
        )
        spread = np.maximum(squares - self.means**2, 0.0)
        return np.asarray(np.einsum("q,jqc,c->j", shares, spread, shares))

    def mean_rows(self, shares: Array) -> Array:
        """Return rows whose inner products are the covariances of the means, shape (b, k' k)."""
        centred = self.means - np.einsum("q,jqc->jc", shares, self.means)[:, None]
        weighted = centred * np.sqrt(np.outer(shares, shares))
        return np.asarray(weighted.reshape(len(weighted), -1))


def _effects(model: BlockModel, fit: BlockFit) -> _Effects:
    shares, terms, own = model.shares(fit), [], []
    for start, size in zip(model.starts, model.table.sizes, strict=False):
        codes = slice(start, start + size)
        effects = fit.class_terms[:, codes]
        terms.append(np.asarray(effects - model.totals.shares @ effects).T)
        own.append(shares[:, codes])
    means = np.stack([mine @ effects for mine, effects in zip(own, terms, strict=True)])
    return _Effects(terms, own, means)


def _overall(model: BlockModel, effects: _Effects, shares: Array) -> tuple[float, float]:
    """Return the covariances over all records of all ordered pairs of a block, and their noise."""
    table = model.table
    if len(table.sizes) < 2:
        return 0.0, 0.0
    codes, records = table.codes(), model.totals.values.sum()
    values = np.stack([terms[codes[:, j]] for j, terms in enumerate(effects.terms)])
    products = (values.sum(axis=0) ** 2 - (values**2).sum(axis=0)) @ shares
    means = np.einsum("q,jqc->jc", shares, effects.means)
    squared_means = (means.sum(axis=0) ** 2 - (means**2).sum(axis=0)) @ shares
    counts = table.values.sum(axis=1)
    # Noise can make the counts of a block sum to anything: their total is known better.
    level = float(products.mean())
    covariance = float(counts @ (products - level)) / records + level - float(squared_means)
    usual = table.n_classes * table.variance + np.maximum(counts, 0.0)
    return covariance, float((((products - level) / records) ** 2 * usual).sum())


def _correlation(covariance: float, noise: float, scale: float) -> float:
    """Return the posterior mean of the correlation from a noisy covariance at full scale."""
    if scale <= 0:
        return USUAL_CORRELATION
    usual = 1.0 / CORRELATION_SPREAD**2
    precision = scale**2 / (noise + LEAST_VARIANCE * scale**2)
    mean = (covariance / scale * precision + USUAL_CORRELATION * usual) / (precision + usual)
    return float(min(mean, 1.0))


@dataclass(frozen=True, eq=False)
class Interactions:
    """Corrections of a block's log odds by interactions between its attributes."""

    logs: Array  # (n_B, k): what to add to the log probabilities of the classes, cell by cell
    variances: Array  # (n_B, k): their approximate posterior variances
    # (|B|, |B|): how much of each pair's component is kept, between 0 and 1; zero on the diagonal
    pair_weights: Array


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
    """

    totals: ClassTotals
    models: tuple[BlockModel, ...]
    fits: tuple[BlockFit, ...]
    interactions: tuple[Interactions, ...]

    def __repr__(self) -> str:
        blocks = [list(model.table.attributes) for model in self.models]
        shown = " ".join(map(str, blocks[:4])) + (" ..." if len(blocks) > 4 else "")
        return (
            f"ProductPosterior({len(blocks)} blocks {shown}, {len(self.totals.values)} classes, "
            f"trust {self.trust:.2f})"
        )

    @cached_property
    def trust(self) -> float:
        """What the sum of log odds is multiplied by, λ: positive and at most `MOST_TRUST`."""
        shares, models = self.totals.shares, self.models
        effects = [_effects(model, fit) for model, fit in zip(models, self.fits, strict=True)]
        variances = [one.variances(shares) for one in effects]
        spreads = [np.sqrt(own)[:, None] for own in variances]
        between = [one.mean_rows(shares) for one in effects]
        found = [_overall(model, one, shares) for model, one in zip(models, effects, strict=True)]
        seen = sum(covariance for covariance, _ in found) - sum(map(_cross, between))
        noise = sum(variance for _, variance in found)
        correlation = _correlation(seen, noise, sum(map(_cross, spreads)))
        factor, rows = _correlate_spreads(correlation, spreads, between)
        separate = sum(float(own.sum()) for own in variances)
        kept = [one.pair_weights for one in self.interactions]  # which log odds hold already
        held = sum(
            float((part * (own @ own.T)).sum()) for part, own in zip(kept, rows, strict=True)
        )
        known = separate + factor * held
        if known <= 0:
            return 1.0
        everything = separate + factor * _cross(np.concatenate(rows))
        return known / max(everything, known / MOST_TRUST)

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
    covariance = fit.covariance.pair_covariance(one, two)
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
