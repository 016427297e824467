"""Workloads of the literature, ready for comparison."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from strategies.operators import Dense, Kronecker, Marginals, Operator, Stack
from strategies.operators.ordered_sums import AllRanges, PrefixSums


def prefix_sums(n: int) -> Operator:
    """Return the n prefix sums over n ordered cells: row i sums cells 0 to i.

    >>> prefix_sums(3).to_dense()
    array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 1., 1.]])
    """
    return PrefixSums(_positive("n", n))


def all_ranges(n: int) -> Operator:
    """Return the ``n (n + 1) / 2`` sums over intervals of n ordered cells.

    ``(WᵀW)_ij = (min(i, j) + 1) (n - max(i, j))`` counts the intervals that hold both cells.

    >>> all_ranges(3).gram_dense()
    array([[3., 2., 1.],
           [2., 4., 2.],
           [1., 2., 3.]])
    """
    return AllRanges(_positive("n", n))


def binary_tree(n: int) -> Operator:
    """Return the ``2 n - 1`` nodes of a balanced binary tree over n cells, n a power of two.

    >>> binary_tree(4).to_dense()
    array([[1., 1., 1., 1.],
           [1., 1., 0., 0.],
           [0., 0., 1., 1.],
           [1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """
    depth = _positive("n", n).bit_length() - 1
    if 1 << depth != n:
        raise ValueError(f"n={n}: expected a power of two.")
    levels = [np.kron(np.eye(1 << level), np.ones((1, n >> level))) for level in range(depth + 1)]
    return Dense(np.concatenate(levels))


def marginals(sizes: Sequence[int], order: int) -> Operator:
    """Return all marginal tables on ``order`` attributes of a product domain, of any size.

    `sizes`: sizes of the attributes; `order`: attributes of each table, from 0 (the total) to
    ``len(sizes)``.

    >>> marginals((2, 3), 1).to_dense()
    array([[1., 1., 1., 0., 0., 0.],
           [0., 0., 0., 1., 1., 1.],
           [1., 0., 0., 1., 0., 0.],
           [0., 1., 0., 0., 1., 0.],
           [0., 0., 1., 0., 0., 1.]])
    """
    if not 0 <= order <= len(sizes):
        raise ValueError(f"order={order}: expected 0 to {len(sizes)}, the number of attributes.")
    attribute_sets = list(combinations(range(len(sizes)), order))
    return Marginals(sizes, attribute_sets, [1.0] * len(attribute_sets))


def census_like(ages: int = 115, regions: int = 51) -> Operator:
    """Return person counts of a census in the manner of its Summary File 1, a union of products.

    Over sex (2) x age x race (63) x ethnicity (2) x region: totals, sexes by age bands, races by
    ethnicity, adults among them, and single ages of minors, each for the whole country and for
    every region.

    `ages`, `regions`: codes of age, from 0 years on, and of region.

    References
    ----------
    McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries
    under differential privacy (2018), whose SF1 workload has this shape.

    >>> census_like().shape
    (19708, 1477980)
    """
    years = np.arange(_positive("ages", ages))
    starts = np.unique(np.minimum([0, 5, 10, 15, 18, 20, 22, 25, 30, 40, 50, 60, 65, 75, 85], ages))
    starts = starts[starts < ages]
    bands = (
        np.searchsorted(starts, years, side="right") - 1 == np.arange(len(starts))[:, None]
    ) * 1
    adults = (years >= 18)[None, :] * 1
    minors = np.eye(ages, dtype=np.int64)[:18]
    everyone = np.ones((1, ages), dtype=np.int64)
    sex, race, ethnicity = np.eye(2), np.eye(63), np.eye(2)
    both, any_race, any_ethnicity = np.ones((1, 2)), np.ones((1, 63)), np.ones((1, 2))
    where = np.concatenate([np.ones((1, _positive("regions", regions))), np.eye(regions)])
    tables = [
        (both, everyone, any_race, any_ethnicity),
        (sex, bands, any_race, any_ethnicity),
        (both, everyone, race, ethnicity),
        (both, adults, race, ethnicity),
        (sex, minors, any_race, any_ethnicity),
        (sex, bands, any_race, ethnicity),
    ]
    return Stack([Kronecker([Dense(part) for part in (*table, where)]) for table in tables])


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r}: expected a positive integer.")
    return value
