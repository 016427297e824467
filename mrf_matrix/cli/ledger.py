"""`mrf-matrix ledger`: start a ledger in a file, or show what was spent from it."""

import sys
from pathlib import Path

import click

from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import NEIGHBORING, NEW, budget_options, overwrite_option
from mrf_matrix.cli.pages.report import show
from mrf_matrix.cli.paid_release import check_output
from mrf_matrix.cli.screen import console


@click.command(name="ledger")
@click.argument("file", type=NEW)
@budget_options(
    "Total budget of a new ledger: pure DP, or with --delta (ε, δ)-DP.",
    "Total zCDP budget of a new ledger.",
)
@click.option(
    "--neighboring",
    type=click.Choice(NEIGHBORING),
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
    "--html",
    type=NEW,
    help="Write a page: one file that loads nothing, and prints.",
)
@overwrite_option("a page")
@user_errors
def command(
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
    from mrf_matrix.mechanisms import PrivacyLedger
    from mrf_matrix.reports import ledger_report

    total, at = (delta, None) if epsilon is not None else (None, delta)
    if html is not None:
        if as_json or at is not None:
            raise click.ClickException(
                "--html: give it without --json and without --delta to show."
            )
        check_output(html, overwrite=overwrite, reads=(file,), option="--html")
    if not file.exists() and epsilon is None and rho is None:
        raise click.ClickException(f"{file} does not exist: start it with --epsilon or --rho.")
    ledger = PrivacyLedger.open(
        file, epsilon=epsilon, rho=rho, delta=total, neighboring=neighboring
    )
    spent = None if at is None else ledger.spent_epsilon(at)
    if as_json:
        click.echo(ledger.to_json(), file=sys.stdout)
        return
    if html is not None:
        show(ledger_report(ledger), html)
        return
    console().print(ledger)
    if spent is not None:
        console().print(f"Spent so far, together: (ε = {spent:.4g}, δ = {at:g})-DP.")
