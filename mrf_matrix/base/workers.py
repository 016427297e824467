"""Where public work and studies run: this process, processes of joblib, or a cluster."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from joblib import Parallel, delayed, parallel_config

if TYPE_CHECKING:
    from distributed import Client

Task = TypeVar("Task")
Result = TypeVar("Result")


def computed(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    n_jobs: int | None = None,
    client: "Client | None" = None,
) -> Iterator[Result]:
    """Yield ``function(task)`` of every task, in order; tasks are taken as there is room for them.

    `n_jobs`: processes of joblib; `client`: a Dask cluster that runs the tasks instead.

    Raises ValueError if both are given.

    >>> list(computed(abs, [-1, 2]))
    [1, 2]
    """
    if client is None:
        where = nullcontext()
    elif n_jobs is None:
        where = parallel_config(backend="dask", client=client)
    else:
        raise ValueError(f"n_jobs={n_jobs} and client are both given: expected one of them.")
    with where:
        yield from Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(function)(task) for task in tasks
        )
