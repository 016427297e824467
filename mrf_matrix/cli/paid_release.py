"""What was paid for is kept, whatever fails, and whoever paid is told where it is."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mrf_matrix.files.models.save import MatrixModel, TableModel
    from mrf_matrix.mechanisms import Release

Write = Callable[[Path], None]


def keep_model(
    model: "MatrixModel | TableModel", output: Path, ledger_file: Path | None, *, overwrite: bool
) -> tuple[Path, OSError | ValueError | None]:
    """Write a fitted model to ``output``, or elsewhere where that fails.

    Returns where it is, and why it is not in ``output``, if it is not.

    Raises click.ClickException if it could be written nowhere.
    """
    from mrf_matrix.files.models import save_model

    try:
        keep_file(lambda path: save_model(model, path), output, overwrite=overwrite)
    except (OSError, ValueError) as error:
        if model.privacy_report_.noise != "exact":  # nothing was paid for
            raise
        place = kept_elsewhere(lambda path: save_model(model, path), output, ledger_file)
        if place is None:
            raise click.ClickException(
                f"--output {output} could not be written ({error}). {spent_on(model, ledger_file)} "
                f"It could not be written anywhere else either, and is lost."
            ) from error
        return place, error
    return output, None


def spent_on(model: "MatrixModel | TableModel", ledger_file: Path | None) -> str:
    """Return what a release cost, and which ledger was charged, in a sentence."""
    charged = "" if ledger_file is None else f" and charged to {ledger_file}"
    return f"The release was made: {model.privacy_report_.budget} is spent{charged}."


def keep_file(write: Write, output: Path, *, overwrite: bool) -> None:
    """Write a file whole, and replace none that came meanwhile unless that is asked for."""
    if overwrite:
        write(output)
        return
    draft = output.with_name(f".{output.stem[:40]}-{token_hex(8)}{output.suffix}")
    try:
        write(draft)
        try:
            os.link(draft, output)  # fails where there is one, in one step
        except FileExistsError:
            raise
        except OSError:  # file systems without links
            if output.exists():
                raise FileExistsError(17, "File exists", str(output)) from None
            os.replace(draft, output)
    finally:
        draft.unlink(missing_ok=True)


def kept_elsewhere(write: Write, output: Path, ledger_file: Path | None) -> Path | None:
    """Write a file of a new name into the first folder that takes it; None where none does."""
    name = f"{output.stem[:40]}-{token_hex(4)}{output.suffix}"
    beside = [] if ledger_file is None else [ledger_file.parent]
    folders: list[Callable[[], Path]] = [
        *(lambda folder=folder: folder for folder in [output.parent, *beside]),
        Path.cwd,  # which may be gone
        Path.home,  # which a container may not have
        lambda: Path(tempfile.gettempdir()),
    ]
    for find in folders:
        try:
            place = find() / name
            write(place)
            return place.resolve()
        except (OSError, ValueError, RuntimeError):
            continue
    return None


@contextmanager
def rescued(output: Path, ledger_file: Path | None) -> Iterator[None]:
    """Keep what a block drew and would lose: each release as a file, named in the message.

    Raises click.ClickException in place of an error that holds releases.
    """
    try:
        yield
    except BaseException as error:
        drawn = _private_releases(error)
        if not drawn:
            raise
        from mrf_matrix.files import save_release

        told = []
        for number, release in enumerate(drawn, 1):
            name = output.with_name(f"{output.stem[:30]}-release-{number}.release")
            place = kept_elsewhere(
                lambda path, one=release: save_release(one, path),  # type: ignore[misc]
                name,
                ledger_file,
            )
            told.append("nowhere" if place is None else str(place))
        charged = "" if ledger_file is None else f" and charged to {ledger_file}"
        raise click.ClickException(
            f"The fit failed after its noise was drawn ({type(error).__name__}). "
            f"{drawn[0].claim.budget!r} is spent{charged}; what was drawn is kept in "
            f"{', '.join(told)}. mrf_matrix.load_release reads it; do not fit again."
        ) from error


def _private_releases(error: BaseException) -> "list[Release]":
    from mrf_matrix.mechanisms import Release

    drawn = getattr(error, "releases", ())
    return [one for one in drawn if isinstance(one, Release) and one.noise == "exact"]


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
    from mrf_matrix.base import check_writable

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


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
