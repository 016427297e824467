"""Private leaf counts C = T D of a public forest, and cells counted by distinct code.

*Counts by key: (cell, class) pairs as numbers, sorted, and merged by sorting.* A domain whose
(cell, class) pairs fit 62 bits has one number a pair, a larger one several: *words* of as many
attributes as fit. Sorting by all words is sorting the pairs in C order.

Where (cell, class) pairs are few, they are a dense table, and a record costs one addition to it.
Where they are many, only occupied ones are kept, as sorted keys: a block of keys is sorted, and
merged with what is there once it has grown to its size, so that every key is sorted a few times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Codes, Longs
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.base.provenance import NOTHING, Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.counts import (
    CellCounts,
    PrivateAnswers,
    check_exact,
    check_private_allocation,
    checked_counts,
    checked_sizes,
    provenance_of_counts,
)
from strategies.operators import (
    Marginals,
    MatrixLike,
    Operator,
    RowKronecker,
    RowScaled,
    Scaled,
    as_operator,
)
from strategies.operators.masks.components import mask_rows


@dataclass(frozen=True, eq=False, repr=False)
class LeafCounts(PrivateValue):
    """How many records of each class reach each leaf of a public forest: **private**.

    It takes the place of `CellCounts` in `measure` wherever every row of the strategy is a
    leaf's row times an integer, and gives the same answers there.

    Parameters
    ----------
    paths : RowKronecker of shape (o, n)
        The forest's decision-path matrix T.
    counts : ndarray of int, shape (o, k)
        ``T D``, not negative.
    domain : Domain, optional
        The domain of the records.
    """

    paths: RowKronecker
    counts: Longs
    domain: Domain | None = None
    _provenance: Provenance = field(default=NOTHING, repr=False)

    def __post_init__(self) -> None:
        rows = self.paths.shape[0]
        expected = f"({rows}, k), a row for each leaf"
        object.__setattr__(self, "counts", checked_counts(self.counts, rows, expected))
        object.__setattr__(self, "_provenance", provenance_of_counts(self.domain, self._provenance))

    @property
    def provenance(self) -> Provenance:
        """Where the leaves came from: that of the domain and of the forest."""
        return self._provenance

    @property
    def sizes(self) -> tuple[int, ...]:
        """Attribute sizes of the public domain."""
        return self.paths.sizes

    @property
    def n_classes(self) -> int:
        """Number of classes k, public."""
        return int(self.counts.shape[1])

    def __add__(self, other: object) -> "LeafCounts":
        if not isinstance(other, LeafCounts):
            return NotImplemented
        if not _same_paths(self.paths, other.paths) or self.domain != other.domain:
            raise ValueError("leaf counts of different forests: expected one public forest.")
        both = self.provenance | other.provenance
        return LeafCounts(self.paths, self.counts + other.counts, self.domain, both)

    __array_ufunc__ = None  # so that `ndarray @ counts` comes here

    def __rmatmul__(self, matrix: MatrixLike) -> PrivateAnswers:
        """Return ``A @ counts``: answers without noise, which nothing shows."""
        return PrivateAnswers(self.answers(as_operator(matrix)).astype(np.float64))

    def answers(self, operator: Operator) -> Longs:
        """Return ``A D`` exactly, shape (m, k), where each row of A is a leaf's, weighted.

        Raises
        ------
        ValueError
            If the operator measures anything else.
        OverflowError
            If an answer might exceed 63 bits.
        """
        weights = self.check_measured(operator)
        check_exact(weights, float(self.counts.sum(axis=0, dtype=np.float64).max()))
        return np.asarray(weights.reshape(-1, 1) * self.counts, dtype=np.int64)

    def check_measured(self, operator: Operator) -> AnyInts:
        """Return the weight of each leaf in an operator, or refuse one of other rows.

        Raises
        ------
        ValueError
            If the operator measures anything but these leaves.
        """
        weights, inner = _weighted_rows(operator)
        if not isinstance(inner, RowKronecker) or not _same_paths(inner, self.paths):
            raise ValueError(
                "counts are those of a forest's leaves, and the strategy measures something else: "
                "expected a strategy whose rows are these leaves, such as allocation='per_tree' "
                "or a posterior forest of these blocks, or counts of cells, from count_stream."
            )
        return weights

    def __repr__(self) -> str:
        return f"LeafCounts(private, {self.paths.shape[0]} leaves, {self.n_classes} classes)"


def _weighted_rows(operator: Operator) -> tuple[AnyInts, Operator]:
    """Return integer weights and the structure whose rows they multiply."""
    weights = np.ones(1, dtype=np.int64)
    while isinstance(operator, RowScaled | Scaled):
        more = operator.weights if isinstance(operator, RowScaled) else operator.weight
        weights, operator = weights * _whole_numbers(np.asarray(more)), operator.inner
    rows = mask_rows(operator) if isinstance(operator, Marginals) else None
    if rows is None:
        return weights, operator
    each = np.ones(1) if rows.mix is None else rows.mix.diagonal()  # the leaves of a tree a table
    return weights * _whole_numbers(each), RowKronecker.from_masks(rows.masks)


def _whole_numbers(given: NDArray[np.generic]) -> NDArray[np.int64]:
    whole: NDArray[np.int64] = np.rint(given).astype(np.int64)
    if not np.array_equal(whole, given):
        raise ValueError(
            "the strategy's rows have real weights: expected integers; round it first with "
            "round_strategy(matrix, norm)."
        )
    return whole


def _same_paths(one: RowKronecker, other: RowKronecker) -> bool:
    return one.sizes == other.sizes and np.array_equal(one.bits, other.bits)


Integer = TypeVar("Integer", np.int32, np.int64)
Columns = Sequence[AnyInts]
KeyCounts = tuple[Longs, Longs]
"""Keys of shape (w, m), distinct and sorted, and how many records have each, shape (m,)."""

WORD = 2**62


def word_groups(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the positions that each word holds, as many in a row as fit.

    >>> word_groups([2**40, 2**20, 2**30, 3])
    ((0, 1), (2, 3))
    """
    groups: list[tuple[int, ...]] = []
    for position, size in enumerate(sizes):
        if groups and prod(sizes[i] for i in groups[-1]) * size <= WORD:
            groups[-1] = (*groups[-1], position)
        else:
            groups.append((position,))
    return tuple(groups)


def keys_of(columns: Columns, sizes: Sequence[int], dtype: type[Integer]) -> NDArray[Integer]:
    """Return the numbers of cells in C order, shape (N,), by Horner's rule in place.

    The largest array is the result.
    """
    keys = columns[0].astype(dtype)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        keys *= size
        np.add(keys, column, out=keys, casting="unsafe")
    return keys


def codes_of(keys: Longs, sizes: Sequence[int]) -> Codes:
    return np.stack(np.unravel_index(keys, tuple(sizes)), axis=1).astype(np.int32)


def no_counts(n_words: int) -> KeyCounts:
    return np.empty((n_words, 0), dtype=np.int64), np.empty(0, dtype=np.int64)


def counted_keys(keys: Longs, weights: Longs | None = None) -> KeyCounts:
    """Return distinct keys, sorted, and the sums of their weights (1 each where none are given).

    `keys` (w, m); `weights` (m,).
    """
    if len(keys) == 1 and weights is None:
        ordered = np.sort(keys, axis=1)
    else:
        order = np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1])
        ordered = keys[:, order]
        weights = None if weights is None else weights[order]
    if not ordered.shape[1]:
        return no_counts(len(keys))
    new = np.ones(ordered.shape[1], dtype=bool)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    starts = np.flatnonzero(new)
    if weights is None:
        sums = np.diff(starts, append=ordered.shape[1])
    else:
        sums = np.add.reduceat(weights, starts)
    return np.ascontiguousarray(ordered[:, starts]), sums


def merged_keys(parts: Sequence[KeyCounts]) -> KeyCounts:
    if len(parts) == 1:
        return parts[0]
    keys = np.concatenate([part[0] for part in parts], axis=1)
    return counted_keys(keys, np.concatenate([part[1] for part in parts]))


DENSE_ENTRIES = 2**24  # (cell, class) pairs up to which counts are a dense table (128 MB)

PENDING_KEYS = 2**22  # keys that wait at least before they are sorted and merged (32 MB a word)

Table = Longs | KeyCounts
"""What has been counted: a dense table of shape (cells x k,), or counts by key."""


def merged_tables(tables: Sequence[Table]) -> Table:
    """Return the sum of what several tallies over one domain have counted, in a new table."""
    first = tables[0]
    if isinstance(first, tuple):
        return merged_keys([table for table in tables if isinstance(table, tuple)])
    total = first.copy()
    for table in tables[1:]:
        total += table
    return total


class CellTally(PrivateValue):
    """Counts of records in cells: **private**, and never pickled.

    Parameters
    ----------
    sizes : sequence of int
        Attribute sizes.
    n_classes : int
        Number of classes k.

    Examples
    --------
    >>> tally = CellTally((2, 2), 2)
    >>> tally.add([np.array([0, 1, 0]), np.array([1, 0, 1])], np.array([0, 1, 1]))
    >>> tally.counts().counts
    array([[1, 1],
           [0, 1]])
    """

    def __init__(self, sizes: Sequence[int], n_classes: int) -> None:
        self._sizes = checked_sizes(sizes)
        self._n_classes = checked_sizes([n_classes])[0]
        self._shape = (*self._sizes, self._n_classes)
        self._entries = prod(self._shape)
        self._groups = word_groups(self._shape)
        self._counted: list[KeyCounts] = []
        self._pending: list[Longs] = []
        self._dense: Longs | None = None
        if self.is_dense:
            self._dense = np.zeros(self._entries, dtype=np.int64)

    @property
    def is_dense(self) -> bool:
        """Whether a table of all (cell, class) pairs is kept."""
        return self._entries <= DENSE_ENTRIES

    def add(self, columns: Columns, labels: AnyInts) -> None:
        """Count a block of records, best of some 10**5, so that its keys stay in cache.

        Parameters
        ----------
        columns : sequence of ndarray of int, each of shape (N,)
            The codes of each attribute, **checked to lie in the domain**, of any integer type.
        labels : ndarray of int, shape (N,)
            Class codes, checked alike.
        """
        parts = [*columns, labels]
        if self._dense is not None:  # pairs of a dense table fit 32 bits
            np.add.at(self._dense, keys_of(parts, self._shape, np.int32), 1)
            return
        words = [
            keys_of([parts[i] for i in group], [self._shape[i] for i in group], np.int64)
            for group in self._groups
        ]
        self._pending.append(np.stack(words))
        waiting = sum(keys.shape[1] for keys in self._pending)
        if waiting >= max(PENDING_KEYS, sum(len(counts) for _, counts in self._counted)):
            self._merge_pending()

    def add_table(self, table: Table) -> None:
        """Add what another tally over the same domain has counted."""
        if self._dense is not None:
            self._dense += table
        else:
            self._counted = [merged_keys([*self._counted, table])]  # type: ignore[list-item]

    def table(self) -> Table:
        """Return what has been counted so far: **private counts**."""
        if self._dense is not None:
            return self._dense
        self._merge_pending()
        return self._counted[0] if self._counted else no_counts(len(self._groups))

    def counts(self, domain: Domain | None = None) -> CellCounts:
        """Return the counts of the occupied cells, as `count_cells` would."""
        if self._dense is not None:
            table = self._dense.reshape(-1, self._n_classes)
            cells = np.flatnonzero(table.any(axis=1))
            return CellCounts(codes_of(cells, self._sizes), table[cells], self._sizes, domain)
        keys, counts = self.table()
        check_private_allocation("codes of the occupied cells", (len(counts), len(self._shape)), 4)
        parts = [
            codes_of(word, [self._shape[i] for i in group])
            for word, group in zip(keys, self._groups, strict=True)
        ]
        codes = np.concatenate(parts, axis=1)
        return self._cell_counts(codes[:, :-1], codes[:, -1], counts, domain)

    def _cell_counts(
        self, codes: Codes, labels: Codes, counts: Longs, domain: Domain | None
    ) -> CellCounts:
        """Gather the classes of each cell, whose keys stand together."""
        new = np.ones(len(codes), dtype=bool)
        new[1:] = (codes[1:] != codes[:-1]).any(axis=1)
        cell = np.cumsum(new) - 1
        n_cells = int(new.sum())
        check_private_allocation("counts of the occupied cells", (n_cells, self._n_classes))
        table = np.zeros((n_cells, self._n_classes), dtype=np.int64)
        table[cell, labels] = counts
        return CellCounts(codes[new], table, self._sizes, domain)

    def _merge_pending(self) -> None:
        if self._pending:
            fresh = counted_keys(np.concatenate(self._pending, axis=1))
            self._pending = []
            self._counted = [merged_keys([*self._counted, fresh])]

    def __repr__(self) -> str:
        return f"CellTally(private, {len(self._sizes)} attributes, {self._n_classes} classes)"
