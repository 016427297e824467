"""Lossless merging: cells with equal workload columns are interchangeable, so merge them.

If columns i and j of W are equal, then W = W' G with one column a group of cells, and every
strategy A' over the groups is the strategy A' G over the cells with the same column norms and
the same ``W A⁺ = W' A'⁺``. Conversely, averaging any strategy over the cells of a group raises
neither norm nor error, so the optimum over the groups is the optimum over the cells.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators import (
    Dense,
    Gram,
    Grouping,
    Identity,
    Marginals,
    Operator,
    Product,
    Sparse,
    as_operator,
    fits,
)
from strategies.operators.base.arrays import Form, Integers, Longs, Numbers, Real
from strategies.operators.masks.packed_masks import unique_rows

Keys = NDArray[np.uint64]

LARGEST_DENSE = 4000  # groups up to which a strategy is handled as an explicit matrix
MOST_AVERAGED = 2 * 10**7  # entries of a strategy whose columns are averaged over groups


@dataclass(frozen=True, eq=False)
class Merging:
    """Groups of cells with equal columns.

    They are numbered by their first cell, or in an order in which all rows are ranges.

    Examples
    --------
    >>> merging = merge_columns([[1, 2, 1], [0, 3, 0]])
    >>> merging.groups
    array([0, 1, 0])
    >>> merging.apply([[1, 2, 1], [0, 3, 0]]).to_dense()
    array([[1., 2.],
           [0., 3.]])
    """

    grouping: Grouping

    @property
    def groups(self) -> Longs:
        """Group of every cell, shape (n,)."""
        return self.grouping.labels

    @property
    def n_groups(self) -> int:
        """Number of groups g."""
        return self.grouping.shape[0]

    @cached_property
    def is_trivial(self) -> bool:
        """Whether no two columns are equal, in the order of the cells: groups and cells are one."""
        return self.tells_all_apart and bool((np.diff(self.groups) > 0).all())

    @property
    def tells_all_apart(self) -> bool:
        """Whether no two columns are equal."""
        return self.n_groups == self.grouping.shape[1]

    def apply(self, workload: object) -> Operator:
        """Return W' with ``W = W' G``: one column a group."""
        operator = as_operator(workload, "workload")
        if self.is_trivial:
            return operator
        first = self.grouping.representatives
        if isinstance(operator, Gram):
            return Gram(operator.array[np.ix_(first, first)])
        return as_operator(operator.compact()[:, first], "workload")

    def average(self, matrix: object) -> Operator:
        """Return the strategy over the groups whose columns are the means of each group's.

        ``X A = W`` implies ``X A G⁺ G = W``, so its error is never larger, nor its norm.
        """
        operator = as_operator(matrix, "matrix")
        if self.is_trivial:
            return operator
        if operator is self.grouping or isinstance(operator, Identity):
            return Identity(self.n_groups)
        if isinstance(operator, Product) and operator.right is self.grouping:
            return operator.left
        shares = sparse.diags_array(1.0 / self.grouping.counts) @ self.grouping.to_sparse()
        return as_operator(operator.compact() @ shares.T)

    def can_average(self, matrix: Operator) -> bool:
        """Tell whether columns can be averaged over the groups, few enough to solve with."""
        if self.n_groups > LARGEST_DENSE:
            return False
        return matrix.entries <= MOST_AVERAGED and fits((matrix.entries,), 32)

    def invert(self, matrix: object) -> Operator:
        """Return the strategy ``A' G`` over the cells, for a strategy A' over the groups."""
        operator = as_operator(matrix, "matrix")
        if isinstance(operator, Identity):
            apart, sizes = self.tells_all_apart, self.grouping.sizes
            return Identity(operator.n, sizes) if apart else self.grouping
        return operator if self.is_trivial else Product(operator, self.grouping)


def merge_columns(workload: object) -> Merging:
    """Find the groups of cells whose columns of the workload are equal, entry for entry.

    Columns are compared by 128-bit hashes of their nonzeros, then groups are checked entry for
    entry, so the merging is exact: the hash can only cost speed, never correctness. The largest
    arrays hold one number per nonzero of W.
    """
    operator = as_operator(workload, "workload")
    distinct = operator.has_distinct_columns or tells_codes_apart(operator)
    if distinct or sums_differ(operator):
        return Merging(Grouping(np.arange(operator.shape[1]), operator.sizes))
    # columns i and j of W are equal where rows i and j of its Gram are
    form: Form = operator.array if isinstance(operator, Gram) else operator.compact()
    if not isinstance(form, np.ndarray):
        form = form.tocsc()
    keys = dense_keys(form) if isinstance(form, np.ndarray) else sparse_keys(form)
    first, inverse = unique_rows(keys)
    # number the groups by their first cell, so that they keep the order of the domain
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    grouping = Grouping(rank[inverse], operator.sizes)
    told_apart = grouping.shape[0] == grouping.shape[1]
    if not (told_apart or agrees(form.T, form.T[grouping.representatives], grouping.labels)):
        grouping = Grouping(np.arange(operator.shape[1]), operator.sizes)
    return Merging(grouping)


def tells_codes_apart(workload: Operator) -> bool:
    """Tell whether every attribute of several codes is in a table: no columns are equal then."""
    if not isinstance(workload, Marginals):
        return False
    asked = {i for chosen in workload.attribute_sets for i in chosen}
    return all(i in asked or size == 1 for i, size in enumerate(workload.domain_sizes))


def sums_differ(workload: Operator) -> bool:
    """Tell whether two hashed sums of 0/1 rows differ between all columns; False proves nothing.

    Equal columns have equal sums, for whole numbers that stay below 2**53 are added exactly. No
    nonzero is written out: the largest array has two numbers a column.
    """
    q, n = workload.shape
    if not workload.is_binary or q == 0:
        return False
    hashed = hash_entries(np.arange(q), np.ones(q)) >> np.uint64(11 + (q - 1).bit_length())
    sums = np.ascontiguousarray(workload.rmatmat(hashed.astype(np.float64)))
    return len(unique_rows(sums)[0]) == n


def can_merge(workload: Operator) -> bool:
    """Tell whether columns can be compared one by one within the memory cap.

    Sorting and hashing take about 128 bytes per stored entry of a sparse matrix at their peak, half
    as much where all are equal; a dense one is hashed in bands.
    """
    if not fits((workload.shape[1], 16)):
        return False
    if workload.has_distinct_columns:
        return True
    if isinstance(workload, Dense | Gram):
        return fits((workload.entries,), 32)
    known = isinstance(workload, Sparse) and are_equal(workload.matrix.data)
    return fits((workload.entries,), 64 if known else 128)


def are_equal(values: Numbers) -> bool:
    """Tell whether there are numbers, and all are one."""
    return len(values) > 0 and bool((values == values[0]).all())


def sparse_keys(form: sparse.csc_array) -> Keys:
    """Hash the columns of a CSC array to shape (n, 2): a sum over nonzeros of mixed words."""
    values = form.data
    if are_equal(values):  # as of 0/1 rows: one hash a row, added up by a product
        rows = np.arange(form.shape[0])
        hashes = hash_entries(rows, np.full(len(rows), values[0]))
        ones = (np.full(len(values), values[0] != 0, np.uint64), form.indices, form.indptr)
        return np.asarray(sparse.csc_array(ones, shape=form.shape).T @ hashes)
    entries = hash_entries(form.indices, values)
    entries[values == 0] = 0
    totals = np.zeros((len(form.data) + 1, 2), dtype=np.uint64)
    np.cumsum(entries, axis=0, out=totals[1:])
    return totals[form.indptr[1:]] - totals[form.indptr[:-1]]


def dense_keys(form: Real) -> Keys:
    """Hash the columns of an ndarray to shape (n, 2), a band of rows at a time."""
    q, n = form.shape
    keys = np.zeros((n, 2), dtype=np.uint64)
    step = max(1, 2**20 // n)
    for start in range(0, q, step):
        band = form[start : start + step]
        rows = np.repeat(np.arange(start, start + len(band)), n)
        entries = hash_entries(rows, band.ravel())
        entries[band.ravel() == 0] = 0
        keys += entries.reshape(*band.shape, 2).sum(axis=0, dtype=np.uint64)
    return keys


def hash_entries(rows: Integers, values: Numbers) -> Keys:
    """Hash pairs of a row number and a value to two 64-bit words each."""
    bits = values.astype(np.float64).view(np.uint64)
    word = mixed_words(bits ^ mixed_words(rows.astype(np.uint64)))
    return np.stack([word, mixed_words(word ^ np.uint64(0xD1B54A32D192ED03))], axis=1)


def mixed_words(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words one to one (the finaliser of SplitMix64)."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def agrees(form: Any, picked: Any, inverse: Longs) -> bool:
    """Compare every row with the one that stands for it, entry for entry, a band at a time."""
    step = max(1, 2**22 // form.shape[1])
    return all(
        not np.any((form[s : s + step] != picked[inverse[s : s + step]]).sum())
        for s in range(0, form.shape[0], step)
    )
