"""The private contingency table D: exact counts of the occupied cells only."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.mechanisms.counts.cells import checked_codes, checked_sizes, flat_cells
from strategies.operators import Operator, check_allocation

Integers = NDArray[np.int64]

BLOCK_ENTRIES = 2**24
"""Entries of the strategy's columns that are held at once while counting (about 200 MB)."""


class PrivateDataError(TypeError):
    """Raw private counts were about to leave the process."""


@dataclass(frozen=True, eq=False, repr=False)
class CellCounts:
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

    Notes
    -----
    No record at all is a data set like any other: it is a neighbour of every single record, and
    refusing it here would tell the two apart. Estimators refuse it, before they come here.
    """

    codes: NDArray[np.integer[Any]]
    counts: Integers
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = checked_sizes(self.sizes)
        codes = checked_codes(self.codes, sizes)
        counts = np.asarray(self.counts)
        if counts.ndim != 2 or len(counts) != len(codes) or not counts.shape[1]:
            raise ValueError(
                "counts has the wrong shape: expected a row for each "
                "cell and a column for each class."
            )
        if counts.dtype.kind not in "iu" or (counts.size and counts.min() < 0):
            raise ValueError(
                f"counts of type {counts.dtype}: expected integers, none of them negative."
            )
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "codes", _read_only(codes))
        object.__setattr__(self, "counts", _read_only(counts.astype(np.int64)))

    @property
    def n_classes(self) -> int:
        """Number of classes k, public."""
        return int(self.counts.shape[1])

    @property
    def n_cells(self) -> int:
        """Cells of the whole domain, public, as an exact integer."""
        return prod(self.sizes)

    def answers(self, operator: Operator) -> Integers:
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
        result = np.zeros(shape, dtype=np.int64)
        records = float(self.counts.sum(dtype=np.float64))
        for block, columns in self._columns(operator):
            _check_exact(columns, records)
            result += columns @ self.counts[block]
        return result

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

    def __reduce__(self) -> NoReturn:
        raise PrivateDataError(
            "CellCounts holds raw private counts: it is not pickled, copied or sent to another "
            "process. Release it with measure(...), and share the Release."
        )


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


def _check_exact(columns: sparse.csr_array, records: float) -> None:
    """Refuse entries that are no integers, and answers that might exceed 63 bits."""
    if columns.dtype.kind not in "iu":
        raise ValueError(
            f"the strategy's columns have type {columns.dtype}: expected exact integers; round "
            f"it first with round_strategy(matrix, norm)."
        )
    largest = int(np.abs(columns.data).max(initial=0))
    if largest * records >= 2**62:
        raise OverflowError(
            f"strategy entries of {largest} times the number of records may exceed 63 bits: "
            f"expected smaller integers; lower the precision of the rounding."
        )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
