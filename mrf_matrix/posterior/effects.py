r"""The effects of attributes on a model's log odds: its terms, and of trees what they average.

Posteriors are sums: of single attributes' effects, and of what tables of several say beyond them,

.. math:: F(x) = f_0 + \sum_i f_i(x_i) + \sum_B g_B(x_B).

A term is shown with the standard deviation that noise and the drawing of records leave it.

A tree has one term, of all its attributes together. Of attributes S it says its log odds
:math:`L_v` of cells v, averaged over all others (partial dependence, Friedman 2001):

.. math:: f_S(x_S) = \sum_v A_v(x_S)\, L_v, \qquad
    A_v(x_S) = [x_S \in v_S] \sum_u s_u \prod_{j \notin S} q_j(v_j \mid u_j) .

Cells u hold the parts :math:`s_u` of the records that their counts say, and the codes of an
attribute within a cell have the shares :math:`q_j` that tables measured. Without counts
:math:`s_u = \prod_j q_j(u_j)`; without tables codes are even. Cells are independent of one another:
their log odds are drawn, averaged with the same A, and the averages' quantiles are the band.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from scipy.stats import norm

from mrf_matrix.base.arrays import AnyInts, Array, Bools, Longs
from mrf_matrix.posterior.label_posterior import LabelPosterior, PooledPosterior
from mrf_matrix.posterior.product import ProductPosterior
from mrf_matrix.posterior.residual_posterior import ResidualPosterior
from strategies.operators import check_allocation

AnyPosterior = ProductPosterior | ResidualPosterior | LabelPosterior | PooledPosterior


@dataclass(frozen=True, eq=False)
class Term:
    """What one attribute, or several together, add to the log odds of one class against another."""

    attributes: tuple[int, ...]
    log_odds: Array  # mean of the posterior
    deviations: Array  # its standard deviation
    # estimated shares of the records with these codes, from the release; they sum to one
    shares: Array
    # for each code of each attribute its place in these tables; None: codes are places
    places: tuple[Longs, ...] | None = None
    # which entry each record has, where all codes together would be too many for a table
    cells: Callable[[AnyInts], Longs] | None = None

    def at(self, codes: AnyInts) -> Array:
        """Return what the term adds for each record, shape (b,)."""
        if self.cells is not None:
            return np.asarray(self.log_odds[self.cells(codes)])
        columns = [codes[:, i] for i in self.attributes]
        if self.places is not None:
            columns = [place[column] for place, column in zip(self.places, columns, strict=True)]
        return np.asarray(self.log_odds[tuple(columns)])

    def expand_codes(self) -> "Term":
        """Return the term with an entry for all codes of its attributes together.

        Raises MemoryCapError, or ValueError of a tree of many attributes, if they are too many.
        """
        if self.cells is not None:
            raise ValueError(
                f"a tree that depends on {len(self.attributes)} attributes has no table of all "
                f"their codes: draw it with export_text."
            )
        if self.places is None:
            return self
        check_allocation("a term over all codes", (4, *map(len, self.places)))
        all_codes = np.ix_(*self.places)
        times = self.places_taken()
        return Term(
            self.attributes,
            self.log_odds[all_codes],
            self.deviations[all_codes],
            self.shares[all_codes] / times[all_codes],
        )

    def places_taken(self) -> Array:
        """Return how many codes share each place."""
        assert self.places is not None
        counts = [np.bincount(place) for place in self.places]
        return _independent([one.astype(np.float64) for one in counts])

    @property
    def size(self) -> float:
        """Root mean square of the term around its mean, over the estimated shares."""
        centred = self.log_odds - (self.shares * self.log_odds).sum()
        return float(np.sqrt((self.shares * centred**2).sum()))


def terms(posterior: AnyPosterior, one: int, other: int) -> list[Term]:
    """Return all terms of the log odds of class `one` against class `other`, another one."""
    if one == other:
        raise ValueError(f"classes {one} and {other}: expected two different ones.")
    if isinstance(posterior, ProductPosterior):
        return list(_product_terms(posterior, one, other))
    if isinstance(posterior, LabelPosterior):
        return [_label_term(posterior, one, other)]
    if isinstance(posterior, PooledPosterior):
        return list(_pool_terms(posterior, one, other))
    return list(_residual_terms(posterior, one, other))


def constant(posterior: AnyPosterior, one: int, other: int) -> float:
    """Return the log odds of class `one` against `other` that no term explains."""
    if isinstance(posterior, ProductPosterior):
        values = posterior.totals.values
        return float(np.log(values[one] / values[other]))
    if isinstance(posterior, LabelPosterior):
        return 0.0
    if isinstance(posterior, PooledPosterior):
        shares = posterior.tables.log_shares
        ahead = float(shares[one] - shares[other])
        return ahead + posterior.weights[1] * (constant(posterior.tables, one, other) - ahead)
    return sum(
        sign * (part.base + part.shift) for sign, part in posterior.signed_columns(one, other)
    )


def contributions(found: list[Term], codes: AnyInts) -> Array:
    """Return what each term adds for each record, shape (b, terms).

    With `constant` they sum to the posterior mean of the log odds.
    """
    columns = [term.at(codes) for term in found]
    return np.stack(columns, axis=1) if columns else np.zeros((len(codes), 0))


def _label_term(posterior: LabelPosterior, one: int, other: int) -> Term:
    """Return the only term of labels; they tell no shares, so that codes are taken as even.

    Counts tell how many records each cell of the tree holds; within it codes are even.
    """
    cells, table = posterior.partition, posterior.partition.table
    odds, deviations = posterior.log_odds(one, other)
    if table is None:
        shares = cells.cell_shares
        if posterior.sizes is not None:  # no codes are in some cells, whatever noise says of them
            shares = np.where(shares > 0, posterior.sizes, 0.0)
            shares /= shares.sum()
        return Term(cells.attributes, odds, deviations, shares, cells=cells.cells)
    shares = table.shares
    if posterior.sizes is not None:
        even = cells.cell_shares
        times = np.divide(posterior.sizes, even, out=np.zeros_like(even), where=even > 0)
        shares = shares * times[table.numbers]
        shares /= shares.sum()
    numbers = table.numbers
    return Term(cells.attributes, odds[numbers], deviations[numbers], shares, table.places)


def _pool_terms(posterior: PooledPosterior, one: int, other: int) -> Iterator[Term]:
    """Yield the tree's term, beside the class shares, and those of the tables.

    Where both have one of the same attributes, it is one term.
    """
    shares = posterior.tables.log_shares
    of_tree = _label_term(posterior.tree, one, other)
    ahead = shares[one] - shares[other]
    of_tree = replace(of_tree, log_odds=of_tree.log_odds - ahead)
    of_tree = _weight_term(of_tree, posterior.weights[0])
    rest = []
    for term in terms_of_tables(posterior, one, other):
        if term.attributes == of_tree.attributes:
            whole = of_tree.expand_codes()
            deviations = np.hypot(whole.deviations, term.deviations)
            odds = whole.log_odds + term.log_odds
            of_tree = replace(term, log_odds=odds, deviations=deviations)
        else:
            rest.append(term)
    yield from (of_tree, *rest)


def terms_of_tables(posterior: PooledPosterior, one: int, other: int) -> Iterator[Term]:
    """Yield the terms of a pool's tables as they count."""
    for term in terms(posterior.tables, one, other):
        yield _weight_term(term, posterior.weights[1])


def _weight_term(term: Term, weight: float) -> Term:
    return replace(term, log_odds=weight * term.log_odds, deviations=weight * term.deviations)


def _residual_terms(posterior: ResidualPosterior, one: int, other: int) -> Iterator[Term]:
    signed = posterior.signed_columns(one, other)
    for place, block in enumerate(posterior.blocks):
        parts = [(sign, column.blocks[place]) for sign, column in signed]
        variances = sum(np.diagonal(part.covariance) for _, part in parts)
        log_odds = sum(sign * part.mean for sign, part in parts)
        yield Term(
            block.attributes,
            np.reshape(log_odds, block.sizes),
            np.sqrt(variances).reshape(block.sizes),
            _independent([posterior.margins[i] for i in block.attributes]),
        )


def _product_terms(posterior: ProductPosterior, one: int, other: int) -> Iterator[Term]:
    trust, totals = posterior.trust, posterior.totals.values
    weights = totals / totals.sum()
    for model, fit, beyond in zip(
        posterior.models, posterior.fits, posterior.interactions, strict=True
    ):
        shares, table = model.shares(fit), model.table
        margins = []
        for place, attribute in enumerate(table.attributes):
            here = slice(model.starts[place], model.starts[place + 1])
            odds = np.log(shares[one, here]) - np.log(shares[other, here])
            deviations = np.sqrt(model.variances(fit, here, one, other))
            margins.append(weights @ shares[:, here])
            yield Term((attribute,), trust * odds, trust * deviations, margins[-1])
        if len(table.attributes) > 1:
            logs = beyond.logs[:, one] - beyond.logs[:, other]
            variances = beyond.variances[:, one] + beyond.variances[:, other]
            yield Term(
                table.attributes,
                trust * logs.reshape(table.sizes),
                trust * np.sqrt(variances).reshape(table.sizes),
                _independent(margins),
            )


def _independent(margins: list[Array]) -> Array:
    """Return the shares of cells whose attributes are independent."""
    shares: Array = np.ones(())
    for margin in margins:
        shares = np.multiply.outer(shares, margin)
    return shares


MOST_PLACES = 1 << 16
"""Of a table of averages: combinations of codes that lie on the same sides of all cuts."""

DRAWS = 1 << 13
AT_ONCE = 1 << 22
"""Averages that are held at once, 32 MB."""


@dataclass(frozen=True, eq=False)
class EffectBand:
    """Log odds over all codes of some attributes, with their bands: an axis for each."""

    log_odds: Array
    below: Array  # how far the band reaches below: not negative
    above: Array
    shares: Array  # estimated shares of the records, which sum to one

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

    `attributes`: rising positions of some that its cells depend on. `pair`: the class that log odds
    speak for, and the one they speak against. `level`: of the band, either tail half of the rest.
    `margins`: shares of the codes of attributes, where tables measured them.

    Raises ValueError if the attributes have too many combinations; MemoryCapError if what has an
    entry for all codes together is too large.
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
    """Return the effect of attributes, or None if nothing is said of them; see `average_effect`.

    Raises as it does, and ValueError if the classes are the same.
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
    own = [one for one in found if tuple(sorted(one.attributes)) == attributes]
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
    measured = tuple(sorted(within[-1].attributes)) == attributes
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


def _align(term: Term, values: Array, attributes: tuple[int, ...]) -> Array:
    """Return values of a term with an axis for each of some attributes, in their order."""
    own = np.argsort(term.attributes).tolist()
    missing = [axis for axis, i in enumerate(attributes) if i not in term.attributes]
    return np.expand_dims(np.transpose(values, own), missing)
