"""Parallel workers for public work, and listeners for its progress.

There are at most as many workers as cores and tasks, in this process, in processes of joblib or in
a cluster, and none outlives its parent. Steps name public things alone: trees, answers, draws.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from numbers import Integral
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.parallel import get_active_backend

from mrf_matrix.base.checks import short_repr

if TYPE_CHECKING:
    from distributed import Client


Listener = Callable[[str, int, int | None], None]
"""Takes what is done, how much of it, and how much there is if that is known."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def tell(step: str | Callable[[], str], done: int = 0, total: int | None = None) -> None:
    """Tell the listener, if there is one, which step has begun or how far it is.

    `step`: a function is called only where somebody listens.
    """
    listener = _LISTENER.get()
    if listener is not None:
        listener(step if isinstance(step, str) else step(), done, total)


@contextmanager
def progress_listener(listener: Listener) -> Iterator[None]:
    """Let a listener hear of every step of this thread.

    >>> with progress_listener(lambda step, done, total: print(step)):
    ...     tell("Growing 4 trees")
    Growing 4 trees
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


SECONDS_BETWEEN_LOOKS = 0.5

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    n_jobs: int | None = None,
    client: "Client | None" = None,
) -> Iterator[Result]:
    """Yield ``function(task)`` of every task, in order; tasks are taken as there is room for them.

    `n_jobs`: processes of joblib, see `bounded_jobs`; `client`: a Dask cluster that runs the tasks
    instead.

    Raises ValueError if both are given, or ``n_jobs`` is no number of processes.

    >>> list(run_tasks(abs, [-1, 2]))
    [1, 2]
    """
    if client is None:
        where = nullcontext()
    elif n_jobs is None:
        where = parallel_config(backend="dask", client=client)
    else:
        raise ValueError(f"n_jobs={n_jobs} and client are both given: expected one of them.")
    most = bounded_jobs(n_jobs, len(tasks) if isinstance(tasks, Sized) else None)
    with where:
        work = delayed(partial(_run_watched, function, os.getpid()))
        options = {"n_jobs": most, "return_as": "generator", **watch_options()}
        yield from Parallel(**options)(work(task) for task in tasks)


def bounded_jobs(n_jobs: int | None, n_tasks: int | None = None) -> int | None:
    """Return a number of workers: at most one for each core and for each task.

    `n_jobs`: as in joblib: -1 for all cores, None for what its configuration says.

    Raises ValueError if it is no whole number, or 0.
    """
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(
            f"n_jobs={short_repr(n_jobs)}: expected a number of workers of at least 1, or -1 for "
            f"all cores."
        )
    cores = int(cpu_count())
    wanted = int(n_jobs) if n_jobs > 0 else cores + 1 + int(n_jobs)
    return max(1, min(wanted, cores, cores if n_tasks is None else n_tasks))


def watch_options() -> dict[str, Any]:
    """Return joblib's options by which its own processes watch their parent before any task."""
    backend, _ = get_active_backend()
    is_loky = type(backend).__name__ == "LokyBackend"
    return {"initializer": _watch, "initargs": (os.getpid(),)} if is_loky else {}


def _run_watched(function: Callable[[Task], Result], parent: int, task: Task) -> Result:
    """Return ``function(task)``; a child of the parent sees to it that it dies with it."""
    if os.getpid() != parent == os.getppid():
        _watch(parent)
    return function(task)


def _watch(parent: int) -> None:
    """Die with a parent: at once, where it is gone already."""
    if parent not in _WATCHED:
        _WATCHED.add(parent)
        Thread(target=_die_with, args=(parent,), daemon=True).start()


_WATCHED: set[int] = set()
"""Parents that this process watches already: it is a worker's own, and holds one number."""


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)  # nobody waits for what it does
