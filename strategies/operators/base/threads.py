"""One BLAS thread while searching.

Searches are thousands of products of small matrices. More threads gain little on them, and where
other processes share the cores, threads that wait for each other by spinning make them tens of
times slower. One thread also sums in one order, so that a seed gives the same strategy on
machines with any number of cores.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Run BLAS on one thread within a ``with`` block."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    """Return the controller of the libraries that NumPy and SciPy have loaded (milliseconds)."""
    return ThreadpoolController()
