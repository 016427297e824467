"""Everything that keeps a file of records from a domain, at once, without a value of any record."""

from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path

from mrf_matrix.base.checks import shown
from mrf_matrix.base.fields import FieldError, list_of
from mrf_matrix.base.file_format import PLAIN, FileFormat
from mrf_matrix.datasets.files import (
    PARQUET_ENDINGS,
    csv_chunks,
    header_hint,
    header_of,
    read_parquet,
)
from mrf_matrix.domain import Attribute, Domain, DomainError
from mrf_matrix.domain.columns import as_any_column, check_repeats
from mrf_matrix.domain.encoding import encode_column
from mrf_matrix.domain.errors import SEE_VALUES
from mrf_matrix.domain.serialization import (
    MAX_ATTRIBUTES,
    attribute_from_dict,
    domain_json,
    domain_object,
)


def domain_problems(path: "str | PathLike[str]") -> list[str]:
    """Return everything that is wrong with a domain file, an entry each; none if it is valid."""
    try:
        data = domain_json(path)
    except DomainError as error:
        return [str(error)]
    try:
        given = domain_object(data, "the file")
        items = list_of(given["attributes"], "attributes", MAX_ATTRIBUTES)
    except FieldError as error:
        return [f"{path} is no domain: {error}"]
    named = [(f"attribute {number}", item) for number, item in enumerate(items)]
    if given.get("target") is not None:
        named.append(("target", given["target"]))
    problems = []
    for where, item in named:
        try:
            attribute_from_dict(item, where)
        except (FieldError, DomainError) as error:
            problems.append(str(error))
    if not problems:
        try:
            Domain.from_dict(data)
        except DomainError as error:
            problems.append(str(error))
    return problems


def record_problems(
    path: "str | PathLike[str]", domain: Domain, file_format: FileFormat = PLAIN
) -> list[str]:
    """Return everything that keeps a CSV, TSV or Parquet file from a domain, by column.

    The file is read to its end; of a column the first problem of each kind is told. No entry holds
    a value, a place or a number of records, but that a problem is there is told of the records.
    """
    file = Path(path)
    header = header_of(file, file_format)
    wanted = [*domain.attributes, *([domain.target] if domain.target else [])]
    check_repeats(header, [one.name for one in wanted], str(file))
    there = set(header)
    absent = [one.name for one in wanted if one.name not in there]
    problems = {f"{file} lacks the column {shown(name)}.": None for name in absent}
    if absent and (hint := header_hint(file, absent, file_format)):
        problems[f"{file}:{hint}"] = None
    present = [one for one in wanted if one.name in there]
    try:
        for columns in _parts(file, file_format):
            for attribute in present:
                problem = _problem(attribute, columns[attribute.name], file_format.decimal)
                if problem is not None:
                    problems[problem] = None
    except DomainError as error:  # of the file itself: nothing after it can be read
        problems[str(error)] = None
    return list(problems)


def _parts(file: Path, file_format: FileFormat) -> Iterator[dict[str, object]]:
    if file.name.lower().endswith(PARQUET_ENDINGS):
        yield dict(read_parquet(file))
    else:
        for texts in csv_chunks(file, file_format):
            yield dict(texts)


def _problem(attribute: Attribute, values: object, decimal: str) -> str | None:
    try:
        column = as_any_column(attribute.name, values)
        if isinstance(values, tuple):  # text of a CSV file
            column = replace(column, source="text", decimal=decimal)
        encode_column(attribute, column)
    except DomainError as error:
        return str(error).removesuffix(SEE_VALUES).strip()
    return None
