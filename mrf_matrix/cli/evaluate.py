"""`mrf-matrix evaluate`: accuracy, AUC and calibration of a model on private test records."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

import mrf_matrix
from mrf_matrix import study
from mrf_matrix.base.files import FileFormat, hash_of
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.paid_release import Rescue, check_output, rescue_on_error
from mrf_matrix.cli.screen import console, note, note_ignored, write_text
from mrf_matrix.datasets import load_dataset
from mrf_matrix.study.private_evaluation import evaluation_budget


@click.command(name="evaluate")
@click.argument("model", type=options.FILE)
@click.argument("data")
@options.budget("Pure-DP budget of the test records.", "zCDP budget instead, with Gaussian noise.")
@options.delta()
@options.neighboring()
@options.ledger("Ledger of the test records to charge, from `mrf-matrix ledger`.")
@click.option("--n-bins", default=20, help="Bins of the probability.")
@click.option(
    "--threshold",
    type=float,
    help="Probability above which the second of two classes is said. [default: 0.5]",
)
@click.option("--level", default=0.95, help="Level of the intervals.")
@click.option(
    "--output",
    type=options.NEW,
    help="JSON file to keep the evaluation in: made again, it costs budget again.",
)
@options.overwrite("an --output")
@click.option("--json", "as_json", is_flag=True, help="Print the evaluation as JSON.")
@user_errors
@options.file_format()
def command(
    model: Path,
    data: str,
    ledger_file: Path | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    file_format: FileFormat,
    **settings: Any,
) -> None:
    """Evaluate MODEL, a file from `mrf-matrix fit`, on the private test records of DATA.

    DATA is a CSV or Parquet file with the columns of the model's domain and its classes. One small
    histogram of predicted probabilities by class is released with exact noise; every figure and
    interval follows from it. There is no default budget: figures without noise show the records.
    """
    terms = ("epsilon", "delta", "rho", "neighboring")
    budget = evaluation_budget(**{name: settings[name] for name in terms})
    if output is not None:
        check_output(output, overwrite=overwrite, reads=(model, data, ledger_file))
    ledger = None if ledger_file is None else mrf_matrix.PrivacyLedger.open(ledger_file)
    if ledger is not None:  # refused before the records are so much as read
        ledger.check(budget, f"evaluation of {model.name}", neighboring=settings["neighboring"])
    classifier = mrf_matrix.load_model(model)
    note_ignored(data, classifier.domain_, file_format)
    records = load_dataset(data, classifier.domain_, extra="ignore", file_format=file_format)
    settings["model_hash"] = hash_of(model)
    rescue = Rescue("evaluation", output, ledger_file, overwrite=overwrite)
    with rescue_on_error(rescue):
        found = study.evaluate(classifier, records.X, records.y, ledger=ledger, **settings)
        record = json.dumps(found.to_dict(), indent=2)
        write = partial(write_text, f"{record}\n")
        if output is None:
            rescue.unwritten = write
        else:
            rescue.write(write)
            rescue.settle()
        show(found, record, ledger, output, as_json=as_json)


def show(
    found: "study.PrivateEvaluation",
    record: str,
    ledger: "mrf_matrix.PrivacyLedger | None",
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        click.echo(record)
    else:
        console().print(found)
        if ledger is not None:
            console().print(ledger)
    if sys.stdout is not None:
        sys.stdout.flush()
    if output is not None:
        note(f"Written: {output}")
