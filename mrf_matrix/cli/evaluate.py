"""`mrf-matrix evaluate`: accuracy, AUC and calibration of a model on private test records."""

import json
from pathlib import Path
from typing import Any, NoReturn

import click

from mrf_matrix.base import whole_file
from mrf_matrix.base.held_signals import until_kept
from mrf_matrix.base.reading import hash_of
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import (
    FILE,
    NEW,
    budget_options,
    delta_option,
    ledger_option,
    neighboring_option,
    overwrite_option,
)
from mrf_matrix.cli.paid_release import Write, check_output, keep_file, kept_elsewhere, rescued
from mrf_matrix.cli.screen import console, note, note_ignored


@click.command(name="evaluate")
@click.argument("model", type=FILE)
@click.argument("data")
@budget_options("Pure-DP budget of the test records.", "zCDP budget instead, with Gaussian noise.")
@delta_option()
@neighboring_option()
@ledger_option("Ledger of the test records to charge, from `mrf-matrix ledger`.")
@click.option("--n-bins", default=20, show_default=True, help="Bins of the probability.")
@click.option(
    "--threshold",
    type=float,
    help="Probability above which the second of two classes is said. [default: 0.5]",
)
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option(
    "--output",
    type=NEW,
    help="JSON file to keep the evaluation in: made again, it costs budget again.",
)
@overwrite_option("an --output")
@click.option("--json", "as_json", is_flag=True, help="Print the evaluation as JSON.")
@user_errors
def command(
    model: Path,
    data: str,
    ledger_file: Path | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Evaluate MODEL, a file from `mrf-matrix fit`, on the private test records of DATA.

    DATA is a CSV or Parquet file with the columns of the model's domain and its classes. One small
    histogram of predicted probabilities by class is released with exact noise; every figure and
    interval follows from it. There is no default budget: figures without noise show the records.
    """
    from mrf_matrix.datasets import load_dataset
    from mrf_matrix.files.models import load_model
    from mrf_matrix.mechanisms import PrivacyLedger
    from mrf_matrix.study import evaluate
    from mrf_matrix.study.private_evaluation import evaluation_budget

    terms = ("epsilon", "delta", "rho", "neighboring")
    budget = evaluation_budget(**{name: settings[name] for name in terms})
    if output is not None:
        check_output(output, overwrite=overwrite, reads=(model, data, ledger_file))
    ledger = None if ledger_file is None else PrivacyLedger.open(ledger_file)
    if ledger is not None:  # refused before the records are so much as read
        ledger.check(budget, f"evaluation of {model.name}", neighboring=settings["neighboring"])
    classifier = load_model(model)
    note_ignored(data, classifier.domain_)
    records = load_dataset(data, classifier.domain_, extra="ignore")
    settings["model_hash"] = hash_of(model)
    with until_kept():
        kept_as = output or Path("evaluation.json")
        with rescued(kept_as, ledger_file):
            found = evaluate(classifier, records.X, records.y, ledger=ledger, **settings)
            record = json.dumps(found.to_dict(), indent=2)
        if output is not None:
            keep(record, output, ledger_file, overwrite=overwrite)
    try:
        if as_json:
            click.echo(record)
        else:
            console().print(found)
            if ledger is not None:
                console().print(ledger)
        if output is not None:
            note(f"Written: {output}")
    except (OSError, ValueError):  # nobody reads it, or not in these letters
        if output is None:
            _keep_elsewhere(record, kept_as, ledger_file, "What was evaluated could not be printed")
        raise


def keep(record: str, output: Path, ledger_file: Path | None, *, overwrite: bool) -> None:
    """Write the record before it is shown; elsewhere where that fails, for it was paid for."""
    try:
        keep_file(_writing(record), output, overwrite=overwrite)
    except (OSError, ValueError) as error:
        why = f"--output {output} could not be written ({error})"
        _keep_elsewhere(record, output, ledger_file, why)


def _writing(record: str) -> Write:
    def write(path: Path) -> None:
        with whole_file(path) as file:
            file.write(f"{record}\n".encode())

    return write


def _keep_elsewhere(record: str, output: Path, ledger_file: Path | None, why: str) -> NoReturn:
    place = kept_elsewhere(_writing(record), output, ledger_file)
    if place is None:
        click.echo(record)
        where = "it could be written nowhere else, and is printed above"
    else:
        where = f"the record is in {place}"
    raise click.ClickException(
        f"{why}. The budget is spent: {where}. Keep it, and do not evaluate again."
    )
