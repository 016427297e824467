"""A lock that an estimator may hold: a copy of the estimator gets one of its own."""

from threading import RLock
from types import TracebackType
from typing import Self


class CallLock:
    """One thread at a time, in a ``with`` block; the same thread may enter again.

    Locks themselves are neither pickled nor copied. A copy of this one is a new lock, open.
    """

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["CallLock"], tuple[()]]:
        return CallLock, ()
