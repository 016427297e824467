"""Public queries of a plan, each once, and whose errors strategies make small."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.base.checks import whole_number
from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests.codes import checked_codes
from mrf_matrix.forests.sources.ensembles import Ensemble
from strategies.operators import Identity, Operator
from strategies.problem.objective import Aim, Objective, checked_weights

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


class Words(TypedDict):
    """An objective in the words of `strategies.select` and `strategies.evaluate`."""

    objective: Objective
    weights: Array | None
    groups: Longs | None


@dataclass(frozen=True, eq=False)
class RowAim:
    """An objective over the rows of a workload.

    Attributes
    ----------
    objective : {"total", "max"}
    weights : ndarray of shape (q,), optional
        Of the rows' squared errors; all 1 where None.
    groups : ndarray of int, shape (q,), optional
        For "max": whose errors are added up; every row its own group where None.
    workload : Operator of shape (q, n), optional
        Whose rows these are; the answers where None.
    limits : ndarray of shape (q,), optional
        Largest root mean squared error of every row: the weights are their inverse squares.
    """

    objective: Objective = "total"
    weights: Array | None = None
    groups: Longs | None = None
    workload: Operator | None = None
    limits: Array | None = None

    @classmethod
    def of(cls, rows: int, objective: object, weights: object, groups: object) -> "RowAim":
        """Return what a user's words mean for so many answers, or refuse by name."""
        aim = Aim.of(Identity(rows), objective, groups)
        return cls(
            aim.objective, None if weights is None else checked_weights(weights, rows), aim.groups
        )

    @property
    def is_plain(self) -> bool:
        """Whether all answers count alike."""
        told = (self.weights, self.groups, self.workload)
        return self.objective == "total" and all(one is None for one in told)

    @property
    def words(self) -> Words:
        """The same for `strategies.select`."""
        return {"objective": self.objective, "weights": self.weights, "groups": self.groups}

    def value(self, errors: Array) -> float:
        """Return the objective of the rows' squared errors, shape (q,).

        Examples
        --------
        >>> RowAim("max", weights=np.array([1.0, 3.0])).value(np.array([2.0, 1.0]))
        3.0
        """
        weighed = errors if self.weights is None else self.weights * errors
        return Aim(self.objective, self.groups).value(weighed)

    def of_rows(self, start: int, stop: int) -> "RowAim":
        """Return the objective of some of the rows, one after the other."""
        mine = slice(start, stop)
        return replace(
            self,
            weights=None if self.weights is None else self.weights[mine],
            groups=None if self.groups is None else self.groups[mine],
        )

    def of_distinct(self, which: Longs, often: Longs) -> "RowAim":
        """Return the objective of rows of which some were given several times.

        Their errors add up in a total and within a group; where every row is its own group, the
        largest weight counts.

        Parameters
        ----------
        which : ndarray of int, shape (q,)
            The distinct row of each that was given.
        often : ndarray of int, shape (r,)
            How often each distinct row was given.

        Raises
        ------
        ValueError
            If equal rows are in different groups.
        """
        if (often == 1).all():  # they stand in the order in which they were given
            return self
        given = np.ones(len(which)) if self.weights is None else self.weights
        weights: Array = np.zeros(len(often))
        if self.objective == "total" or self.groups is not None:
            np.add.at(weights, which, given)
        else:
            np.maximum.at(weights, which, given)
        if self.limits is not None:
            limits: Array = np.full(len(often), np.inf)
            np.minimum.at(limits, which, self.limits)
            return replace(self, weights=weights, limits=limits)
        if self.groups is None:
            return replace(self, weights=weights)
        groups = np.empty(len(often), dtype=np.int64)
        groups[which] = self.groups
        if (groups[which] != self.groups).any():
            raise ValueError("groups tells equal queries apart: expected them in one group.")
        return replace(self, weights=weights, groups=groups)
