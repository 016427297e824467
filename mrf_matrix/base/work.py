"""Work under way: who hears of it, which processes it runs in, what of it survives.

There are at most as many workers as cores and tasks, in this process, in processes of joblib or in
a cluster, and none outlives its parent. Steps name public things alone: trees, answers, draws.

A draw is entered in a record before it is made, and its outcome is assigned: no call stands between
the noise and the place where it is kept. An error that would lose outcomes carries them as its
`releases`, and says what was spent. Signals wait until then.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.parallel import get_active_backend

from mrf_matrix.base.checks import short_repr
from mrf_matrix.base.provenance import NOTHING, Provenance, Spending

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
        threading.Thread(target=_die_with, args=(parent,), daemon=True).start()


_WATCHED: set[int] = set()
"""Parents that this process watches already: it is a worker's own, and holds one number."""


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)  # nobody waits for what it does


# Draws and payments -------------------------------------------------------------------------------


ASKED = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that end a program at somebody's request; not every system has all of them."""


@dataclass(frozen=True)
class Choice:
    """The outcome of private choices among public options.

    `chosen`: places of the options, a number for each choice; or what stands there.
    """

    chosen: Any


@dataclass(eq=False)
class Draw:
    """One draw; `outcome` is None until it is made, and assigned once it is.

    `finish` makes of an outcome the value to be kept; `rests_on`: what the value rests on besides.
    """

    finish: Callable[[Any], Any]
    rests_on: Provenance = NOTHING
    outcome: Any = None

    @property
    def value(self) -> Any:
        """The value that was drawn, with all that it rests on; None before that."""
        if self.outcome is None:
            return None
        made = self.finish(self.outcome)
        return made.resting_on(self.rests_on) if hasattr(made, "resting_on") else made


@dataclass(frozen=True, eq=False)
class Payment:
    """A payment of a block. Without a ledger it counts as made once something is drawn."""

    spending: Spending
    provenance: Provenance
    is_made: Callable[[], bool | None] = lambda: None


@dataclass(eq=False)
class DrawRecord:
    """All draws of a block and all payments for them, in order.

    `keep`: given every value as soon as it was drawn, for instance to write it to disk.
    """

    keep: Callable[[Any], None] | None = None
    draws: list[Draw] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(one.value for one in self.draws if one.outcome is not None)

    @property
    def payments_made(self) -> list[Spending]:
        begun = bool(self.draws)
        made = [(one.spending, one.is_made()) for one in self.payments]
        return [one for one, paid in made if (begun if paid is None else paid)]

    def explain(self, error: BaseException) -> None:
        """Keep what was drawn in an error that would lose it, and say what was spent."""
        spent, drawn = self.payments_made, self.values
        if not spent and not drawn:
            return
        known = getattr(error, "releases", None)
        error.releases = drawn  # type: ignore[attr-defined]
        if known is not None and len(known) == len(drawn):
            return  # an inner block said so
        kept = "nothing was drawn yet"
        if drawn:
            kept = f"what was drawn is kept: {len(drawn)} in `releases` of this error"
        elif self.draws:
            kept = "the first draw was not finished"
        told = " and ".join(f"{one.budget!r} is spent for {one.what}" for one in spent)
        error.add_note(f"{told or 'Noise was drawn'}; {kept}.")


_RECORD: ContextVar[DrawRecord | None] = ContextVar("draws", default=None)


@contextmanager
def keep_draws(keep: Callable[[Any], None] | None = None) -> Iterator[DrawRecord]:
    """Keep what is drawn in a block; an error of it has it as `releases`.

    Blocks inside share the record of the outermost one.
    """
    outer = _RECORD.get()
    record = DrawRecord(keep) if outer is None else outer
    token = _RECORD.set(record)
    try:
        yield record
    except BaseException as error:
        record.explain(error)
        raise
    finally:
        _RECORD.reset(token)


def enter_draw(finish: Callable[[Any], Any] = lambda outcome: outcome) -> Draw:
    """Enter a draw in the record before it is made; its outcome is to be assigned."""
    record = _RECORD.get()
    if record is None:
        return Draw(finish)
    rests_on = record.payments[-1].provenance if record.payments else NOTHING
    draw = Draw(finish, rests_on)
    record.draws.append(draw)
    return draw


def save_draw(draw: Draw) -> None:
    """Hand a finished draw to whoever keeps it on disk, whose failure is no reason to stop."""
    record = _RECORD.get()
    if record is not None and record.keep is not None:
        with suppress(Exception):
            record.keep(draw.value)


class SignalHold:
    """Holds signals back from its start to its end, and then lets the first that came act."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self.came: list[int] = []

    def start(self) -> None:
        """Hold signals from now on; in another thread than the main one there are none."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        for name in ASKED:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (None, signal.SIG_IGN):
                self._before[number] = signal.signal(number, self._hold)

    def end(self) -> None:
        """Let signals act again, and the first of those that came at once."""
        before, self._before = self._before, {}
        came, self.came = self.came, []
        for number, handler in reversed(before.items()):  # the keyboard last: it may interrupt
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])

    def _hold(self, number: int, frame: object) -> None:
        self.came.append(number)


_UNTIL_KEPT: ContextVar[SignalHold | None] = ContextVar("holding", default=None)


@contextmanager
def hold_signals() -> Iterator[None]:
    """Hold signals back in a block that pays; inside `hold_after_payment`, to the end of that."""
    outer = _UNTIL_KEPT.get()
    holding = outer or SignalHold()
    holding.start()
    try:
        yield
    finally:
        if outer is None:
            holding.end()


@contextmanager
def hold_after_payment(holding: SignalHold | None = None) -> Iterator[None]:
    """Hold signals back from the first payment within a block to the block's end.

    What comes before it is paid, such as planning, ends at once where somebody asks. Whoever keeps
    what was paid for earlier gives a `holding`, and ends it.
    """
    held = SignalHold() if holding is None else holding
    token = _UNTIL_KEPT.set(held)
    try:
        yield
    finally:
        _UNTIL_KEPT.reset(token)
        held.end()
