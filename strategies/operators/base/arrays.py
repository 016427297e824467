"""Arrays: what they hold, checks of those that users give, the cap on their memory, their threads.

NumPy drops the mask of a masked array, SciPy reads where the indices of a sparse one point to, and
both convert in silence what they cannot hold. User input comes through `plain_array` or
`checked_form`, which refuse each of these by name.

A matrix over a product domain can be arbitrarily large, so every step that makes a dense array
first states the array's size here. The cap belongs to the caller's context, not to a structure.

BLAS runs on one thread while searching. Searches are thousands of products of small matrices. More
threads gain little on them, and where other processes share the cores, threads that wait for each
other by spinning make them tens of times slower. One thread also sums in one order, so that a seed
gives the same strategy on machines with any number of cores.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import accumulate, chain, pairwise
from math import frexp, inf, prod
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

DEFAULT_CAP = 2 * 1024**3  # bytes that one array may take by default (2 GiB)

_cap: ContextVar[int] = ContextVar("memory_cap", default=DEFAULT_CAP)


REMEDY = (
    "Take fewer or coarser attributes, fewer trees or less depth, or raise the cap with "
    "strategies.operators.memory_cap(bytes)."
)
"""How to stay below the cap; the command line has a wording of its own."""


class MemoryCapError(ValueError):
    """An array would exceed the memory cap; nothing was allocated."""


def current_cap() -> int:
    """Return the cap in force, in bytes for one array."""
    return _cap.get()


@contextmanager
def memory_cap(n_bytes: int) -> Iterator[None]:
    """Set the cap on a single array within a ``with`` block.

    Parameters
    ----------
    n_bytes : int
        Largest array, in bytes, that may be allocated inside the block.

    Raises
    ------
    ValueError
        If ``n_bytes`` is not a positive integer.

    Examples
    --------
    >>> with memory_cap(1000):
    ...     check_allocation("a table", (10, 10))
    """
    if isinstance(n_bytes, bool) or not isinstance(n_bytes, int) or n_bytes <= 0:
        raise ValueError(f"n_bytes={n_bytes!r}: expected a positive integer number of bytes.")
    token = _cap.set(n_bytes)
    try:
        yield
    finally:
        _cap.reset(token)


def fits(shape: tuple[int, ...], itemsize: int = 8) -> bool:
    """Tell whether an array of this shape stays within the cap in force."""
    return prod(shape) * itemsize <= _cap.get()


def check_allocation(what: str, shape: tuple[int, ...], itemsize: int = 8) -> None:
    """Refuse, by name, an array that would exceed the cap in force.

    Parameters
    ----------
    what : str
        The array's name in the user's terms, for the message.
    shape : tuple of int
        Its shape, as exact Python integers.
    itemsize : int, default=8
        Bytes per entry.

    Raises
    ------
    MemoryCapError
        If ``prod(shape) * itemsize`` exceeds the cap.
    """
    size = prod(shape) * itemsize
    cap = _cap.get()
    if size > cap:
        lengths = " x ".join(map(_readable_length, shape))
        raise MemoryCapError(
            f"{what} of shape {lengths} needs {readable_bytes(size)}, above "
            f"the memory cap of {readable_bytes(cap)}. {REMEDY}"
        )


def _readable_length(length: int) -> str:
    return str(length) if length < 1 << 63 else f"about 2**{length.bit_length() - 1}"


def readable_bytes(size: int) -> str:
    """Write a number of bytes for people: ``readable_bytes(3 * 2**20)`` is ``'3.0 MiB'``."""
    if size < 1024:
        return f"{size} B"
    for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB", "PiB"), start=1):
        if size < 1024 ** (power + 1):
            return f"{size / 1024**power:.1f} {unit}"
    return f"about 2**{size.bit_length() - 1} B"


@contextmanager
def one_thread() -> Iterator[None]:
    """Run BLAS on one thread within a ``with`` block."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    """Return the controller of the libraries that NumPy and SciPy have loaded (milliseconds)."""
    return ThreadpoolController()


Array: TypeAlias = NDArray[np.float64]
"""Reals."""

Longs: TypeAlias = NDArray[np.int64]  # counts, labels and places

Integers: TypeAlias = NDArray[np.integer]
"""Whole numbers of any width, as users give codes and cells."""

Bools: TypeAlias = NDArray[np.bool_]  # Masks

Numbers: TypeAlias = NDArray[np.number | np.bool_]  # anything that can be added up

Real: TypeAlias = Array | Longs  # checked entries: integers stay exact

Form: TypeAlias = Real | sparse.csr_array | sparse.csc_array
"""A matrix given entry by entry, dense or sparse."""


LARGEST_INTEGER = np.iinfo(np.int64).max

COMPRESSED = ("csr", "csc", "bsr")

MOST_NESTED = 3
"""Lists within lists that are looked through for masked arrays: more than a matrix has."""


def plain_array(name: str, values: object) -> NDArray[Any]:
    """Return what was given as an ndarray; refuse by name what is masked or sparse.

    >>> plain_array("answers", [1, 2])
    array([1, 2])
    """
    layer: list[object] = [values]
    for _ in range(MOST_NESTED):
        for one in layer:
            _check_plain(name, one)
        layer = list(chain.from_iterable(one for one in layer if isinstance(one, list | tuple)))
        if not layer:
            break
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of several lengths
        raise ValueError(f"{name} is no array: {error}") from None


def _check_plain(name: str, values: object) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array: its masked entries have no value here. Expected a plain "
            f"array: fill it, {name}.filled(0) say, or leave these entries out."
        )
    if sparse.issparse(values):
        raise TypeError(f"{name} is sparse: expected a dense array; give {name}.toarray().")


def checked_form(name: str, matrix: object) -> sparse.csr_array:
    """Return a sparse matrix of any format in CSR form, its own copy, or refuse by name.

    Whoever wrote its arrays may have written anything: where they point is checked first.
    """
    if not sparse.issparse(matrix):
        return sparse.csr_array(plain_array(name, matrix))
    form: Any = matrix
    if form.ndim != 2:
        raise ValueError(f"{name} has {form.ndim} dimensions: expected 2.")
    try:
        form = _rebuild_form(name, form)
    except ValueError as error:
        raise ValueError(
            f"{name} has arrays that point outside of its shape or do not fit together ({error}). "
            f"Build it anew, with scipy.sparse.csr_array((data, (rows, columns)), shape) say."
        ) from None
    _check_real(name, form.dtype)
    if form.format not in COMPRESSED:
        form = form.tocoo()
        _check_places(name, form.coords, form.shape)
        _check_lengths(name, *map(len, form.coords), len(plain_array(f"{name}.data", form.data)))
    return sparse.csr_array(form, copy=True)


def _rebuild_form(name: str, form: Any) -> Any:
    """Return a form of the same arrays, which SciPy checks against its shape."""
    if form.format in COMPRESSED:
        arrays = [plain_array(name, part) for part in (form.data, form.indices, form.indptr)]
        form = type(form)(tuple(arrays), shape=form.shape)
        form.check_format(full_check=True)
    elif form.format == "dia":
        form = type(form)((plain_array(name, form.data), form.offsets), shape=form.shape)
    elif form.format == "lil":
        _check_lists(name, form)
    return form


def _check_lists(name: str, form: Any) -> None:
    """Check that a list of lists has a value for each column that it names."""
    columns, values = form.rows, form.data
    _check_lengths(name, form.shape[0], len(columns), len(values))
    for named, held in zip(columns, values, strict=True):
        _check_lengths(name, len(named), len(held))


def _check_places(name: str, axes: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    for axis, length in zip(axes, shape, strict=True):
        places = plain_array(f"{name}.indices", axis)
        if places.ndim != 1 or places.dtype.kind not in "iu":
            raise ValueError(f"{name}.indices: expected one dimension of integers.")
        if len(places) and (places.min() < 0 or places.max() >= length):
            raise ValueError(
                f"{name} has an index outside of its shape: expected 0 to {length - 1}. Build the "
                f"matrix anew, with scipy.sparse.csr_array((data, (rows, columns)), shape) say."
            )


def _check_lengths(name: str, *lengths: int) -> None:
    if len(set(lengths)) > 1:
        raise ValueError(f"{name}: its arrays have lengths {list(lengths)}: expected equal ones.")


def real_array(name: str, values: object, ndim: int) -> Real:
    """Return a read-only array of int64 or float64, or refuse by name.

    Integers stay integers, so that exact strategies keep exact entries.
    """
    array = plain_array(name, values)
    if array.ndim != ndim:
        raise ValueError(
            f"{name} has {array.ndim} dimensions (shape {array.shape}): expected {ndim}."
        )
    _check_real(name, array.dtype)
    if array.dtype.kind == "u" and array.max(initial=0) > LARGEST_INTEGER:
        raise ValueError(f"{name} has integers of 2**63 or more: expected smaller ones, or floats.")
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # of longer floats: found by the next line
            array = array.astype(np.float64, copy=False)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} contains NaN or infinity: expected finite numbers only.")
    return read_only(array if array.dtype.kind == "f" else array.astype(np.int64, copy=False))


def plain_floats(name: str, values: object) -> Array:
    """Return an array of real numbers as floats, or refuse by name what is masked, or no numbers.

    >>> plain_floats("targets", [1, 2])
    array([1., 2.])
    """
    given = plain_array(name, values)
    try:
        if given.dtype.kind in "biufO":
            return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        pass  # objects that are no numbers
    raise TypeError(f"{name} has dtype {given.dtype}: expected real numbers.")


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array whose memory is read-only: itself where that is so, else a copy.

    A calibrated strategy stays as it was, whatever the caller writes to the array later. The copy
    lies in `bytes`, which cannot be made writeable again.
    """
    base: Any = array
    while isinstance(base, np.ndarray) and not base.flags.writeable:
        base = base.base
    if isinstance(base, bytes) or not array.size:
        return array
    order: Literal["C", "F"] = "F" if array.flags.fnc else "C"
    memory: NDArray[Any] = np.frombuffer(array.tobytes(order), dtype=array.dtype)
    return memory.reshape(array.shape, order=order)


def _check_real(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf":
        raise TypeError(
            f"{name} has dtype {dtype}: expected real numbers (bool, integer or float), a row for "
            f"each query and a column for each cell."
        )


def real_sparse(name: str, matrix: object) -> sparse.csr_array:
    """Return a CSR array of int64 or float64 with sorted, summed entries, or refuse by name.

    Its arrays are read-only, and not those that were given.
    """
    given = checked_form(name, matrix)
    data = real_array(f"{name}.data", given.data, 1)
    form = sparse.csr_array((data, given.indices, given.indptr), shape=given.shape)
    if not form.has_canonical_format:
        form = form.copy()
        form.sum_duplicates()
        data = real_array(f"{name}.data", form.data, 1)  # sums may be infinite
    whole = sparse.csr_array(
        (data, read_only(form.indices), read_only(form.indptr)), shape=form.shape
    )
    whole.has_canonical_format = True
    return whole


def checked_sizes(sizes: Sequence[int] | None, n: int) -> tuple[int, ...] | None:
    """Return attribute sizes as exact integers whose product is n, or refuse."""
    if sizes is None:
        return None
    exact = tuple(int(size) for size in sizes)
    if prod(exact) != n or min(exact, default=0) < 1:
        raise ValueError(f"sizes={exact}: expected positive sizes whose product is {n} columns.")
    return exact


def cell_codes(cells: Integers, sizes: tuple[int, ...]) -> Longs:
    """Return cells as rows of codes (N, d), from flat numbers too, or refuse."""
    cells = plain_array("cells", cells)
    if cells.ndim == 1:
        return np.stack(np.unravel_index(cells, sizes), axis=1).astype(np.int64)
    if cells.shape[1:] != (len(sizes),) or (cells < 0).any() or (cells >= np.array(sizes)).any():
        raise ValueError(
            f"cells of shape {cells.shape} holds codes outside the domain: expected rows of "
            f"{len(sizes)} codes, each from 0 up to the attribute's size {sizes} less 1."
        )
    return cells.astype(np.int64, copy=False)


def check_length(length: int, name: str, values: Numbers, shape: tuple[int, int]) -> Array:
    """Return values as floats, (length,) or (length, j), or refuse beside an operator's shape."""
    array = plain_array(name, values)
    _check_real(name, array.dtype)
    if array.ndim not in (1, 2) or array.shape[0] != length:
        raise ValueError(
            f"{name} has shape {array.shape}: expected ({length},) or ({length}, j) to match an "
            f"operator of shape {shape}."
        )
    return array.astype(np.float64, copy=False)


def as_dense(form: ArrayLike | sparse.sparray | sparse.spmatrix) -> Array:
    """Return an ndarray of floats from either explicit form."""
    if sparse.issparse(form):
        return np.asarray(form.toarray(), dtype=np.float64)
    return np.asarray(plain_array("matrix", form), dtype=np.float64)


def as_shape(rows: int, columns: int) -> tuple[int, int]:
    return int(rows), int(columns)


def as_columns(values: Array) -> Array:
    """Return a vector as one column; columns, even if there are none, stay as they are."""
    return values[:, None] if values.ndim == 1 else values


Entries = TypeVar("Entries", Array, Real)


def cut_rows(rows: Entries, counts: Iterable[int]) -> list[Entries]:
    """Cut an array with one entry a row into parts with these numbers of rows."""
    return [rows[start:stop] for start, stop in pairwise(accumulate(counts, initial=0))]


USUAL = 128
"""Largest entries from 2**-128 to 2**128 stay as they are: fourth powers are floats."""


def exponent(*numbers: Any) -> int:
    """Return the power of two above the largest number in size; 0 where it is usual.

    A float has no square below 1e-308 or above 1e308. So a matrix of very small or very large
    entries is divided by a power of two, which is exact, before anything is squared.
    """
    forms = [one.data if isinstance(one, sparse.csr_array) else one for one in numbers]
    sizes = [np.abs(np.asarray(one, dtype=np.float64)) for one in forms]
    largest = max((float(one.max(initial=0.0)) for one in sizes), default=0.0)
    power = frexp(largest)[1]
    return power if largest and abs(power) > USUAL else 0


def divide(numbers: Any, power: int) -> Any:
    """Return numbers over 2**power, as floats."""
    if isinstance(numbers, sparse.csr_array):
        form = numbers.astype(np.float64)
        form.data = divide(form.data, power)
        return form
    return np.ldexp(np.asarray(numbers, dtype=np.float64), -power)


def multiply(number: float, power: int) -> float:
    """Return a number times 2**power: 0 or infinite where no float holds it."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(number, power))


def is_float(number: float) -> bool:
    """Tell whether a number is positive, and a float of full precision."""
    return bool(np.finfo(np.float64).tiny <= number < inf)
