"""Keep what was paid for when something fails, and say where it is.

A command that pays first checks that its output can be written, and reserves the name. Its draws
are on disk before anything is learned from them. Everything is written before anything is printed.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import click

import mrf_matrix
from mrf_matrix import mechanisms
from mrf_matrix.base import check_writable
from mrf_matrix.base.files import name_path_in_errors
from mrf_matrix.base.work import DrawRecord, SignalHold, hold_after_payment, keep_draws
from mrf_matrix.cli.errors import error_line
from mrf_matrix.cli.screen import write_text

Write = Callable[[Path], None]


class Rescue:
    """Where a command's result goes, and what was drawn for it until it is there.

    `what`: the result, such as "model"; `output`: where it belongs, None where it is printed alone.
    """

    def __init__(
        self, what: str, output: Path | None, ledger_file: Path | None, *, overwrite: bool = False
    ) -> None:
        self.what, self.ledger_file, self.overwrite = what, ledger_file, overwrite
        self.has_output, self.output = output is not None, output or Path(f"{what}.json")
        self.place: Path | None = None  # where the result is, once it is written
        self.unwritten: Write | None = None  # writes a result that is to be printed alone
        self.holding = SignalHold()
        self._mark: tuple[int, int] | None = None
        self._drawn: list[Path] = []

    def reserve(self) -> None:
        """Take the name before anything is paid, by an empty file that nobody else replaces."""
        if not self.has_output:
            check_stdout()
            return
        with suppress(FileExistsError):
            handle = os.open(self._target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            found = os.fstat(handle)
            os.close(handle)
            self._mark = found.st_dev, found.st_ino
        if self._mark is None and not self.overwrite:
            raise click.ClickException(f"--output {self.output} is there already, since now.")

    def give_back(self) -> None:
        """Give the name back where nothing was written under it."""
        if self._is_mine:
            with suppress(OSError):
                self._target.unlink()

    @property
    def _target(self) -> Path:
        return Path(os.path.realpath(self.output))

    @property
    def _is_mine(self) -> bool:
        with suppress(OSError):
            found = os.stat(self._target)
            return (found.st_dev, found.st_ino) == self._mark and not found.st_size
        return False

    def write(self, write: Write) -> None:
        """Write the result to its place, or where there is room.

        Raises click.ClickException if it is not in its place; what went wrong first, if nowhere.
        """
        try:
            if self.overwrite or self._is_mine:
                write(self.output)
            else:
                write_new(write, self.output)
            self.place = self.output
        except Exception as error:
            self.place = self.write_elsewhere(write, self.output)
            if self.place is None:
                raise
            raise click.ClickException(
                f"--output {self.output} could not be written ({_reason(error)})."
            ) from error

    def settle(self) -> None:
        """Let signals act again: what was paid for is written."""
        self.drop()
        if self.holding.came:  # it may end the program, which would say no more
            click.echo(f"Stopped when the {self.what} was written: {self.place}", err=True)
        self.holding.end()

    @property
    def charge_text(self) -> str:
        return "" if self.ledger_file is None else f" and charged to {self.ledger_file}"

    def write_elsewhere(self, write: Write, like: Path) -> Path | None:
        """Write a file of a new name into the first folder that takes it; None where none does."""
        name = f"{like.stem[:40]}-{token_hex(4)}{like.suffix}"
        for find in folders(self.output, self.ledger_file):
            try:
                place = find() / name
                write(place)
            except Exception:  # each is tried by itself, whatever is wrong with another
                continue
            with suppress(OSError):
                return place.resolve()
            return place
        return None

    def keep(self, value: Any) -> None:
        """Keep what was drawn on disk, until the result is."""
        place = self._write_draw(value, len(self._drawn) + 1)
        if place is not None:
            self._drawn.append(place)

    def _write_draw(self, value: Any, number: int) -> Path | None:
        if not isinstance(value, mechanisms.Release):
            like = self.output.with_name(f"{self.output.stem[:30]}-choices.json")
            return self.write_elsewhere(lambda path: write_text(json_text(value), path), like)
        if value.noise != "exact":
            return None
        like = self.output.with_name(f"{self.output.stem[:30]}-release-{number}.release")
        return self.write_elsewhere(lambda path: mrf_matrix.save_release(value, path), like)

    def keep_rest(self, record: "DrawRecord") -> list[Path]:
        """Keep what is not on disk of what was drawn; return where all of it is."""
        values = record.values
        releases = [one for one in values if isinstance(one, mechanisms.Release)]
        if len(self._drawn) < sum(one.noise == "exact" for one in releases):
            self.drop()
            for one in releases:
                self.keep(one)
        chosen = [one for one in values if not isinstance(one, mechanisms.Release)]
        if chosen:
            self.keep(chosen)
        return self._drawn

    def drop(self) -> None:
        """Remove what was kept of the draws: the result is written, or they are written anew."""
        for one in self._drawn:
            with suppress(OSError):
                one.unlink()
        self._drawn = []


@contextmanager
def rescue_on_error(rescue: Rescue) -> Iterator[None]:
    """Keep what a block draws and would lose, and say where it is and what was spent.

    From the first payment signals wait until `Rescue.settle`, or the end of the block.

    Raises click.ClickException in place of an error after the charge.
    """
    rescue.reserve()
    try:
        with hold_after_payment(rescue.holding), keep_draws(rescue.keep) as record:
            try:
                yield
            except BaseException as error:
                if not record.payments_made:
                    raise
                message = _rescue_message(rescue, record, error)
                if rescue.holding.came or isinstance(error, BrokenPipeError):
                    click.echo(message, err=True)  # nothing else will say it
                if isinstance(error, BrokenPipeError):
                    raise
                raise click.ClickException(message) from error
            rescue.drop()
    finally:
        rescue.give_back()


def _rescue_message(rescue: Rescue, record: "DrawRecord", error: BaseException) -> str:
    """Keep what there is, and return what went wrong, what was spent, and where what is."""
    why = _reason(error)
    if not isinstance(error, click.ClickException):
        why = f"The {rescue.what} was paid for, and then something failed: {why.rstrip('.')}."
    spent = " and ".join(f"{one.budget!r}" for one in record.payments_made)
    told = f"{why} {spent} is spent{rescue.charge_text}"
    if rescue.place is None and rescue.unwritten is not None:
        rescue.place = rescue.write_elsewhere(rescue.unwritten, rescue.output)
    if rescue.place is not None:
        rescue.drop()
        return f"{told}, and the {rescue.what} is written: {rescue.place}. Do not pay again."
    kept = ", ".join(map(str, rescue.keep_rest(record)))
    if kept:
        return (
            f"{told}; what was drawn is kept in {kept}. mrf_matrix.load_release reads a release, "
            f"and what follows from it costs nothing. Do not pay again."
        )
    if record.values:
        return f"{told}; what was drawn could be written nowhere, and is lost."
    return f"{told}; nothing was drawn."


def _reason(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    if isinstance(error, BrokenPipeError):
        return "nobody reads standard output"
    return (error_line(error) if isinstance(error, Exception) else None) or type(error).__name__


def write_new(write: Write, output: Path) -> None:
    """Write a file whole where there is none, in one step."""
    draft = output.with_name(f".{output.stem[:40]}-{token_hex(8)}{output.suffix}")
    try:
        with name_path_in_errors(output):
            write(draft)
            try:
                os.link(draft, output)
            except FileExistsError:
                raise
            except OSError:  # file systems without links
                if output.exists():
                    raise FileExistsError(17, "File exists", str(output)) from None
                os.replace(draft, output)
    finally:
        draft.unlink(missing_ok=True)


def folders(output: Path, ledger_file: Path | None) -> list[Callable[[], Path]]:
    beside = [output.parent] if ledger_file is None else [output.parent, ledger_file.parent]
    return [
        *(lambda folder=folder: folder for folder in beside),
        Path.cwd,  # which may be gone
        Path.home,  # which a container may not have
        lambda: Path(tempfile.gettempdir()),
    ]


def json_text(values: Any) -> str:
    """Return choices and structures as JSON, by what their fields and arrays hold."""

    def plain_value(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        if hasattr(value, "__dataclass_fields__"):
            names = [one for one in value.__dataclass_fields__ if not one.startswith("_")]
            return {name: getattr(value, name) for name in names}
        return str(value)

    return json.dumps(values, default=plain_value, indent=1)


def check_output(
    output: Path,
    *,
    overwrite: bool,
    loses: str = "",
    reads: Sequence["str | Path | None"] = (),
    option: str = "--output",
) -> None:
    """Refuse an output file that is there already, or cannot be written, before work is done.

    `overwrite`: whether a file that is there may be replaced; `loses`: what its replacement would
    lose, for the message; `reads`: what the command reads, and so never replaces; `option`: what
    the command calls the file.
    """
    if any(one is not None and _same_file(output, Path(one)) for one in reads):
        raise click.ClickException(
            f"{option} {output} is a file that this command reads: choose another name."
        )
    if output.exists() and not overwrite:
        raise click.ClickException(
            f"{option} {output} is there already{loses}: choose another name, or --overwrite."
        )
    if not output.parent.is_dir():
        raise click.ClickException(f"{option} {output}: there is no folder {output.parent}.")
    check_writable(output)


def check_stdout() -> None:
    """Refuse a standard output that nobody reads, before something is paid to be printed there."""
    out = sys.stdout
    if out is None or out.closed:
        raise click.ClickException("standard output is closed: give --output FILE.")
    with suppress(OSError, AttributeError, ValueError):  # no pipe, or no such system
        import select

        pipe = select.poll()
        pipe.register(out.fileno(), 0)
        if any(event & (select.POLLERR | select.POLLNVAL) for _, event in pipe.poll(0)):
            raise click.ClickException("nobody reads standard output: give --output FILE.")


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
