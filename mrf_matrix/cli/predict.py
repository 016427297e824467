"""`mrf-matrix predict`: classes for a file of records, from a model file."""

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import click

import mrf_matrix
from mrf_matrix.base import whole_file
from mrf_matrix.base.files import PLAIN, FileFormat
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.paid_release import check_output
from mrf_matrix.cli.screen import note, note_ignored, write_text
from mrf_matrix.datasets import load_dataset
from mrf_matrix.datasets.files import (
    PARQUET_ENDINGS,
    SPREADSHEETS,
    given_columns,
    header_of,
    is_data_file,
    parquet_bytes,
    read_file,
)
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import Outside, check_repeats
from mrf_matrix.study.table_figures import ProbabilityGrid


@click.command(name="predict")
@click.argument("model", type=options.FILE)
@click.argument("data")
@click.option(
    "--output",
    type=options.NEW,
    help="CSV, TSV or Parquet file to write, whole or not at all [default: standard output].",
)
@click.option(
    "--keep",
    callback=options.comma_words,
    metavar="NAMES",
    help="Columns of DATA to copy before the predictions, separated by commas: patient_id.",
)
@options.overwrite("an --output")
@click.option(
    "--proba",
    is_flag=True,
    help="Add each class's share of the votes, or its probability where the model knows it.",
)
@click.option(
    "--voting",
    type=click.Choice(options.VOTINGS),
    help="Voting rule instead of the model's: it costs no budget.",
)
@click.option(
    "--abstain",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Leave labels empty that noise may have chosen, for example 0.95: of forests "
    "whose files hold the release.",
)
@click.option(
    "--threshold",
    type=float,
    help="Probability above which the second of two classes is said, as in evaluate: it costs no "
    "budget. [default: the more probable class]",
)
@click.option(
    "--outside",
    type=click.Choice(["refuse", "clip", "missing"]),
    default="refuse",
    help="What becomes of values without a code, dates after the last edge say: clip takes the "
    "nearest bin, missing the code of missing values. It costs no budget.",
)
@user_errors
@options.file_format()
def command(
    model: Path,
    data: str,
    output: Path | None,
    overwrite: bool,
    proba: bool,
    keep: list[str] | None,
    voting: str | None,
    abstain: float | None,
    threshold: float | None,
    outside: "Outside",
    file_format: FileFormat,
) -> None:
    """Predict the classes of DATA with MODEL, a file from `mrf-matrix fit`.

    DATA is a CSV, TSV or Parquet file with the columns of the model's domain, in any order; others
    are ignored. Predictions stand in its order, one a record. Prediction costs no budget. A model
    file from anyone is safe to read; its privacy report is its writer's word.
    """
    if output is not None:
        if output.name.lower().endswith(SPREADSHEETS):
            raise click.ClickException(
                f"--output {output}: spreadsheets are not written; expected an ending .csv, .tsv "
                "or .parquet."
            )
        check_output(output, overwrite=overwrite, reads=(model, data))
    forest = mrf_matrix.load_model(model)
    if voting is not None:
        try:
            forest = forest.voted_by(voting)
        except ValueError as error:
            raise click.ClickException(f"--voting {voting}: {error}") from error
    check_threshold(threshold, len(forest.classes_), abstain)
    target = forest.domain_.required_target().name
    made = [target, *(f"{target}={label}" for label in forest.classes_.tolist() if proba)]
    kept = columns_to_keep(data, keep or [], made, file_format)
    note_ignored(data, forest.domain_, file_format)
    given = read_columns(data, forest.domain_, file_format)
    records = forest.domain_.within(given, outside)
    shares: Any = forest.predict_proba(records) if proba or threshold is not None else None
    if threshold is not None:
        labels = forest.classes_[(shares[:, 1] > threshold).astype(int)].tolist()
    elif abstain is not None:
        found = forest.predict_or_abstain(records, abstain).tolist()
        labels = ["" if label is None else label for label in found]
    else:
        labels = forest.predict(records).tolist()
    written: dict[str, Sequence[object]] = {**kept, target: labels}
    if proba:
        written |= {name: shares[:, number].tolist() for number, name in enumerate(made[1:])}
    if len({len(values) for values in written.values()}) > 1:
        raise click.ClickException(f"{data} changed while it was read. Predict it again.")
    write_columns(written, output)
    if output is not None:
        empty = f", {labels.count('')} of them empty" if abstain is not None else ""
        note(f"Written: {output}, {len(labels)} predictions{empty}")


def check_threshold(threshold: float | None, n_classes: int, abstain: float | None) -> None:
    if threshold is None:
        return
    ProbabilityGrid.of(n_classes, 2, threshold)
    if abstain is not None:
        raise click.ClickException(
            f"--threshold {threshold:g} beside --abstain {abstain:g}, which withholds labels of "
            f"the more probable class: expected one of them. Leave the other out."
        )


def columns_to_keep(
    data: str, keep: Sequence[str], made: Sequence[str], file_format: FileFormat
) -> dict[str, Sequence[object]]:
    """Return columns of a file as they stand there, in its order; none has a name of `made`."""
    if not keep:
        return {}
    if not is_data_file(data):
        raise click.ClickException(f"--keep: {data} is no file. Leave it out.")
    header = header_of(Path(data), file_format)
    check_repeats(header, keep, data)
    absent = set(keep) - set(header)
    if absent:
        raise click.ClickException(f"--keep {', '.join(sorted(absent))}: no column of {data}.")
    if clash := set(keep) & set(made):
        raise click.ClickException(
            f"--keep {', '.join(sorted(clash))}: predictions have that name. Rename the column in "
            f"{data}."
        )
    return given_columns(Path(data), keep, file_format)


def write_columns(columns: Mapping[str, Sequence[object]], output: Path | None) -> None:
    """Write columns as CSV, TSV or Parquet, by the file's ending; as CSV to standard output."""
    if output is not None and output.name.lower().endswith(PARQUET_ENDINGS):
        content = parquet_bytes(columns)
        with whole_file(output) as whole:
            whole.write(content)
        return
    text = StringIO()
    delimiter = "," if output is None else PLAIN.separator_of(output)
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    if output is None:
        sys.stdout.write(text.getvalue())
    else:
        write_text(text.getvalue(), output)


def read_columns(data: str, domain: Domain, file_format: FileFormat) -> Any:
    if not is_data_file(data):
        return load_dataset(data, domain).X
    found = read_file(data, replace(domain, target=None), file_format)
    return {name: values for name, values in found.items() if name in domain.names}
