"""The effect of attributes in a whole model: terms of its tables, and of a tree what it averages.

A tree has one term, of all its attributes together. What it says of some of them is the average
over the others, see `mrf_matrix.posterior.averages`.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.averages import Banded, averaged
from mrf_matrix.posterior.effects import AnyPosterior, Term, terms, terms_of_tables
from mrf_matrix.posterior.labelled import LabelPosterior
from mrf_matrix.posterior.pooled import PooledPosterior


def effect_of(
    posterior: AnyPosterior, attributes: tuple[int, ...], pair: tuple[int, int], level: float
) -> Banded | None:
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
        return averaged(posterior, attributes, pair, level) if known else None
    if isinstance(posterior, PooledPosterior):
        found = list(terms_of_tables(posterior, *pair))
        if set(attributes) <= set(posterior.tree.partition.attributes):
            return _pooled(posterior, found, attributes, pair, level)
    else:
        found = terms(posterior, *pair)
    own = [one for one in found if _rising(one) == attributes]
    return _sum_of_terms(own, attributes, level) if own else None


def _pooled(
    posterior: PooledPosterior,
    found: Sequence[Term],
    attributes: tuple[int, ...],
    pair: tuple[int, int],
    level: float,
) -> Banded:
    """Return what the tree adds beyond the class shares, averaged, and all tables of these.

    Widths are those of either part in quadrature, each side by itself, as in `margin_widths`.
    """
    margins = {one.attributes[0]: one.shares for one in found if len(one.attributes) == 1}
    tree = averaged(posterior.tree, attributes, pair, level, margins)
    v, logs = posterior.weights[0], posterior.tables.log_shares
    odds = v * (tree.log_odds - (logs[pair[0]] - logs[pair[1]]))
    within = [one for one in found if set(one.attributes) <= set(attributes)]
    if not within:
        return Banded(odds, v * tree.below, v * tree.above, tree.shares)
    within.sort(key=lambda one: len(one.attributes))
    beside = _sum_of_terms(within, attributes, level)
    measured = _rising(within[-1]) == attributes
    return Banded(
        odds + beside.log_odds,
        np.hypot(v * tree.below, beside.below),
        np.hypot(v * tree.above, beside.above),
        beside.shares if measured else tree.shares,
    )


def _sum_of_terms(found: Sequence[Term], attributes: tuple[int, ...], level: float) -> Banded:
    """Return the sum of terms within some attributes, as if they were apart.

    Shares are those of the last one.
    """
    whole = [one.over_codes() for one in found]
    odds = [_along(one, one.log_odds, attributes) for one in whole]
    variances = [_along(one, one.deviations**2, attributes) for one in whole]
    log_odds, variance = (sum(one[1:], start=one[0]) for one in (odds, variances))
    width = float(norm.ppf(0.5 + level / 2)) * np.sqrt(variance)
    return Banded(log_odds, width, width, _along(whole[-1], whole[-1].shares, attributes))


def _rising(term: Term) -> tuple[int, ...]:
    return tuple(sorted(term.attributes))


def _along(term: Term, values: Array, attributes: tuple[int, ...]) -> Array:
    """Return values of a term with an axis for each of some attributes, in their order."""
    own = np.argsort(term.attributes).tolist()
    missing = [axis for axis, i in enumerate(attributes) if i not in term.attributes]
    return np.expand_dims(np.transpose(values, own), missing)
