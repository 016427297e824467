"""What each mode asks of which private table, from public things alone."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.shown import shown
from mrf_matrix.compilation import leaf_incidence, path_matrix, prediction_workload, query_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests.codes import checked_codes
from mrf_matrix.forests.sources.ensembles import Ensemble
from strategies.operators import Operator, RowScaled, Sparse

Mode = Literal["training", "prediction", "subsample", "posterior"]
MODES: tuple[str, ...] = get_args(Mode)
Codes = NDArray[np.int32]

DRAWN_QUERIES = 128
"""Queries that stand for those to come, where none are given."""


def checked_mode(mode: Any) -> Mode:
    """Return a known mode or refuse by name."""
    for known in get_args(Mode):
        if isinstance(mode, str) and mode == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"mode={shown(mode)}: expected one of {', '.join(map(repr, MODES))}.")


def public_queries(
    domain: Domain, queries: Any, generator: np.random.Generator
) -> tuple[Codes, NDArray[np.int64]]:
    """Return distinct public queries and how often each is asked.

    Parameters
    ----------
    domain : Domain
    queries : None, int or ndarray of int, shape (b, d)
        Codes of queries, or how many to draw uniformly from the domain.
    generator : Generator
        Draws them.
    """
    if queries is None or np.ndim(queries) == 0:
        count = DRAWN_QUERIES if queries is None else whole_number("queries", queries)
        drawn = [generator.integers(0, size, count) for size in domain.sizes]
        codes = np.stack(drawn, axis=1).astype(np.int32)
    else:
        codes = np.asarray(checked_codes(queries, domain.sizes, domain.names), dtype=np.int32)
        if not len(codes):
            raise ValueError("queries is empty: expected at least one query, or their number.")
    _, first, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return codes[first[order]], counts[order].astype(np.int64)


def workload_of(mode: Mode, ensemble: Ensemble, queries: Codes | None) -> Operator:
    """Return an ensemble's workload: T, Q Tᵀ T over cells, or Q Tᵀ over leaves."""
    if mode == "training" or queries is None:
        return path_matrix(ensemble.forest)
    return vote_workload(mode, ensemble, queries)


def vote_workload(mode: Mode, ensemble: Ensemble, queries: Codes) -> Operator:
    """Return the weight votes of queries as a workload over an ensemble's private table."""
    forest = ensemble.forest
    asked = query_matrix(ensemble.view(queries), forest.domain)
    if mode == "subsample":
        return Sparse(leaf_incidence(forest, asked))
    return prediction_workload(forest, asked)


def as_often_as_asked(workload: Operator, multiplicity: NDArray[np.int64]) -> Operator:
    """Return a workload whose total error counts each row as often as it is asked."""
    if (multiplicity == 1).all():
        return workload
    return RowScaled(np.sqrt(multiplicity.astype(np.float64)), workload)


def leaf_shares(ensemble: Ensemble) -> NDArray[np.float64]:
    """Return each leaf's share of the cells: of the records too, if cells are as likely, (o,)."""
    sums = path_matrix(ensemble.forest).row_sums()
    size = ensemble.forest.domain.size
    return np.array([int(value) / size for value in sums])


def vote_shares_of(ensemble: Ensemble, queries: Codes) -> NDArray[np.float64]:
    """Return the share of the records that the leaves of each query add up to, (b,)."""
    shares = leaf_shares(ensemble)
    return np.asarray(shares[ensemble.forest.apply(ensemble.view(queries))].sum(axis=1))
