"""Counts of partitions that lie on a cluster: counted where they are, summed in a tree."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeGuard
from uuid import uuid4
from weakref import WeakKeyDictionary

from mrf_matrix.base.files import PLAIN, FileFormat, checked_format
from mrf_matrix.domain import Domain, DomainError
from mrf_matrix.mechanisms import CellCounts, CellTally
from mrf_matrix.mechanisms.tally import Table, merged_tables
from mrf_matrix.streams.counting import checked_domain, code_blocks

if TYPE_CHECKING:
    from dask.array import Array
    from dask.dataframe import DataFrame
    from dask.delayed import Delayed
    from distributed import Client, Worker


Limits = tuple[int, float | bool, float]
"""How many ask for no spilling, and a worker's own share of memory and size to spill from."""

_limits: "WeakKeyDictionary[Worker, Limits]" = WeakKeyDictionary()


@contextmanager
def disable_spilling(client: "Client") -> Iterator[None]:
    """Turn spilling off on a client's workers inside a ``with`` block.

    On every worker, those that join or come back later too.
    """
    from distributed import WorkerPlugin

    class NoSpilling(WorkerPlugin):  # type: ignore[misc]
        name = f"mrf-matrix-no-spilling-{uuid4().hex}"

        def setup(self, worker: "Worker") -> None:
            lift_limits(worker)

        def teardown(self, worker: "Worker") -> None:
            give_limits_back(worker)

    client.register_plugin(NoSpilling())
    try:
        yield
    finally:
        client.unregister_worker_plugin(NoSpilling.name)


def lift_limits(worker: "Worker") -> None:
    """Keep the worker's own limits, and lift them.

    Raises TypeError if the worker keeps its data in a store of its own, which might be a disk.
    """
    from distributed.spill import SpillBuffer

    manager = worker.memory_manager
    if isinstance(manager.data, dict):
        return
    if not isinstance(manager.data, SpillBuffer):
        raise TypeError(
            f"a worker keeps its data in {type(manager.data).__name__}, which may be on disk: "
            f"expected Dask's own store, for partial tables are private counts. Start workers "
            f"without data=."
        )
    fast = manager.data.fast
    users, share, size = _limits.get(worker, (0, manager.memory_spill_fraction, fast.n))
    _limits[worker] = (users + 1, share, size)
    manager.memory_spill_fraction = False
    fast.n = sys.maxsize


def give_limits_back(worker: "Worker") -> None:
    """Give the worker its own limits back, when nobody needs it otherwise."""
    if worker not in _limits:
        return
    users, share, size = _limits.pop(worker)
    if users > 1:
        _limits[worker] = (users - 1, share, size)
        return
    worker.memory_manager.memory_spill_fraction = share
    worker.memory_manager.data.fast.n = size


SPLIT = 4  # partial tables that are summed at a time


def count_dask(
    collection: object,
    domain: Domain,
    client: "Client | None" = None,
    *,
    extra: str = "error",
    file_format: FileFormat = PLAIN,
) -> CellCounts:
    """Count the records of a Dask collection, partition by partition, on any scheduler.

    Every partition becomes one table of counts, tables are summed in a tree, four at a time, and
    the last sum comes here. A partition lost with its worker is counted again, by Dask's own
    bookkeeping, and never twice. The same counts, bit for bit, as of `count_stream`.

    Parameters
    ----------
    collection : Dask frame, Dask array, pair of them, or sequence of delayed batches or paths
        A frame holds the domain's columns and its target's; an array of shape (N, d + 1) the
        classes in its last column; a pair is ``(X, y)``. Delayed batches are of any form that
        `count_stream` takes. Paths are read by the workers, in bounded memory: the cheapest form
        where all of them see one file system.
    domain : Domain
        The public schema, with the target's classes.
    client : distributed.Client, optional
        The cluster. Where none is given, Dask's scheduler in force: a client that is open, the
        one of ``dask.config.set(scheduler=...)``, or threads.
    extra : {"error", "ignore"}
        What happens to columns that the domain does not name.
    file_format : FileFormat
        How CSV and TSV files at the paths are written.

    Returns
    -------
    CellCounts
        Private; it remembers the domain. Noise is drawn later, in the parent process alone.

    Raises
    ------
    ImportError
        If Dask is not installed.
    DomainError
        If a partition does not fit the domain.
    TypeError
        If the collection is none of these, or a worker keeps its data where they might spill.

    Notes
    -----
    Partial tables are **private counts**. They travel between workers and to this process, so the
    cluster must be as trusted as the data's owner, and its connections encrypted
    (``security=``). They are never persisted or published; for the time of the count workers keep
    their data in memory instead of spilling it; and dashboards and logs show neither their size
    nor a record that did not fit, for errors come back as results.
    """
    if not find_spec("dask"):
        raise ImportError("count_dask needs Dask: pip install 'mrf-matrix[cluster]'.")
    from dask import delayed

    known, told = checked_domain(domain), checked_format(file_format)
    shared = delayed(known, traverse=False)
    count = delayed(partial_table, pure=False)
    parts = enumerate(_partitions(collection))
    tables = [count(part, number, shared, extra, told) for number, part in parts]
    tally = CellTally(known.sizes, known.n_classes)
    if tables:
        total = _compute_sum(_tree(tables), client)
        if total.error is not None:
            raise DomainError(total.error)
        if total.table is not None:
            tally.add_table(total.table)
    return tally.counts(known)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PartialTable:
    """The private counts of some partitions, or why one of them did not fit the domain."""

    table: Table | None
    error: str | None = None

    def __repr__(self) -> str:
        return "PartialTable(private)"


def partial_table(
    part: object, number: int, domain: Domain, extra: str, file_format: FileFormat = PLAIN
) -> PartialTable:
    tally = CellTally(domain.sizes, domain.n_classes)
    try:
        for *columns, labels in code_blocks([part], domain, extra, None, file_format):
            tally.add(columns, labels)
    except DomainError as error:
        return PartialTable(None, f"Partition {number}. {error}")
    return PartialTable(tally.table())


def _sum_tables(parts: Sequence[PartialTable]) -> PartialTable:
    for part in parts:
        if part.error is not None:
            return part
    return PartialTable(merged_tables([part.table for part in parts if part.table is not None]))


def _tree(tables: "list[Delayed]") -> "Delayed":
    from dask import delayed

    add = delayed(_sum_tables, pure=False)
    while len(tables) > 1:
        tables = [add(tables[i : i + SPLIT]) for i in range(0, len(tables), SPLIT)]
    return tables[0]


def _partitions(collection: object) -> list[object]:
    if isinstance(collection, tuple) and len(collection) == 2 and _is_chunked(collection[0]):
        X, y = collection
        if hasattr(X, "rechunk") and hasattr(y, "chunks"):
            X = X.rechunk({0: y.chunks[0]})
        pairs = list(zip(_partitions(X), _delayed_of(y), strict=True))
        return [tuple(pair) for pair in pairs]
    if _is_chunked(collection):
        return _delayed_of(collection)
    if isinstance(collection, str) or not isinstance(collection, Sequence):
        raise TypeError(
            f"collection is of type {type(collection).__name__}: expected a Dask frame or array, a "
            f"pair (X, y) of them, or a list of delayed batches or of paths."
        )
    return list(collection)


def _is_chunked(collection: object) -> "TypeGuard[Array | DataFrame]":
    return hasattr(collection, "to_delayed")


def _delayed_of(collection: "Array | DataFrame") -> "list[Delayed]":
    """Return a frame's or an array's parts, each with all columns."""
    if hasattr(collection, "rechunk"):
        whole = collection.rechunk({1: -1}) if collection.ndim == 2 else collection
        return list(whole.to_delayed().ravel())
    return list(collection.to_delayed())


def _compute_sum(total: "Delayed", client: "Client | None") -> PartialTable:
    """Compute the sum, on a cluster without spilling, or on the scheduler in force."""
    known = _open_client() if client is None else client
    if known is None:
        found: PartialTable = total.compute()
        return found
    with disable_spilling(known):
        future = known.compute(total)
        try:
            result: PartialTable = future.result()
        finally:
            future.release()
    return result


def _open_client() -> "Client | None":
    """Return the client that Dask would use by itself, None where it is another scheduler."""
    import dask

    if not find_spec("distributed") or dask.config.get("scheduler", None) not in (
        None,
        "distributed",
        "dask.distributed",
    ):
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None
