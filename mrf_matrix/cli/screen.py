"""How the command line looks: one console, one style of table, one progress bar."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from mrf_matrix.estimators.study import Progress as Report


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output, or on standard error for what is not a result."""
    return Console(stderr=stderr, highlight=False)


def table(title: str, *columns: str, words: int = 1) -> Table:
    """Return an empty table that fits 80 characters: `words` columns of text, then numbers."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number >= words else "left", no_wrap=True)
    return made


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator["Report"]:
    """Show a progress bar on standard error; give the callable that moves it."""
    bar = Progress(
        TextColumn("{task.description:<42}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console(stderr=True),
        disable=quiet,
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report
