"""How the command line looks: one console, one style of table, one progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table

from mrf_matrix.base import escaped

Report = Callable[[str, int, int | None], None]
"""What moves a progress bar: what is done, how much of it, and how much there is if that is known.
"""


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output, or on standard error for what is not a result."""
    made = Console(stderr=stderr, highlight=False)
    made.push_render_hook(Escapes())
    return made


class Escapes(RenderHook):
    """Shows every text with the characters that act on a terminal written out."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return what is printed, escaped as it is drawn."""
        return [EscapedText(one) for one in renderables]


@dataclass(frozen=True)
class EscapedText:
    """A drawing whose texts are escaped; the terminal's own commands, rich's, stay."""

    drawing: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.drawing, options):
            plain = segment.control or segment.text.isprintable()
            yield segment if plain else Segment(escaped(segment.text, keep="\n"), segment.style)


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
def progress_bar(*, quiet: bool = False) -> Iterator[Report]:
    """Show a progress bar on standard error; give the callable that moves it."""
    screen = console(stderr=True)
    bar = Progress(
        TextColumn("{task.description:<42}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=screen,
        disable=quiet or not screen.is_terminal,  # in a log it would leave an empty line
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report
