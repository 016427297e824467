"""A matrix as users of NumPy and SciPy expect it: indexing, arithmetic, forms, printing."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Generic, SupportsFloat, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Form,
    Integers,
    Longs,
    Numbers,
    as_dense,
    check_allocation,
    plain_array,
)

Places: TypeAlias = "int | slice | Sequence[int] | Integers"
Matrix = TypeVar("Matrix", bound="MatrixFace[Any]")

WHOLE_ROWS, WHOLE_COLUMNS = 16, 24  # up to which a matrix is printed whole
CORNER_ROWS, CORNER_COLUMNS = 4, 5  # of each corner of a larger one
GAP = "…"
MOST_HELD = 2**24  # numbers that are made to look at a corner
MOST_CELLS = 2**62  # that have numbers
DIGITS = 4


class MatrixFace(ABC, Generic[Matrix]):
    """Indexing, arithmetic and printing by a matrix's shape, action and explicit forms."""

    ndim = 2
    dtype = np.dtype(np.float64)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns as exact Python integers (columns may exceed 2**63)."""

    @property
    @abstractmethod
    def prefers_sparse(self) -> bool:
        """Whether the CSR form is the cheaper explicit form."""

    @abstractmethod
    def to_dense(self) -> Array:
        """Return the matrix as an ndarray, refused above the memory cap."""

    @abstractmethod
    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix in CSR form, refused above the memory cap."""

    @abstractmethod
    def compact(self) -> Any:
        """Return the cheaper explicit form: CSR where the structure is sparse, else an ndarray."""

    @abstractmethod
    def columns(self, cells: Integers) -> sparse.csr_array:
        """Return the columns at the given cells, as a sparse (m, len(cells)) matrix.

        A mechanism counts ``A @ D`` exactly from these without building n. The columns of an
        integer operator have dtype int64. `cells`: flat numbers (N,), or rows of codes (N, d)
        where `sizes` is known.
        """

    @abstractmethod
    def take_rows(self, rows: Longs) -> Matrix:
        """Return the rows of some numbers."""

    @abstractmethod
    def scaled_by(self, number: SupportsFloat) -> Matrix:
        """Return the matrix times a number; an integer keeps integers exact."""

    @abstractmethod
    def matmat(self, right: Numbers) -> Array:
        """Return ``A @ right`` for an (n,) vector or an (n, j) array."""

    @abstractmethod
    def rmatmat(self, left: Numbers) -> Array:
        """Return ``A.T @ left`` for an (m,) vector or an (m, j) array."""

    @abstractmethod
    def _explicit(self, form: Form) -> Matrix: ...

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        """Return True: a matrix is no container that may be empty."""
        return True

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Return the entries, refused above the memory cap."""
        return np.array(self.to_dense(), dtype=dtype, copy=copy or None)

    def toarray(self) -> Array:
        """Return the entries as an ndarray, as SciPy's sparse arrays do: `to_dense`."""
        return self.to_dense()

    def tocsr(self) -> sparse.csr_array:
        """Return the entries in CSR form: `to_sparse`."""
        return self.to_sparse()

    @property
    def nnz(self) -> int:
        """Entries that are not 0, counted over an explicit form below the memory cap."""
        form: Any = self.compact()
        return int(np.count_nonzero(form) if isinstance(form, np.ndarray) else form.count_nonzero())

    def matvec(self, right: ArrayLike) -> Array:
        """Return ``A @ right`` for a vector, as `scipy.sparse.linalg.aslinearoperator` asks."""
        return self.matmat(np.asarray(right).reshape(-1))

    def rmatvec(self, left: ArrayLike) -> Array:
        """Return ``A.T @ left`` for a vector."""
        return self.rmatmat(np.asarray(left).reshape(-1))

    # Parts ----------------------------------------------------------------------------------

    def __getitem__(self, key: "Places | tuple[Places, Places]") -> Matrix | Array | float:
        """Return rows, columns or entries.

        ``A[i]`` is row i as an ndarray, below the memory cap. ``A[[i, j]]``, ``A[2:5]`` and a mask
        of rows are matrices that keep the structure. ``A[:, cells]`` and ``A[rows, cells]`` are
        explicit, ``A[i, j]`` is an entry.

        Raises IndexError if there is no such row or cell.
        """
        if not isinstance(key, tuple):
            return self._rows_at(key)
        if len(key) != 2:
            raise IndexError(f"{len(key)} indices: expected one for rows and one for cells.")
        rows, cells = key
        taken = self if _is_everything(rows) else self.take_rows(*_one_or_more(rows, self.shape[0]))
        if _is_everything(cells):
            return self._rows_at(rows)
        places = _places(cells, self.shape[1], "cell")
        part = taken.columns(np.atleast_1d(places))
        single = isinstance(rows, int | np.integer), places.ndim == 0
        if all(single):
            return float(part.toarray()[0, 0])
        if any(single):
            return np.asarray(as_dense(part), dtype=np.float64).ravel()
        return self._explicit(part)

    def __iter__(self) -> Iterator[Array]:
        """Yield rows as ndarrays."""
        for row in range(len(self)):
            yield self._row(row)

    def _rows_at(self, key: Places) -> Matrix | Array:
        places = _places(key, self.shape[0], "row")
        return self._row(int(places)) if places.ndim == 0 else self.take_rows(places)

    def _row(self, row: int) -> Array:
        check_allocation(f"row {row} (A[[{row}]] keeps its structure)", (self.shape[1],))
        entries: Array = self.take_rows(np.array([row])).to_dense()[0]
        return entries

    # Arithmetic -----------------------------------------------------------------------------

    def __mul__(self, number: SupportsFloat) -> Matrix:
        """Return the matrix times a number; ``@`` is the product of matrices."""
        if np.ndim(number) or isinstance(number, MatrixFace):  # type: ignore[arg-type]
            raise TypeError(
                f"matrix * {type(number).__name__}: expected a number. Write @ for the product of "
                f"matrices, A.toarray() * x for that of their entries."
            )
        return self.scaled_by(number)

    __rmul__ = __mul__

    def __truediv__(self, number: SupportsFloat) -> Matrix:
        if np.ndim(number) or isinstance(number, MatrixFace):  # type: ignore[arg-type]
            return NotImplemented
        return self.scaled_by(1.0 / float(number))

    def __neg__(self) -> Matrix:
        return self.scaled_by(-1)

    def __add__(self, other: "Matrix | ArrayLike | sparse.sparray") -> Matrix:
        """Return the sum: twice itself by a weight, others entry by entry below the memory cap."""
        return self.scaled_by(2) if other is self else self._sum(1.0, other, 1.0)

    def __radd__(self, other: "ArrayLike | sparse.sparray") -> Matrix:
        return self._sum(1.0, other, 1.0)

    def __sub__(self, other: "Matrix | ArrayLike | sparse.sparray") -> Matrix:
        return self._sum(1.0, other, -1.0)

    def __rsub__(self, other: "ArrayLike | sparse.sparray") -> Matrix:
        return self._sum(-1.0, other, 1.0)

    def _sum(self, weight: float, other: Any, sign: float) -> Matrix:
        theirs = other.compact() if isinstance(other, MatrixFace) else other
        if not sparse.issparse(theirs):
            theirs = plain_array("other", theirs)
        if theirs.shape != self.shape:
            raise ValueError(f"other has shape {theirs.shape}: expected {self.shape}.")
        both = sparse.issparse(theirs) and self.prefers_sparse
        check_allocation("a sum of matrices", (1,) if both else self.shape)
        mine = self.compact() if both else self.to_dense()
        return self._explicit(weight * mine + sign * (theirs if both else as_dense(theirs)))

    # Print ----------------------------------------------------------------------------------

    def __str__(self) -> str:
        """Show a small matrix whole, a large one by its corners; rows with their words."""
        rows = self.shown_rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                [cell.rjust(w) for cell, w in zip(row[:-1], widths, strict=False)] + [row[-1]]
            ).rstrip()
            for row in rows
        ]
        return "\n".join([repr(self), *lines])

    def _repr_html_(self) -> str:
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.shown_rows()
        )
        return f"<table><caption>{escape(repr(self))}</caption>{body}</table>"

    def shown_rows(self) -> list[list[str]]:
        """Return the cells of the printed table: row numbers, entries, descriptions of rows.

        Empty where single entries cannot be looked up.
        """
        m, n = self.shape
        rows, cells = (
            _printed_places(m, WHOLE_ROWS, CORNER_ROWS),
            _printed_places(n, WHOLE_COLUMNS, CORNER_COLUMNS),
        )
        kept = [row for row in rows if row is not None]
        entries = self._corner(kept, [cell for cell in cells if cell is not None])
        if entries is None:
            return []
        told = iter(zip(entries.tolist(), self.take_rows(np.array(kept)).row_words(), strict=True))
        lines = []
        for row in rows:
            if row is None:
                lines.append([GAP, *(GAP for _ in cells), ""])
                continue
            numbers, words = next(told)
            values = iter(numbers)
            shown = [GAP if cell is None else f"{next(values):.{DIGITS}g}" for cell in cells]
            lines.append([str(row), *shown, words])
        return lines

    def _corner(self, rows: list[int], cells: list[int]) -> Array | None:
        """Return some entries: by a product where that is small, else by columns; or None."""
        m, n = self.shape
        if max(m, n) * len(rows) <= MOST_HELD:
            single = np.zeros((m, len(rows)))
            single[rows, np.arange(len(rows))] = 1.0
            return self.rmatmat(single)[cells].T + 0.0  # no -0
        if m > MOST_HELD or n > MOST_CELLS or not self.prefers_sparse:
            return None
        part = self.take_rows(np.array(rows)).columns(np.array(cells))
        return np.asarray(as_dense(part), dtype=np.float64)

    def row_words(self) -> list[str]:
        """Return a description of every row, "" where there is none."""
        return [""] * len(self)


def _is_everything(key: object) -> bool:
    return isinstance(key, slice) and key == slice(None)


def _one_or_more(key: Places, length: int) -> tuple[Longs]:
    return (np.atleast_1d(_places(key, length, "row")),)


def _places(key: Places, length: int, what: str) -> Longs:
    """Return places from 0, of shape () for a single one.

    Raises IndexError, TypeError if a place is none.
    """
    if isinstance(key, slice):
        start, stop, step = key.indices(length)
        check_allocation(f"{what}s {start} to {stop}", (len(range(start, stop, step)),))
        return np.arange(start, stop, step, dtype=np.int64)
    places = plain_array(what, key)
    if places.dtype.kind == "b":
        if places.shape != (length,):
            raise IndexError(f"a mask of shape {places.shape}: expected ({length},).")
        return np.flatnonzero(places)
    if places.ndim > 1 or (places.dtype.kind not in "iu" and places.size):
        raise IndexError(f"{what}={key!r}: expected whole numbers, a slice or a mask.")
    wrong = (places < -length) | (places >= length)
    if wrong.any():
        first = int(np.atleast_1d(places)[np.atleast_1d(wrong)][0])
        raise IndexError(f"{what} {first}: expected 0 to {length - 1}.")
    return np.where(places < 0, places + length, places).astype(np.int64)


def _printed_places(length: int, whole: int, corner: int) -> list[int | None]:
    """Return the places that are printed, None for those left out."""
    if length <= whole:
        return list(range(length))
    return [*range(corner), None, *range(length - corner, length)]
