"""Workers that keep their data in memory for a while, instead of spilling it to disk."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from distributed import Client, Worker

Limits = tuple[int, float | bool, float]
"""How many ask for no spilling, and a worker's own share of memory and size to spill from."""

_limits: "WeakKeyDictionary[Worker, Limits]" = WeakKeyDictionary()


@contextmanager
def spilling_off(client: "Client") -> Iterator[None]:
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
