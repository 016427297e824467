r"""The log odds of a posterior, one term at a time: what each attribute and interaction adds.

Posteriors are sums: of single attributes' effects, and of what tables of several attributes say
beyond them,

.. math:: F(x) = f_0 + \sum_i f_i(x_i) + \sum_B g_B(x_B).

A term is shown with the standard deviation that noise and the drawing of records leave it. All of
this is post-processing of a release.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs
from mrf_matrix.posterior.block_fit import BlockFit, BlockModel
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
    """Return all terms of the log odds of class `one` against class `other`.

    `one`, `other`: numbers of two classes.

    Raises ValueError if they are the same.
    """
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
            deviations = np.sqrt(_main_variances(model, fit, here, one, other))
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


def _main_variances(model: BlockModel, fit: BlockFit, here: slice, one: int, other: int) -> Array:
    """Return the variances of one attribute's log odds between two classes, shape (n_i,).

    The gradient in code u is ``m_two - m_one`` for what is common, ``e_u - m_one`` for the
    effects of the first class and ``m_two - e_u`` for those of the second, m the shares.
    """
    codes = np.arange(here.start, here.stop)
    rows = np.concatenate([codes + place * model.n_codes for place in range(3)])
    covariance = fit.covariance.pair_covariance(one, other)[np.ix_(rows, rows)]
    first, second = (model.shares(fit)[c, here] for c in (one, other))
    unit = np.eye(len(codes))
    gradient = np.hstack([np.tile(second - first, (len(codes), 1)), unit - first, second - unit])
    return np.asarray(np.maximum(((gradient @ covariance) * gradient).sum(axis=1), 0.0))


def _independent(margins: list[Array]) -> Array:
    """Return the shares of cells whose attributes are independent."""
    shares: Array = np.ones(())
    for margin in margins:
        shares = np.multiply.outer(shares, margin)
    return shares
