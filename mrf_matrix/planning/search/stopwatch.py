"""A limit of time by the clock, and whether it is over."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stopwatch:
    """Time since it was made, and a limit.

    >>> ticks = iter([0.0, 1.0, 3.0])
    >>> watch = Stopwatch(2.0, lambda: next(ticks))
    >>> watch.is_over, watch.is_over
    (False, True)
    """

    limit: float | None  # seconds; None for no limit
    # a clock in seconds that never goes back, the same in all processes of a machine
    # (`time.monotonic`): a copy in another process runs out at the same moment
    now: Callable[[], float]
    started: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", self.now())

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self.now() - self.started

    @property
    def is_over(self) -> bool:
        """Whether the limit has passed."""
        return self.limit is not None and self.seconds >= self.limit

    @property
    def note(self) -> str:
        """Why something was not begun."""
        return f"not tried: max_seconds={self.limit} had passed"
