"""A record of draws and payments, so that what was paid for survives errors and signals.

A draw is entered in the record before it is made, and its outcome is assigned: no call stands
between the noise and the place where it is kept. An error that would lose outcomes carries them as
its `releases`, and says what was spent. Signals wait until then.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mrf_matrix.base.provenance import NOTHING, Provenance, Spending

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
