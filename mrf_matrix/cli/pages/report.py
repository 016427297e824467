"""`mrf-matrix report`: all that a model released, on one page for whoever answers for it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrf_matrix.base import whole_file
from mrf_matrix.base.fields import object_of, parsed
from mrf_matrix.base.files import content_of, hash_of
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import FILE, NEW, ledger_option, overwrite_option
from mrf_matrix.cli.paid_release import check_output
from mrf_matrix.cli.screen import console, note

if TYPE_CHECKING:
    from mrf_matrix.reports import ReportPage

LONGEST = 10 * 1024**2
EVALUATION = {
    "schema_version", "statement", "is_private", "budget", "delta", "neighboring", "provenance",
    "noise",
    "noise_scale", "level", "threshold", "edges", "classes", "noisy_counts", "figures",
}  # fmt: skip


@click.command(name="report")
@click.argument("model", type=FILE)
@click.option(
    "--html",
    type=NEW,
    help="Page to write: one file that loads nothing, and prints. [default: text on the screen]",
)
@ledger_option("Ledger that the model was charged to.")
@click.option(
    "--evaluation",
    type=FILE,
    help="What `mrf-matrix evaluate --output` wrote: accuracy and calibration that were paid for.",
)
@overwrite_option("a page")
@click.option("--json", "as_json", is_flag=True, help="Print the page as JSON.")
@user_errors
def command(
    model: Path,
    html: Path | None,
    ledger_file: Path | None,
    evaluation: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Report what MODEL released: the guarantee in plain words, and what stands behind it.

    MODEL is a file from `mrf-matrix fit`. The page says what was promised, where the budget went,
    what was public, what was measured and how noisy it is, how strongly each attribute speaks, the
    limits, versions and hashes. It reads no records and costs no budget.
    """
    from mrf_matrix.estimators.released.load import load_model
    from mrf_matrix.mechanisms import PrivacyLedger
    from mrf_matrix.reports import model_report

    if html is not None:
        reads = (model, ledger_file, evaluation)
        check_output(html, overwrite=overwrite, reads=reads, option="--html")
    page = model_report(
        load_model(model),
        ledger=None if ledger_file is None else PrivacyLedger.open(ledger_file),
        evaluation=None if evaluation is None else evaluation_of(evaluation),
        model_hash=hash_of(model),
    )
    if as_json:
        click.echo(json.dumps(page.to_dict(), indent=2))
    if html is not None or not as_json:
        show(page, html)


def show(page: "ReportPage", html: Path | None) -> None:
    """Write a page to a file, or print its text."""
    if html is None:
        console().print(str(page), soft_wrap=True)
        return
    with whole_file(html) as file:
        file.write(page.to_html().encode())
    note(f"Written: {html}")
    for one in page.warnings:
        note(f"WARNING: {one}")


def evaluation_of(file: Path) -> dict[str, object]:
    """Return the record of an evaluation; `model_report` checks what it shows of it."""
    content = content_of(file, LONGEST)
    try:
        found = parsed(content)
    except ValueError as error:
        raise click.ClickException(
            f"--evaluation {file} is no JSON: expected what `mrf-matrix evaluate --output` wrote."
        ) from error
    return object_of(found, str(file), EVALUATION, optional={"model"})  # older ones name none
