"""Output of subcommands: one console, one style of table, records and pictures.

Nothing that is printed is markup: names, titles and errors come from files of strangers.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EPIPE
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table

from mrf_matrix.base import escape_controls, whole_file
from mrf_matrix.base.files import PLAIN, FileFormat
from mrf_matrix.datasets.files import header_of, is_data_file
from mrf_matrix.domain import Domain
from mrf_matrix.domain.serialization import wide_columns

Report = Callable[[str, int, int | None], None]
"""What moves a progress bar: what is done, how much of it, and how much there is if that is known.
"""

Pictures = Callable[[], Mapping[str, Any]]
"""Makes the displays by their file names; raises ImportError without matplotlib."""


VOLUME, NO_COLOR = "mrf_matrix.volume", "mrf_matrix.no_color"
"""Where a command keeps its options --quiet, --verbose and --no-color."""


def option_value(option: str) -> Any:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(option)


def note(line: str) -> None:
    """Print a remark, which is no result, to standard error, unless --quiet."""
    if option_value(VOLUME) != "quiet":
        console(stderr=True).print(line, soft_wrap=True)


def advise(domain: Domain, n_records: int | None = None) -> None:
    """Print advice on wide columns to standard error."""
    for line in wide_columns(domain.attributes, n_records):
        note(f"Note: {line}")


def note_ignored(data: str, domain: Domain, file_format: FileFormat | None = None) -> None:
    """Name the columns of a file that its domain has no use for, an identifier say.

    Where the file lacks a column of the domain nothing is said: it may have no header, and its
    first line be a record.
    """
    if option_value(VOLUME) == "quiet" or not is_data_file(data) or not Path(data).is_file():
        return
    known = [*domain.names, *([domain.target.name] if domain.target else [])]
    header = header_of(Path(data), file_format or PLAIN)
    unknown = dict.fromkeys(name for name in header if name not in known)
    ignored = [name or "one without a name" for name in unknown]
    if ignored and set(domain.names) <= set(header):
        note(f"Ignored columns: {', '.join(ignored)}.")


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output, or on standard error for what is not a result.

    What it prints is text: square brackets, addresses and ``:words:`` between colons stay.
    """
    colours = option_value(NO_COLOR) or None
    made = Screen(stderr=stderr, markup=False, emoji=False, highlight=False, no_color=colours)
    made.push_render_hook(Escapes())
    return made


class Screen(Console):
    """A console whose pipe may be closed by its reader, as any other output's."""

    def on_broken_pipe(self) -> None:
        """Raise the error again, where rich would end the program."""
        raise BrokenPipeError(EPIPE, os.strerror(EPIPE))


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
            yield (
                segment
                if plain
                else Segment(escape_controls(segment.text, keep="\n"), segment.style)
            )


def table(
    title: str,
    *columns: str,
    rows: Iterable[Sequence[str]] = (),
    words: int = 1,
    fold: int | None = None,
    caption: str | None = None,
) -> Table:
    """Return a table that fits 80 characters: `words` columns of text, then numbers.

    `fold`: the column that is broken over lines, so that the others stay whole.
    """
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    for number, column in enumerate(columns):
        made.add_column(
            column,
            justify="right" if number >= words else "left",
            no_wrap=number != fold,
            overflow="fold" if number == fold else "ellipsis",
        )
    for row in rows:
        made.add_row(*row)
    return made


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Report]:
    """Show a progress bar on standard error; give the callable that moves it."""
    screen = console(stderr=True)
    if option_value(VOLUME) == "verbose":
        yield step_timer()
        return
    quiet = quiet or option_value(VOLUME) == "quiet"
    if quiet or not screen.is_terminal:  # in a log a bar would leave an empty line
        yield lambda what, done, total: None
        return
    bar = Progress(
        TextColumn("{task.description:<42}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report


@contextmanager
def resume_file(
    folder: Path, given: Path | None, request: object, is_whole: Callable[[], bool]
) -> Iterator[Path]:
    """Give the file that interrupted work goes on from; it goes when the work is whole.

    `folder`: of the results: the file's name there follows from the request; `given`: a file of the
    user's, which stays; `request`: what was asked, as plain values; `is_whole`: whether all is
    done, asked at the end.
    """
    name = sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()[:12]
    file = given or folder / f"unfinished-{name}.json"
    if file.exists():
        note(f"Going on from {file}.")
    yield file
    if not is_whole():
        note(f"Not finished: the same command goes on from {file}.")
    elif given is None:
        file.unlink(missing_ok=True)


def step_timer() -> Report:
    """Return what prints every step with the seconds since the start, to standard error."""
    start, told = monotonic(), ""

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal told
        if what != told:
            note(f"{monotonic() - start:7.1f} s  {what}")
            told = what

    return report


def write_text(text: str, path: Path) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


def print_and_write(
    figures: Mapping[str, Any],
    show: Callable[[], None],
    file: Path,
    pictures: Pictures | None,
    *,
    as_json: bool,
    default: Callable[[object], str] | None = None,
) -> None:
    """Print the figures as JSON, or `show` them, and write them to a file with pictures beside it.

    As JSON nothing else goes to standard output. The file's folder is made. `default`: of `json`.
    """
    record = json.dumps(figures, indent=2, default=default)
    if as_json:
        click.echo(record)
    else:
        show()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(f"{record}\n", file)
    files = [file, *([] if pictures is None else draw_pictures(pictures, file.parent))]
    written = "Written: " + ", ".join(map(str, files))
    if as_json:
        note(written)
    elif option_value(VOLUME) != "quiet":
        console().print(written, soft_wrap=True)


def draw_pictures(pictures: Pictures, folder: Path) -> list[Path]:
    try:
        drawn = pictures()
    except ImportError as missing:
        console(stderr=True).print(f"No pictures: {missing}")
        return []
    for name, picture in drawn.items():
        with whole_file(folder / name) as whole:
            picture.figure_.savefig(whole, dpi=150, format=Path(name).suffix[1:])
    return [folder / name for name in drawn]
