"""What a subcommand shows and leaves: one console, one style of table, its record and pictures."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table

from mrf_matrix.base import escaped, whole_file

Report = Callable[[str, int, int | None], None]
"""What moves a progress bar: what is done, how much of it, and how much there is if that is known.
"""

Pictures = Callable[[], Mapping[str, Any]]
"""Makes the displays by their file names; raises ImportError without matplotlib."""


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
    if quiet or not screen.is_terminal:  # in a log a bar would leave an empty line
        yield lambda what, done, total: None
        return
    bar = Progress(
        TextColumn("{task.description:<42}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=screen,
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report


def write_results(record: str, file: Path, pictures: Pictures | None, *, as_json: bool) -> None:
    """Write the record, draw the pictures beside it, and say what was written.

    Parameters
    ----------
    record
        The record as JSON.
    file
        File of the record; its folder is made.
    pictures
        What makes the pictures; None draws none.
    as_json
        Whether standard output carries the record already, and nothing else may go there.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as whole:
        whole.write(f"{record}\n".encode())
    files = [file, *([] if pictures is None else draw(pictures, file.parent))]
    console(stderr=as_json).print(
        "Written: " + ", ".join(map(str, files)), markup=False, soft_wrap=True
    )


def draw(pictures: Pictures, folder: Path) -> list[Path]:
    """Draw pictures into the folder; without matplotlib, say so."""
    try:
        drawn = pictures()
    except ImportError as missing:
        console(stderr=True).print(f"No pictures: {missing}")
        return []
    for name, picture in drawn.items():
        with whole_file(folder / name) as whole:
            picture.figure_.savefig(whole, dpi=150, format=Path(name).suffix[1:])
    return [folder / name for name in drawn]
