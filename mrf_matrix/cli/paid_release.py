"""A release that was paid for: kept, also where its place has no room for it, and reported."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mrf_matrix.files.models.save import MatrixModel, TableModel


def keep_release(model: "MatrixModel | TableModel", output: Path, ledger_file: Path | None) -> None:
    """Write a fitted model to ``output``, or elsewhere where the disk refuses it there.

    The records cannot be measured again without budget. So the model is tried in the folders of
    the ledger, of the caller, of the user and of temporary files, under a new name, and the error
    says where it is and what was spent.

    Raises click.ClickException if the model is not in ``output``.
    """
    from mrf_matrix.files.models import save_model

    try:
        save_model(model, output)
    except (OSError, ValueError) as error:
        if model.privacy_report_.noise != "exact":  # nothing was paid for
            raise
        spent = f"{model.privacy_report_.budget} is spent"
        if ledger_file is not None:
            spent += f" and charged to {ledger_file}"
        place = _kept_elsewhere(model, output, ledger_file)
        where = (
            f"The model was written to {place} instead: move it where it belongs, and do not fit "
            f"again."
            if place is not None
            else "It could not be written anywhere else either, and is lost."
        )
        raise click.ClickException(
            f"--output {output} could not be written ({error}). The release was made: {spent}. "
            f"{where}"
        ) from error


def _kept_elsewhere(
    model: "MatrixModel | TableModel", output: Path, ledger_file: Path | None
) -> Path | None:
    from mrf_matrix.files.models import save_model

    name = f"{output.stem[:40]}-{token_hex(4)}{output.suffix}"
    beside = [] if ledger_file is None else [ledger_file.parent]
    for folder in (*beside, Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
        try:
            save_model(model, folder / name)
        except (OSError, ValueError):
            continue
        return folder.resolve() / name
    return None


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
