"""A release that was paid for: kept, also where its place has no room for it, and reported."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from mrf_matrix.reports import PrivacyReport


def keep_release(model: Any, output: Path, ledger_file: Path | None) -> None:
    """Write a fitted model to ``output``, or elsewhere where the disk refuses it there.

    The records cannot be measured again without budget. So the model is tried in the folders of
    the ledger, of the caller, of the user and of temporary files, under a new name, and the error
    says where it is and what was spent.

    Raises
    ------
    click.ClickException
        If the model is not in ``output``.
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


def _kept_elsewhere(model: Any, output: Path, ledger_file: Path | None) -> Path | None:
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
    output: Path, *, overwrite: bool, loses: str = "", reads: Sequence["str | Path | None"] = ()
) -> None:
    """Refuse an output file that is there already, or cannot be written, before work is done.

    Parameters
    ----------
    output : Path
    overwrite : bool
        Whether a file that is there may be replaced.
    loses : str
        What its replacement would lose, for the message.
    reads : sequence of str, Path or None
        What the command reads, and so never replaces.
    """
    from mrf_matrix.base import check_writable

    if any(one is not None and _same_file(output, Path(one)) for one in reads):
        raise click.ClickException(
            f"--output {output} is a file that this command reads: choose another name."
        )
    if output.exists() and not overwrite:
        raise click.ClickException(
            f"--output {output} is there already{loses}: choose another name, or --overwrite."
        )
    if not output.parent.is_dir():
        raise click.ClickException(f"--output {output}: there is no folder {output.parent}.")
    check_writable(output)


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def report_table(report: "PrivacyReport") -> Table:
    """Return a report as a table of two columns under its statement."""
    table = Table(
        title=Text(report.statement, style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_header=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in rows_of(report):
        table.add_row(name, Text(text))
    return table


def rows_of(report: "PrivacyReport") -> list[tuple[str, str]]:
    """Return what a report says, a line each."""
    rows = [
        ("budget spent", report.budget),
        ("neighbours", report.neighboring),
        ("noise", report.noise),
        *(("measured", str(one)) for one in report.measurements),
    ]
    for what, error in (
        ("leaf value", report.expected_rms_per_leaf),
        ("vote", report.expected_rms_per_vote),
    ):
        if error is not None:
            rows.append(("expected error", f"{error:.4g} records rms per {what} and class"))
    rows.append(("taken for public", "; ".join(report.public)))
    return rows + [("note", note) for note in report.notes]
