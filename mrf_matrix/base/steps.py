"""What is being done now, told to whoever listens: a progress bar, a log, or nobody.

Steps name public things alone (trees, answers, draws), so that who reads over a shoulder learns
nothing about the records.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
def listening(listener: Listener) -> Iterator[None]:
    """Let a listener hear of every step of this thread.

    >>> with listening(lambda step, done, total: print(step)):
    ...     tell("Growing 4 trees")
    Growing 4 trees
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
