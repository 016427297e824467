r"""The effect of attributes in a whole model: terms of its tables, and of a tree what it averages.

*The log odds of a tree of few cells with codes of some attributes, averaged over all others.*
Partial dependence (Friedman 2001) on attributes S, of cells v whose log odds are :math:`L_v`:

.. math:: f_S(x_S) = \sum_v A_v(x_S)\, L_v, \qquad
    A_v(x_S) = [x_S \in v_S] \sum_u s_u \prod_{j \notin S} q_j(v_j \mid u_j) .

Attributes that are averaged are spread as the release has them: cells u hold the parts
:math:`s_u` of the records that their counts say, and the codes of an attribute within a cell have
the shares :math:`q_j` that tables measured. Without counts :math:`s_u = \prod_j q_j(u_j)`, and
without tables codes are even, so that labels alone are averaged over the public domain.

The posterior has cells independent of one another. Draws of their log odds, a cell each, are
averaged with the same A, and the quantiles of these averages are the band.

A tree has one term, of all its attributes together. What it says of some of them is the average
over the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from scipy.stats import norm

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.posterior.effects import AnyPosterior, Term, terms, terms_of_tables
from mrf_matrix.posterior.label_posterior import LabelPosterior, PooledPosterior
from strategies.operators import check_allocation

MOST_PLACES = 1 << 16
"""Of a table of averages: combinations of codes that lie on the same sides of all cuts."""

DRAWS = 1 << 13
AT_ONCE = 1 << 22
"""Averages that are held at once, 32 MB."""


@dataclass(frozen=True, eq=False)
class EffectBand:
    """Log odds over all codes of some attributes, with their bands.

    Attributes
    ----------
    log_odds, below, above : ndarray, one axis for each attribute
        The middle, and how far the band reaches below it and above: none is negative.
    shares : ndarray of the same shape
        Estimated shares of the records, which sum to one.
    """

    log_odds: Array
    below: Array
    above: Array
    shares: Array

    @property
    def half_widths(self) -> Array:
        """Half of the band of each."""
        return (self.below + self.above) / 2

    @property
    def inward(self) -> Array:
        """How far the band of each reaches from its log odds towards 0."""
        return np.where(self.log_odds > 0, self.below, self.above)


def average_effect(
    posterior: LabelPosterior,
    attributes: tuple[int, ...],
    pair: tuple[int, int],
    level: float,
    margins: Mapping[int, Array] | None = None,
) -> EffectBand:
    """Return the average log odds of every combination of codes of some attributes.

    Parameters
    ----------
    posterior : LabelPosterior
    attributes : tuple of int
        Rising positions of attributes that its cells depend on: one or more of them, or all.
    pair : tuple of int
        The class that log odds speak for, and the one they speak against.
    level : float
        Of the band: a tail of half the rest is left out on either side.
    margins : mapping of int to ndarray, optional
        Shares of the codes of attributes, where tables measured them.

    Raises
    ------
    ValueError
        If the attributes have too many combinations.
    MemoryCapError
        If what has an entry for all codes together is too large.
    """
    masks = _masks(posterior)
    places = [_places(masks[i]) for i in attributes]
    _check(places)
    spread = {i: _spread(mask, (margins or {}).get(i)) for i, mask in masks.items()}
    sizes = _sizes(posterior, masks, margins or {})
    weights = _weights(masks, attributes, places, spread, sizes)
    middle, below, above = _band(posterior, weights, pair, level)
    shape, at = tuple(len(first) for first, _ in places), np.ix_(*(own for _, own in places))
    middle, below, above = (one.reshape(shape)[at] for one in (middle, below, above))
    return EffectBand(middle, below, above, _shares(attributes, spread, sizes))


def _masks(posterior: LabelPosterior) -> dict[int, Bools]:
    """Return which codes of each attribute every cell holds, shape (cells, size)."""
    boxes, attributes = posterior.partition.boxes, posterior.partition.attributes
    return {i: np.array([held[i] for _, held in boxes]) for i in attributes}


def _places(mask: Bools) -> tuple[Longs, Longs]:
    """Return the first code of those that lie in the same cells, and which of them each is."""
    _, first, own = np.unique(mask, axis=1, return_index=True, return_inverse=True)
    return first, own.ravel()


def _check(places: Sequence[tuple[Longs, Longs]]) -> None:
    combinations = prod(len(first) for first, _ in places)
    if combinations > MOST_PLACES:
        raise ValueError(
            f"{len(places)} attributes of a tree have {combinations} combinations of codes that "
            f"it tells apart, more than {MOST_PLACES}: ask for fewer of them, or draw the tree "
            f"with export_text."
        )
    check_allocation("an effect over all codes", (6, *(len(own) for _, own in places)))


def _spread(mask: Bools, margin: Array | None) -> Array:
    """Return how the records of each cell are spread over the codes of an attribute."""
    held = mask.astype(np.float64)
    if margin is not None:
        known = mask * margin
        held = np.where(known.sum(axis=1, keepdims=True) > 0, known, held)
    return np.asarray(held / held.sum(axis=1, keepdims=True))


def _sizes(
    posterior: LabelPosterior, masks: Mapping[int, Bools], margins: Mapping[int, Array]
) -> Array:
    """Return the estimated part of all records in each cell."""
    if posterior.sizes is not None:
        sizes = posterior.sizes[[cell for cell, _ in posterior.partition.boxes]]
    else:
        even = {i: np.full(mask.shape[1], 1 / mask.shape[1]) for i, mask in masks.items()}
        sizes = np.prod([mask @ margins.get(i, even[i]) for i, mask in masks.items()], axis=0)
    return np.asarray(sizes / sizes.sum())


def _weights(
    masks: Mapping[int, Bools],
    attributes: tuple[int, ...],
    places: Sequence[tuple[Longs, Longs]],
    spread: Mapping[int, Array],
    sizes: Array,
) -> Array:
    """Return the weights A, a row for each combination of places: (combinations, cells)."""
    overlaps = np.ones((len(sizes), len(sizes)))
    for j, mask in masks.items():
        if j not in attributes:
            overlaps *= spread[j] @ mask.T
    weights: Array = (sizes @ overlaps)[None]
    for i, (first, _) in zip(attributes, places, strict=True):
        here = masks[i][:, first].T
        weights = (weights[:, None] * here).reshape(-1, len(sizes))
    return weights


def _band(
    posterior: LabelPosterior, weights: Array, pair: tuple[int, int], level: float
) -> tuple[Array, Array, Array]:
    """Return the average of each row of weights, and how far the band is below and above it."""
    rows, own = np.unique(weights, axis=0, return_inverse=True)
    cells = [posterior.evidence[cell] for cell, _ in posterior.partition.boxes]
    generator = np.random.default_rng(0)  # always the same
    levels = (np.arange(DRAWS) + 0.5) / DRAWS
    drawn = np.array([generator.permutation(one.odds_at(levels, *pair)) for one in cells])
    middle = rows @ np.array([one.log_odds(*pair) for one in cells])
    tails, parts = [(1 - level) / 2, (1 + level) / 2], -(-len(rows) * DRAWS // AT_ONCE)
    ends = [np.quantile(part @ drawn, tails, axis=1) for part in np.array_split(rows, parts)]
    low, high = np.concatenate(ends, axis=1)
    found = middle, np.maximum(middle - low, 0.0), np.maximum(high - middle, 0.0)
    first, below, above = (one[own.ravel()] for one in found)
    return first, below, above


def _shares(attributes: tuple[int, ...], spread: Mapping[int, Array], sizes: Array) -> Array:
    total: Array = np.zeros(())
    for cell, size in enumerate(sizes):
        part: Array = np.asarray(size)
        for i in attributes:
            part = np.multiply.outer(part, spread[i][cell])
        total = total + part
    return total


def effect_of(
    posterior: AnyPosterior, attributes: tuple[int, ...], pair: tuple[int, int], level: float
) -> EffectBand | None:
    """Return the effect of attributes, or None if nothing is said of them.

    Parameters
    ----------
    posterior : AnyPosterior
    attributes : tuple of int
        Rising.
    pair : tuple of int
        Numbers of the class that log odds speak for, and of the one they speak against.
    level : float
        Of the band.

    Raises
    ------
    ValueError
        If the classes are the same, or the attributes of a tree have too many combinations.
    MemoryCapError
        If all codes together are too many for a table.
    """
    if isinstance(posterior, LabelPosterior):
        known = set(attributes) <= set(posterior.partition.attributes)
        return average_effect(posterior, attributes, pair, level) if known else None
    if isinstance(posterior, PooledPosterior):
        found = list(terms_of_tables(posterior, *pair))
        if set(attributes) <= set(posterior.tree.partition.attributes):
            return _pool_effect(posterior, found, attributes, pair, level)
    else:
        found = terms(posterior, *pair)
    own = [one for one in found if _sorted_attributes(one) == attributes]
    return _sum_of_terms(own, attributes, level) if own else None


def _pool_effect(
    posterior: PooledPosterior,
    found: Sequence[Term],
    attributes: tuple[int, ...],
    pair: tuple[int, int],
    level: float,
) -> EffectBand:
    """Return what the tree adds beyond the class shares, averaged, and all tables of these.

    Widths are those of either part in quadrature, each side by itself, as in `margin_widths`.
    """
    margins = {one.attributes[0]: one.shares for one in found if len(one.attributes) == 1}
    tree = average_effect(posterior.tree, attributes, pair, level, margins)
    v, logs = posterior.weights[0], posterior.tables.log_shares
    odds = v * (tree.log_odds - (logs[pair[0]] - logs[pair[1]]))
    within = [one for one in found if set(one.attributes) <= set(attributes)]
    if not within:
        return EffectBand(odds, v * tree.below, v * tree.above, tree.shares)
    within.sort(key=lambda one: len(one.attributes))
    beside = _sum_of_terms(within, attributes, level)
    measured = _sorted_attributes(within[-1]) == attributes
    return EffectBand(
        odds + beside.log_odds,
        np.hypot(v * tree.below, beside.below),
        np.hypot(v * tree.above, beside.above),
        beside.shares if measured else tree.shares,
    )


def _sum_of_terms(found: Sequence[Term], attributes: tuple[int, ...], level: float) -> EffectBand:
    """Return the sum of terms within some attributes, as if they were apart.

    Shares are those of the last one.
    """
    whole = [one.expand_codes() for one in found]
    odds = [_align(one, one.log_odds, attributes) for one in whole]
    variances = [_align(one, one.deviations**2, attributes) for one in whole]
    log_odds, variance = (sum(one[1:], start=one[0]) for one in (odds, variances))
    width = float(norm.ppf(0.5 + level / 2)) * np.sqrt(variance)
    return EffectBand(log_odds, width, width, _align(whole[-1], whole[-1].shares, attributes))


def _sorted_attributes(term: Term) -> tuple[int, ...]:
    return tuple(sorted(term.attributes))


def _align(term: Term, values: Array, attributes: tuple[int, ...]) -> Array:
    """Return values of a term with an axis for each of some attributes, in their order."""
    own = np.argsort(term.attributes).tolist()
    missing = [axis for axis, i in enumerate(attributes) if i not in term.attributes]
    return np.expand_dims(np.transpose(values, own), missing)
