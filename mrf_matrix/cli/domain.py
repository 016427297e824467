"""`mrf-matrix domain` and `datasets`: write, check and show a domain; list data sets by name."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mrf_matrix.base import escape_controls
from mrf_matrix.base.fields import FieldError
from mrf_matrix.base.files import FileFormat
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import to_option_words, user_errors
from mrf_matrix.cli.paid_release import check_output
from mrf_matrix.cli.screen import advise, console, note, note_ignored, table
from mrf_matrix.datasets import list_datasets
from mrf_matrix.datasets.files import header_of, is_data_file
from mrf_matrix.datasets.registry import public_domain, public_records
from mrf_matrix.datasets.tables import domain_problems, record_problems
from mrf_matrix.domain import Domain, DomainError
from mrf_matrix.domain.columns import check_repeats
from mrf_matrix.domain.serialization import (
    attribute_from_dict,
    attribute_row,
    domain_schema,
    readable_count,
)
from mrf_matrix.domain.shorthand import HELP, attribute_from_words


@click.group(name="domain")
def command() -> None:
    """Write, check and show the public domain: which records can exist at all."""


@command.command(name="new")
@click.argument("file", type=options.NEW)
@click.option(
    "--header",
    type=options.FILE,
    help="CSV, TSV or Parquet file whose column names are asked about. Its records are not read.",
)
@click.option("--target", help="Column of the classes.")
@click.option(
    "--set",
    "told",
    multiple=True,
    metavar="NAME=WORDS",
    help="An attribute, as it is typed at the prompt: --set 'age=0..120 by 10'. Repeat it.",
)
@options.overwrite("a file")
@user_errors
@options.file_format()
def new_domain(
    file: Path,
    header: Path | None,
    target: str | None,
    told: tuple[str, ...],
    overwrite: bool,
    file_format: FileFormat,
) -> None:
    """Write the domain FILE by questions, one a column.

    Answer from the data dictionary, the law or common knowledge, never by looking at the records.
    """
    check_output(file, overwrite=overwrite, reads=(header,), option="FILE")
    answers = dict(_split_setting(one) for one in told)
    names = header_of(header, file_format) if header is not None else list(answers)
    if header is not None and is_a_record(names):
        raise click.ClickException(
            f"{header}: its first line has numbers where names are expected, as a record has, and "
            "a domain is public. Give the file a line of column names, or describe columns by "
            "--set without --header."
        )
    names = unique_names(names, list(answers), header)
    unknown = [name for name in answers if name not in names]
    if unknown:
        raise click.ClickException(f"--set {unknown[0]}: {header} has no such column.")
    asks = [name for name in names if name not in answers] or ([""] if not names else [])
    if asks:
        click.echo(f"What may a column hold? From public knowledge, not from the records.\n{HELP}")
    found: dict[str, Any] = {}
    for name in names:
        found[name] = (
            attribute_from_words(name, answers[name]) if name in answers else _ask_attribute(name)
        )
    while header is None and not told and (name := _ask("column", "", show_default=False)):
        found[name] = _ask_attribute(name)
    known = {name: one for name, one in found.items() if one is not None}
    if target is None:
        target = _ask("column of the classes", next(reversed(known), ""))
    if target not in known:
        raise click.ClickException(f"--target {target}: expected one of {', '.join(known)}.")
    classes = known.pop(target)
    try:
        domain = Domain.from_dict({"attributes": list(known.values()), "target": classes})
    except DomainError as error:
        raise click.ClickException(to_option_words(str(error))) from error
    _save_domain(domain, file)


@command.command(name="check")
@click.argument("file", type=options.FILE)
@click.argument("data", type=options.FILE, required=False)
@click.option("--n-records", type=click.IntRange(min=1), help="Public number of records.")
@user_errors
@options.file_format()
def check(file: Path, data: Path | None, n_records: int | None, file_format: FileFormat) -> None:
    """Check the domain FILE, and the records of DATA against it: all problems at once.

    No value of a record is shown, nor how many there are. That a column does not fit is told of
    the records, to you: keep it from others.
    """
    problems = domain_problems(file)
    screen = console()
    if not problems:
        domain = Domain.load(file)
        if domain.target is None:
            problems.append(f"{file} has no target: its classes are public, and needed.")
        if data is not None:
            if not is_data_file(data.name):
                raise click.ClickException(f"{data}: expected a CSV, TSV or Parquet file.")
            problems += record_problems(data, domain, file_format)
            note_ignored(str(data), domain, file_format)
            note("Whether records fit is told of the records, to you: keep it from others.")
        advise(domain, n_records)
    for problem in problems:
        screen.print(f"- {to_option_words(problem)}", soft_wrap=True)
    if problems:
        raise click.ClickException(f"{len(problems)} problem{'s' * (len(problems) > 1)} in all.")
    fits = "" if data is None else f", and {data} fits it"
    screen.print(f"{file} is a valid domain{fits}.", soft_wrap=True)


@command.command(name="show")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, short forms written out.")
@user_errors
def show(file: str, as_json: bool) -> None:
    """Show the domain FILE, or that of a data set by name: attributes, codes, cells."""
    domain, label = public_domain(file)
    if as_json:
        text = json.dumps(domain.to_dict(), indent=2, ensure_ascii=False)
        click.echo(text, file=sys.stdout)  # which takes every character
        return
    made = table(f"Domain {label}: {readable_count(domain.size)} cells", *HEADER, words=1)
    for attribute in domain.attributes:
        made.add_row(*attribute_row(attribute))
    if domain.target is not None:
        made.add_row(*attribute_row(domain.target, " (target)"))
    made.columns[-1].justify, made.columns[-1].no_wrap = "left", False
    console().print(made)
    advise(domain, public_records(file))


HEADER = ("attribute", "codes", "labels")


@command.command(name="schema")
def schema() -> None:
    """Print the JSON Schema of domain files, with which editors complete and check them."""
    click.echo(json.dumps(domain_schema(), indent=2))


def unique_names(names: Sequence[str], answers: Sequence[str], header: Path | None) -> list[str]:
    """Return the names that stand once, with a note on the others, which no domain can mean."""
    check_repeats(names, answers, str(header))
    counts = Counter(names)
    if "" in counts:
        note("A column has no name, as an index of rows: it is left out.")
    if repeated := [name for name, count in counts.items() if name and count > 1]:
        note(f"More than one column is called {', '.join(repeated)}: they are left out.")
    return [name for name in names if name and counts[name] == 1]


def is_a_record(names: Sequence[str]) -> bool:
    """Tell whether column names look like a record: numbers, other than the columns' places."""
    places = {str(place) for place in range(len(names) + 1)}
    return any(_is_number(name) for name in names if name not in places)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _split_setting(text: str) -> tuple[str, str]:
    name, equals, words = text.partition("=")
    if not (name and equals):
        raise click.ClickException(f"--set {text}: expected NAME=WORDS, as 'age=0..120 by 10'.")
    return name.strip(), words


def _ask(question: str, default: str | None = None, *, show_default: bool = True) -> str:
    try:
        return str(click.prompt(escape_controls(question), default, show_default=show_default))
    except click.Abort as error:
        raise click.ClickException(
            "the answers ended before the questions: nothing was written. Answer them all, or "
            "give some ahead by --set NAME=WORDS."
        ) from error


def _ask_attribute(name: str) -> Any:
    while True:
        try:
            found = attribute_from_words(name, _ask(name))
            if found is not None:
                attribute_from_dict(found, name)
            return found
        except (DomainError, FieldError) as error:
            click.echo(escape_controls(to_option_words(str(error)), keep="\n"))


def _save_domain(domain: Domain, file: Path) -> None:
    domain.save(file)
    console().print(f"Written: {file}", soft_wrap=True)
    advise(domain)


@click.command(name="datasets")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def show_datasets(as_json: bool) -> None:
    """List the data sets known by name, with source and licence."""
    rows = list_datasets()
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    cells = (
        (
            row.name,
            str(row.n_records),
            str(row.n_attributes),
            str(row.n_classes),
            f"{row.n_cells:,}" if row.n_cells < 10**9 else f"{row.n_cells:.2g}",
        )
        for row in rows
    )
    header = ("name", "records", "attributes", "classes", "cells")
    console().print(table("Data sets", *header, rows=cells))
    for row in rows:
        console().print(f"{row.name}: {row.source}; {row.licence}")
