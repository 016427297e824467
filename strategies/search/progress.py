"""What a selection reports while it works."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One step of a selection.

    Attributes
    ----------
    family : str
        The family about to search.
    step, steps : int
        Searches done so far, and in all.
    best : float
        Smallest loss so far; infinite before the first.
    """

    family: str
    step: int
    steps: int
    best: float


Report = Callable[[Progress], object]


@contextmanager
def reporting(progress: bool | Report | None) -> Iterator[Report]:
    """Turn the user's ``progress`` argument into a function: a rich bar for True."""
    if progress is None or progress is False:
        yield lambda event: None
    elif progress is True:
        with _bar() as report:
            yield report
    elif callable(progress):
        yield progress
    else:
        raise TypeError(
            f"progress={progress!r}: expected True, False, None or a function of one "
            f"strategies.Progress."
        )


@contextmanager
def _bar() -> Iterator[Report]:
    import rich.progress

    words = rich.progress.TextColumn("{task.description}", markup=False)  # a family's name is text
    rest = rich.progress.Progress.get_default_columns()[1:]
    with rich.progress.Progress(words, *rest, transient=True) as bar:
        task = bar.add_task("strategies", total=None)

        def report(event: Progress) -> None:
            text = f"{event.family} (best {event.best:.6g})"
            bar.update(task, description=text, completed=event.step, total=event.steps)

        yield report
