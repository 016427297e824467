"""`mrf-matrix report` and `ledger`: what a model released, on a page, and what a ledger spent."""

import json
import sys
from pathlib import Path

import click

import mrf_matrix
from mrf_matrix import reports
from mrf_matrix.base.fields import object_of, parse_json
from mrf_matrix.base.files import content_of, hash_of
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.paid_release import check_output
from mrf_matrix.cli.screen import console, note, write_text

LONGEST = 10 * 1024**2
EVALUATION = {
    "schema_version", "statement", "is_private", "budget", "delta", "neighboring", "provenance",
    "noise",
    "noise_scale", "level", "threshold", "edges", "classes", "noisy_counts", "figures",
}  # fmt: skip


@click.command(name="report")
@click.argument("model", type=options.FILE)
@click.option(
    "--html",
    type=options.NEW,
    help="Page to write: one file that loads nothing, and prints. [default: text on the screen]",
)
@options.ledger("Ledger that the model was charged to.")
@click.option(
    "--evaluation",
    type=options.FILE,
    help="What `mrf-matrix evaluate --output` wrote: accuracy and calibration that were paid for.",
)
@options.overwrite("a page")
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
    if html is not None:
        reads = (model, ledger_file, evaluation)
        check_output(html, overwrite=overwrite, reads=reads, option="--html")
    page = reports.model_report(
        mrf_matrix.load_model(model),
        ledger=None if ledger_file is None else mrf_matrix.PrivacyLedger.open(ledger_file),
        evaluation=None if evaluation is None else read_evaluation(evaluation),
        model_hash=hash_of(model),
    )
    if as_json:
        click.echo(json.dumps(page.to_dict(), indent=2))
    if html is not None or not as_json:
        show(page, html)


def show(page: "reports.ReportPage", html: Path | None) -> None:
    if html is None:
        console().print(str(page), soft_wrap=True)
        return
    write_text(page.to_html(), html)
    note(f"Written: {html}")
    for one in page.warnings:
        note(f"WARNING: {one}")


def read_evaluation(file: Path) -> dict[str, object]:
    content = content_of(file, LONGEST)
    try:
        found = parse_json(content)
    except ValueError as error:
        raise click.ClickException(
            f"--evaluation {file} is no JSON: expected what `mrf-matrix evaluate --output` wrote."
        ) from error
    return object_of(found, str(file), EVALUATION, optional={"model"})  # older ones name none


@click.command(name="ledger")
@click.argument("file", type=options.NEW)
@options.budget(
    "Total budget of a new ledger: pure DP, or with --delta (ε, δ)-DP.",
    "Total zCDP budget of a new ledger.",
)
@click.option(
    "--neighboring",
    type=click.Choice(options.NEIGHBORING),
    help="Neighbouring relation of a new ledger [default: add_remove].",
)
@click.option(
    "--delta",
    type=float,
    help="With --epsilon: δ of a new ledger's total. Else: also show what was spent as (ε, δ), for "
    "this δ.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@click.option(
    "--html", type=options.NEW, help="Write a page: one file that loads nothing, and prints."
)
@options.overwrite("a page")
@user_errors
def show_ledger(
    file: Path,
    epsilon: object,
    rho: object,
    neighboring: str | None,
    delta: float | None,
    as_json: bool,
    html: Path | None,
    overwrite: bool,
) -> None:
    """Show the ledger in FILE, or start one there with --epsilon (and --delta) or --rho.

    A total of (ε, δ) takes releases by Laplace and by Gaussian noise, a pure one by Laplace only.
    `mrf-matrix fit --ledger FILE` charges it, and refuses what does not fit before any record is
    read.
    """
    total, at = (delta, None) if epsilon is not None else (None, delta)
    if html is not None:
        if as_json or at is not None:
            raise click.ClickException(
                "--html: give it without --json and without --delta to show."
            )
        check_output(html, overwrite=overwrite, reads=(file,), option="--html")
    if not file.exists() and epsilon is None and rho is None:
        raise click.ClickException(f"{file} does not exist: start it with --epsilon or --rho.")
    ledger = mrf_matrix.PrivacyLedger.open(
        file, epsilon=epsilon, rho=rho, delta=total, neighboring=neighboring
    )
    spent = None if at is None else ledger.spent_epsilon(at)
    if as_json:
        click.echo(ledger.to_json(), file=sys.stdout)
        return
    if html is not None:
        show(reports.ledger_report(ledger), html)
        return
    console().print(ledger)
    if spent is not None:
        console().print(f"Spent so far, together: (ε = {spent:.4g}, δ = {at:g})-DP.")
