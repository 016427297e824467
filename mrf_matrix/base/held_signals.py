"""Signals that wait until what was paid for is kept."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

ASKED = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that end a program at somebody's request; not every system has all of them."""


class Holding:
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


_UNTIL_KEPT: ContextVar[Holding | None] = ContextVar("holding", default=None)


@contextmanager
def held_signals() -> Iterator[None]:
    """Hold signals back within a block that pays; inside of `until_kept`, to the end of that."""
    outer = _UNTIL_KEPT.get()
    holding = outer or Holding()
    holding.start()
    try:
        yield
    finally:
        if outer is None:
            holding.end()


@contextmanager
def until_kept(holding: Holding | None = None) -> Iterator[None]:
    """Hold signals back from the first payment within a block to the block's end.

    What comes before it is paid, such as planning, ends at once where somebody asks. Whoever keeps
    what was paid for earlier gives a `holding`, and ends it.
    """
    held = Holding() if holding is None else holding
    token = _UNTIL_KEPT.set(held)
    try:
        yield
    finally:
        _UNTIL_KEPT.reset(token)
        held.end()
