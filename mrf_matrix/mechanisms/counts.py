"""The private contingency table D: exact counts of the occupied cells only, in one pass."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from numbers import Integral

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import AnyInts, Array, Codes, Longs, Values
from mrf_matrix.base.checks import PrivateValue, whole_number
from mrf_matrix.base.provenance import DOMAIN, NOTHING, Provenance, join
from mrf_matrix.domain import Domain
from strategies.operators import (
    MatrixLike,
    MemoryCapError,
    Operator,
    Product,
    RowKronecker,
    as_operator,
    check_allocation,
    fits,
)
from strategies.operators.base.arrays import plain_array

BLOCK_ENTRIES = 2**24
"""Entries of the strategy's columns that are held at once while counting (about 200 MB)."""


@dataclass(frozen=True, eq=False, repr=False)
class PrivateAnswers(PrivateValue):
    """``A D`` without noise: **private**, and shown to nobody; `measure` releases it."""

    _values: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Measurements and classes, public."""
        return self._values.shape

    def __repr__(self) -> str:
        m, k = self.shape
        return f"PrivateAnswers({m} x {k}, private: measure(A, counts, budget) releases them)"


@dataclass(frozen=True, eq=False, repr=False)
class CellCounts(PrivateValue):
    """How many records of each class lie in each occupied cell: **private**, never released.

    Only `measure` may read it. It refuses to be pickled or copied, and prints no counts, not
    even how many cells or records there are, which is private under add/remove neighbours.

    Parameters
    ----------
    codes : ndarray of int, shape (N', d)
        Codes of the occupied cells.
    counts : ndarray of int, shape (N', k)
        Records of each class in each of them, not negative.
    sizes : tuple of int
        Attribute sizes of the public domain.
    domain : Domain, optional
        The domain itself, where it is known: what was counted can then be told apart from other
        tables of the same sizes.

    Notes
    -----
    No record at all is a data set like any other: it is a neighbour of every single record, and
    refusing it here would tell the two apart. Estimators refuse it, before they come here.
    """

    codes: AnyInts
    counts: Longs
    sizes: tuple[int, ...]
    domain: Domain | None = None
    _provenance: Provenance = field(default=NOTHING, repr=False)

    def __post_init__(self) -> None:
        sizes = checked_sizes(self.sizes)
        codes = checked_codes(self.codes, sizes)
        counts = checked_counts(self.counts, len(codes), "a row for each cell")
        _check_domain(self.domain, sizes, counts.shape[1])
        object.__setattr__(self, "sizes", sizes)
        view = codes.view()
        view.flags.writeable = False
        object.__setattr__(self, "codes", view)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "_provenance", provenance_of_counts(self.domain, self._provenance))

    @property
    def provenance(self) -> Provenance:
        """Where the cells came from: that of the domain, kept by marginals, sums and copies."""
        return self._provenance

    @property
    def n_classes(self) -> int:
        """Number of classes k, public."""
        return int(self.counts.shape[1])

    @property
    def n_cells(self) -> int:
        """Cells of the whole domain, public, as an exact integer."""
        return prod(self.sizes)

    def __add__(self, other: object) -> "CellCounts":
        return merge_counts(self, other) if isinstance(other, CellCounts) else NotImplemented

    def marginal(self, attributes: Sequence[int]) -> "CellCounts":
        """Return the counts of some attributes alone, by position; their domain is not known.

        Parameters
        ----------
        attributes : sequence of int
            Distinct positions, in the order wanted. All of them, in order, give the same counts.
        """
        kept = tuple(attributes)
        if kept == tuple(range(len(self.sizes))):
            return self
        sizes = tuple(self.sizes[i] for i in kept)
        table = summed_cells(self.codes[:, kept], self.counts, sizes)
        return CellCounts(*table, sizes, _provenance=self.provenance)

    def answers(self, operator: Operator) -> Longs:
        """Return ``A D`` exactly, shape (m, k), from the operator's columns at occupied cells.

        Parameters
        ----------
        operator : Operator of shape (m, n)
            With integer entries. The largest array made is the answers, beside `BLOCK_ENTRIES`
            entries of its columns.

        Raises
        ------
        ValueError
            If the operator's columns are not the domain's cells, or its entries no integers.
        OverflowError
            If an answer might exceed 63 bits.
        """
        check_columns(operator, self.sizes)
        shape = (operator.shape[0], self.n_classes)
        check_allocation("answers of the strategy", shape)
        if isinstance(operator, Product) and isinstance(operator.right, RowKronecker):
            return _combined_answers(operator.left, self.answers(operator.right))
        result = np.zeros(shape, dtype=np.int64)
        records = float(self.counts.sum(dtype=np.float64))
        try:
            for block, columns in self._columns(operator):
                check_exact(columns.data, records)
                result += columns @ self.counts[block]
        except MemoryCapError:  # whose text tells how many cells are occupied
            raise MemoryCapError(
                "the strategy's columns at the occupied cells, whose number is private, would "
                "exceed the memory cap: expected a smaller strategy, or a larger memory_cap."
            ) from None
        return result

    __array_ufunc__ = None  # so that `ndarray @ counts` comes here

    def __rmatmul__(self, matrix: MatrixLike) -> PrivateAnswers:
        """Return ``A @ counts``: answers without noise, which nothing shows.

        >>> counts = count_cells(np.array([[0], [2]]), np.zeros(2, int), sizes=(3,), n_classes=1)
        >>> np.tri(3) @ counts
        PrivateAnswers(3 x 1, private: measure(A, counts, budget) releases them)
        """
        operator = as_operator(matrix)
        check_columns(operator, self.sizes)
        check_allocation("answers of the matrix", (operator.shape[0], self.n_classes))
        result = np.zeros((operator.shape[0], self.n_classes))
        for block, columns in self._columns(operator):
            result += columns @ self.counts[block]
        return PrivateAnswers(result)

    def _columns(self, operator: Operator) -> Iterator[tuple[slice, sparse.csr_array]]:
        """Yield blocks of cells with the operator's columns there, as many as memory suits."""
        by_code = operator.sizes == self.sizes and len(self.sizes) > 1
        start, step = 0, 1024
        while start < len(self.codes):
            block = slice(start, min(start + step, len(self.codes)))
            codes = self.codes[block]
            columns = operator.columns(codes if by_code else flat_cells(codes, self.sizes))
            yield block, columns
            width = max(1, columns.nnz // len(codes))
            start, step = block.stop, max(1024, BLOCK_ENTRIES // width)

    def __repr__(self) -> str:
        return f"CellCounts(private, {len(self.sizes)} attributes, {self.n_classes} classes)"


def _check_domain(domain: Domain | None, sizes: tuple[int, ...], classes: int) -> None:
    if domain is None:
        return
    known = domain.n_classes if domain.target is not None else None
    if tuple(domain.sizes) != sizes or known != classes:
        raise ValueError(
            f"domain has attributes of sizes {tuple(domain.sizes)} and {known} classes: expected "
            f"{sizes} and {classes}, those that were counted."
        )


def _combined_answers(left: Operator, answers: Longs) -> Longs:
    """Return combinations of exact answers, exactly: of paths, say, that a strategy combines."""
    form = left.to_sparse()
    check_exact(form.data, float(answers.sum(axis=0, dtype=np.float64).max(initial=0.0)))
    return np.asarray(form @ answers, dtype=np.int64)


def check_columns(operator: Operator, sizes: tuple[int, ...]) -> None:
    """Refuse an operator whose columns are not the cells of the domain."""
    if operator.shape[1] != prod(sizes):
        raise ValueError(
            f"the strategy has {operator.shape[1]} columns: expected {prod(sizes)}, one for each "
            f"cell of the domain of sizes {sizes}."
        )
    if operator.sizes not in (None, sizes) and sorted(operator.sizes or ()) == sorted(sizes):
        raise ValueError(
            f"the strategy is over attributes of sizes {operator.sizes}, the records over {sizes}: "
            f"expected the same attributes in the same order."
        )


def check_exact(entries: Values, records: float) -> None:
    """Refuse entries that are no integers, and answers that might exceed 63 bits."""
    if entries.dtype.kind not in "iu":
        raise ValueError(
            f"the strategy's columns have type {entries.dtype}: expected exact integers; round "
            f"it first with round_strategy(matrix, norm)."
        )
    largest = int(np.abs(entries).max(initial=0))
    if largest * records >= 2**62:
        raise OverflowError(
            f"strategy entries of {largest} times the number of records may exceed 63 bits: "
            f"expected smaller integers; lower the precision of the rounding."
        )


def count_cells(
    codes: AnyInts, labels: AnyInts, sizes: Sequence[int], n_classes: int
) -> CellCounts:
    """Count the records of each class in each occupied cell, exactly.

    Parameters
    ----------
    codes : ndarray of int, shape (N, d)
        Records as codes, ``0 <= codes[:, i] < sizes[i]``.
    labels : ndarray of int, shape (N,)
        Class codes, ``0 <= labels < n_classes``.
    sizes : sequence of int
        Attribute sizes of the public domain; their product may exceed 2**63.
    n_classes : int
        Number of classes k.

    Raises
    ------
    ValueError
        If shapes disagree or a code or label lies outside the domain.
    TypeError
        If codes or labels are not integers.

    Examples
    --------
    >>> codes = np.array([[0, 1], [1, 0], [0, 1]])
    >>> counts = count_cells(codes, np.array([0, 1, 1]), sizes=(2, 2), n_classes=2)
    >>> counts
    CellCounts(private, 2 attributes, 2 classes)
    >>> counts.counts
    array([[1, 1],
           [0, 1]])
    """
    exact = checked_sizes(sizes)
    k = whole_number("n_classes", n_classes)
    cells = checked_codes(codes, exact)
    classes = checked_labels(labels, len(cells), k)
    occupied, index = distinct_cells(cells, exact)
    check_private_allocation("counts of the occupied cells", (len(occupied), k))
    table = np.bincount(index * k + classes, minlength=len(occupied) * k)
    return CellCounts(occupied, table.reshape(-1, k), exact)


def merge_counts(*parts: CellCounts | Iterable[CellCounts]) -> CellCounts:
    """Return the counts of all parts together.

    The same, bit for bit, as counting all records at once, however they were divided and in
    whatever order the parts come; empty parts change nothing.

    Raises
    ------
    TypeError, ValueError
        If there is no part, something else is among them, or they are over different domains.
    OverflowError
        If the total might exceed 63 bits.

    Examples
    --------
    >>> labels = np.zeros(2, dtype=int)
    >>> one = count_cells(np.array([[0], [1]]), labels, sizes=(3,), n_classes=1)
    >>> two = count_cells(np.array([[2], [1]]), labels, sizes=(3,), n_classes=1)
    >>> merge_counts(one, two).counts.ravel()
    array([1, 2, 1])
    >>> (one + two).codes.ravel()
    array([0, 1, 2], dtype=int32)
    """
    listed = [one for part in parts for one in (part if isinstance(part, Iterable) else [part])]
    if not listed:
        raise ValueError("parts is empty: expected at least one CellCounts.")
    first = listed[0]
    for number, part in enumerate(listed):
        if not isinstance(part, CellCounts):
            raise TypeError(
                f"parts[{number}] is of type {type(part).__name__}: expected CellCounts, from "
                f"count_stream or count_cells."
            )
        same = (part.sizes, part.n_classes) == (first.sizes, first.n_classes)
        if not same or part.domain != first.domain:
            raise ValueError(
                f"parts[{number}] was counted over another domain than parts[0]: expected one "
                f"domain, of {len(first.sizes)} attributes and {first.n_classes} classes, for all "
                f"parts."
            )
    if sum(float(part.counts.sum(dtype=np.float64)) for part in listed) >= 2**62:
        raise OverflowError("parts: their total may exceed 63 bits; expected fewer records.")
    codes = np.concatenate([part.codes for part in listed])
    counts = np.concatenate([part.counts for part in listed])
    table = summed_cells(codes, counts, first.sizes)
    return CellCounts(*table, first.sizes, first.domain, join(one.provenance for one in listed))


def flat_cells(codes: AnyInts, sizes: tuple[int, ...]) -> Longs:
    """Return cell numbers in C order, for a domain of less than 2**63 cells."""
    if prod(sizes) > np.iinfo(np.int64).max:
        raise ValueError(
            f"a domain of {prod(sizes)} cells has no 64-bit cell numbers: expected a strategy "
            f"that knows the domain's sizes (its `sizes` attribute)."
        )
    return np.asarray(np.ravel_multi_index(tuple(codes.T), sizes), dtype=np.int64)


def distinct_cells(codes: AnyInts, sizes: tuple[int, ...]) -> tuple[AnyInts, Longs]:
    """Return the distinct rows of codes and, for each record, which of them is its own.

    The largest arrays are one number a record, and one byte a cell where the domain has at most
    four cells a record.
    """
    if prod(sizes) > np.iinfo(np.int64).max:
        rows, index = np.unique(codes, axis=0, return_inverse=True)
        return rows, index.ravel()
    keys = flat_cells(codes, sizes)
    if prod(sizes) <= 4 * len(keys):  # one pass instead of a sort
        present = np.zeros(prod(sizes), dtype=bool)
        present[keys] = True
        cells = np.flatnonzero(present)
        index = (np.cumsum(present) - 1)[keys]
    else:
        cells, index = np.unique(keys, return_inverse=True)
    rows = np.stack(np.unravel_index(cells, sizes), axis=1).astype(np.int32)
    return rows, index.ravel().astype(np.int64)


def check_private_allocation(what: str, shape: tuple[int, ...], itemsize: int = 8) -> None:
    """Refuse, by name, an array above the memory cap whose size is private, and do not tell it.

    Raises MemoryCapError.
    """
    if not fits(shape, itemsize):
        raise MemoryCapError(
            f"{what}, whose number is private, take more than the memory cap. Use a smaller domain "
            f"or fewer records, or raise the cap with strategies.operators.memory_cap(bytes)."
        )


def summed_cells(codes: AnyInts, counts: Longs, sizes: tuple[int, ...]) -> tuple[Codes, Longs]:
    """Return distinct cells in C order with the sums of their counts, those without any left out.

    `codes` (N', d): cells, which may repeat; `counts` (N', k).
    """
    cells, index = distinct_cells(codes, sizes)
    check_private_allocation("counts of the occupied cells", (len(cells), counts.shape[1]))
    table = np.zeros((counts.shape[1], len(cells)), dtype=np.int64)
    for row, column in zip(table, counts.T, strict=True):
        np.add.at(row, index, column)
    occupied = table.any(axis=0)
    return cells[occupied].astype(np.int32), np.ascontiguousarray(table[:, occupied].T)


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    values = tuple(sizes)
    bad = [s for s in values if isinstance(s, bool) or not isinstance(s, Integral) or s < 1]
    if not values or bad:
        raise ValueError(f"sizes={values!r}: expected one positive integer for each attribute.")
    return tuple(int(size) for size in values)


def _integers(name: str, values: object) -> AnyInts:
    array = plain_array(name, values)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} has type {array.dtype}: expected integer codes; encode records with "
            f"Domain.encode and labels with Domain.encode_target."
        )
    return array


def checked_counts(counts: object, rows: int, expected: str) -> Longs:
    """Return private counts of shape (rows, k) as int64 that nobody can write to, or refuse."""
    given = plain_array("counts", counts)
    if given.ndim != 2 or len(given) != rows or not given.shape[1]:
        raise ValueError(
            f"counts has the wrong shape: expected {expected} and a column for each class."
        )
    if given.dtype.kind not in "iu" or (given.size and given.min() < 0):
        raise ValueError(f"counts of type {given.dtype}: expected integers, none of them negative.")
    if given.size and given.dtype.kind == "u" and given.max() > np.iinfo(np.int64).max:
        raise ValueError("counts of 2**63 or more: expected numbers of records, which are fewer.")
    own = given.astype(np.int64)
    own.flags.writeable = False
    return own


def checked_codes(codes: object, sizes: tuple[int, ...]) -> AnyInts:
    array = _integers("codes", codes)
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise ValueError(
            f"codes has the wrong shape: expected (N, {len(sizes)}), a column for each attribute "
            f"of the domain."
        )
    for i, (column, size) in enumerate(zip(array.T, sizes, strict=True)):
        if len(column) and (column.min() < 0 or column.max() >= size):
            raise ValueError(
                f"codes of attribute {i} leave the domain: expected 0 to {size - 1} only."
            )
    return array


def checked_labels(labels: object, records: int, n_classes: int) -> Longs:
    array = _integers("labels", labels)
    if array.shape != (records,):
        raise ValueError("labels has the wrong shape: expected (N,), one for each record.")
    if records and (array.min() < 0 or array.max() >= n_classes):
        raise ValueError(f"labels leave the classes: expected 0 to {n_classes - 1} only.")
    return array.astype(np.int64, copy=False)


def provenance_of_counts(domain: Domain | None, carried: Provenance) -> Provenance:
    """Return the provenance of counts: of their domain, and of the counts that they are made of.

    With sizes alone the domain is what a caller declared.
    """
    if domain is None:
        return carried if carried != NOTHING else DOMAIN
    return carried | domain.provenance
