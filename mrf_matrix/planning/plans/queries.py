"""Public queries of a plan: which are distinct, and how often each is asked."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrf_matrix.base.arrays import Codes, Longs
from mrf_matrix.base.checks import whole_number
from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests.codes import checked_codes
from mrf_matrix.forests.sources.ensembles import Ensemble

DRAWN_QUERIES = 128
"""Queries that stand for those to come, where none are given."""


def public_queries(domain: Domain, queries: ArrayLike | None) -> Codes:
    """Return the codes of public queries, shape (b, d).

    Parameters
    ----------
    domain : Domain
    queries : None, int or ndarray of int, shape (b, d)
        Codes of queries, or how many to draw uniformly from the domain, always the same.
    """
    if queries is None or np.ndim(queries) == 0:
        count = DRAWN_QUERIES if queries is None else whole_number("queries", queries)
        generator = np.random.default_rng(0)
        drawn = [generator.integers(0, size, count) for size in domain.sizes]
        return np.stack(drawn, axis=1).astype(np.int32)
    codes = np.asarray(checked_codes(queries, domain.sizes, domain.names), dtype=np.int32)
    if not len(codes):
        raise ValueError("queries is empty: expected at least one query, or their number.")
    return codes


def query_keys(ensembles: Sequence[Ensemble], codes: Codes) -> Codes:
    """Return what tells queries apart: the attributes that some ensemble sees."""
    seen = sorted(set().union(*(ensemble.features for ensemble in ensembles)))
    return np.ascontiguousarray(codes[:, seen])


def distinct_queries(ensembles: Sequence[Ensemble], codes: Codes) -> tuple[Codes, Longs, Longs]:
    """Return the queries that differ to some ensemble, as first asked, and how often each is.

    Last comes which of them each of the queries is, shape (b,).
    """
    keys = query_keys(ensembles, codes)
    _, first, which, counts = np.unique(
        keys, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    return codes[first[order]], counts[order].astype(np.int64), np.argsort(order)[which.ravel()]


def leaf_shares(ensemble: Ensemble) -> NDArray[np.float64]:
    """Return each leaf's share of the cells: of the records too, if cells are as likely, (o,)."""
    sums = path_matrix(ensemble.forest).row_sums()
    size = ensemble.forest.domain.size
    return np.array([int(value) / size for value in sums])


def vote_shares_of(ensemble: Ensemble, queries: Codes) -> NDArray[np.float64]:
    """Return the share of the records that the leaves of each query add up to, (b,)."""
    shares = leaf_shares(ensemble)
    return np.asarray(shares[ensemble.forest.apply(ensemble.view(queries))].sum(axis=1))
