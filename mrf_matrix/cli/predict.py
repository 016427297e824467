"""`mrf-matrix predict`: classes for a file of records, from a model file."""

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from mrf_matrix.base import whole_file
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import VOTINGS
from mrf_matrix.cli.paid_release import check_output
from mrf_matrix.cli.screen import console

if TYPE_CHECKING:
    from mrf_matrix.domain import Domain


@click.command(name="predict")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("data")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="CSV file to write, whole or not at all [default: standard output].",
)
@click.option("--overwrite", is_flag=True, help="Replace an --output that is there already.")
@click.option(
    "--proba",
    is_flag=True,
    help="Add each class's share of the votes, or its probability where the model knows it.",
)
@click.option(
    "--voting",
    type=click.Choice(VOTINGS),
    help="Voting rule instead of the model's: it costs no budget.",
)
@click.option(
    "--abstain",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Leave labels empty that noise may have chosen, for example 0.95: of posterior forests, "
    "whose files hold the release.",
)
@user_errors
def command(
    model: Path,
    data: str,
    output: Path | None,
    overwrite: bool,
    proba: bool,
    voting: str | None,
    abstain: float | None,
) -> None:
    """Predict the classes of DATA with MODEL, a file from `mrf-matrix fit`.

    DATA is a CSV or Parquet file with the columns of the model's domain, in any order; others are
    ignored. Prediction costs no budget. A model file from anyone is safe to read; its privacy
    report is its writer's word.
    """
    from mrf_matrix.files.models import load_model

    if output is not None:
        check_output(output, overwrite=overwrite, reads=(model, data))
    forest = load_model(model)
    if voting is not None:
        if "voting" not in forest.get_params(deep=False):
            raise click.ClickException(
                f"--voting {voting}: {model} holds a posterior forest, which has one rule only. "
                f"Leave it out."
            )
        forest.set_params(voting=voting)
    records = columns_of(data, forest.domain_)
    labels = (
        forest.predict(records).tolist()
        if abstain is None
        else labels_or_blanks(forest, records, abstain)
    )
    shares = forest.predict_proba(records) if proba else None
    target = forest.domain_.required_target().name
    header = [target]
    if shares is not None:
        header += [f"{target}={label}" for label in forest.classes_.tolist()]
    with open_output(output) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for number, label in enumerate(labels):
            writer.writerow([label, *([] if shares is None else shares[number].tolist())])
    if output is not None:
        empty = f", {labels.count('')} of them empty" if abstain is not None else ""
        console().print(
            f"Written: {output}, {len(labels)} predictions{empty}", markup=False, soft_wrap=True
        )


def labels_or_blanks(forest: Any, records: Any, level: float) -> list[Any]:
    """Return labels, empty where the model abstains."""
    labels = forest.predict_or_abstain(records, level)
    return ["" if label is None else label for label in labels.tolist()]


def columns_of(data: str, domain: "Domain") -> Any:
    """Return the columns of a file, or the records of a data set known by name."""
    from mrf_matrix.datasets import load_dataset
    from mrf_matrix.datasets.files import is_data_file, read_file

    if not is_data_file(data):
        return load_dataset(data, domain).X
    found = read_file(data, domain)
    return {name: values for name, values in found.items() if name in domain.names}


@contextmanager
def open_output(output: Path | None) -> Iterator[TextIO]:
    """Give a file that is written whole or not at all, or standard output."""
    if output is None:
        yield sys.stdout
        return
    with whole_file(output) as whole:
        file = TextIOWrapper(whole, encoding="utf-8", newline="")
        yield file
        file.detach()  # what is written out; the file itself is not ours to close
