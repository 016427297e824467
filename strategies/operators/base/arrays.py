"""Arrays by what they hold, the cap on their memory, and the threads that multiply them.

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
from itertools import accumulate, pairwise
from math import frexp, inf, prod
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
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


def as_columns(values: Array) -> Array:
    """Return a vector as one column; columns, even if there are none, stay as they are."""
    return values[:, None] if values.ndim == 1 else values


Entries = TypeVar("Entries", Array, Real)


def cut_rows(rows: Entries, counts: Iterable[int]) -> list[Entries]:
    """Cut an array with one entry a row into parts with these numbers of rows."""
    return [rows[start:stop] for start, stop in pairwise(accumulate(counts, initial=0))]


def sum_over_cells(
    sizes: Sequence[int], tables: Iterable[tuple[Sequence[int], Array]], k: int
) -> Array:
    """Return the sum of tables' values (cells, k) at every cell of the domain, (n, k)."""
    check_allocation("a vector over the cells", (prod(sizes), max(k, 1)))
    result = np.zeros((*sizes, k))
    for chosen, table in tables:
        result += table.reshape(*(size if i in chosen else 1 for i, size in enumerate(sizes)), k)
    return result.reshape(prod(sizes), k)


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
