"""CSV files, read a part at a time by pyarrow or polars, or by Python where neither is there.

All read text, and one rule says what a text means: that of `mrf_matrix.domain.texts`. A domain's
categories are looked up once for each distinct text of a part, not once a record.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mrf_matrix.datasets.files import (
    LONGEST_RECORD,
    CsvRecords,
    check_header,
    csv_chunks,
    csv_errors,
    delimiter_of,
    opened,
    too_long,
)
from mrf_matrix.domain import Attribute, DomainError
from mrf_matrix.domain.columns import Column, as_any_column
from mrf_matrix.domain.errors import name_some
from mrf_matrix.domain.texts import meanings, positions_of, text_column

if TYPE_CHECKING:
    from polars import LazyFrame, Series
    from pyarrow import DictionaryArray, StringArray

PART_BYTES = 2**23  # bytes of text in memory at a time

PLAIN_NUMBER = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"
"""Texts that Arrow reads as Python does."""

PART_RECORDS = 2**16  # records in memory at a time, where a reader counts records

Attributes = Sequence[Attribute]


def csv_columns(path: Path, attributes: Attributes) -> Iterator[list[Column]]:
    """Yield the attributes' columns of some records at a time; at least once.

    Raises DomainError if the file is no CSV in UTF-8 with distinct column names, lacks a column, a
    record has too few or too many fields, or a number is expected and not found.
    """
    header = _header(path)
    names = [name.strip() for name in header]
    check_header(names, path)
    places = {name: place for place, name in enumerate(names)}
    absent = [one.name for one in attributes if one.name not in places]
    if absent:
        raise lacking(path, absent, names)
    raw = {one.name: header[places[one.name]] for one in attributes}
    quotes = quoting(path)
    if quotes != "none":
        with csv_errors(path), opened(path) as file:
            CsvRecords(file, path, skips_blanks=quotes == "after blanks").check_quotes()
    if quotes != "after blanks":
        if find_spec("pyarrow"):
            return _by_arrow(path, attributes, raw)
        if find_spec("polars") and quotes == "none" and all_records_end(path, header[-1]):
            return _by_polars(path, attributes, raw)
    return _by_python(path, attributes)


def _header(path: Path) -> list[str]:
    with csv_errors(path), opened(path) as file:
        return CsvRecords(file, path, skips_blanks=False).next() or []


def lacking(path: Path, absent: Sequence[str], names: Sequence[str]) -> DomainError:
    """Return the error of a file without some columns."""
    parted = len(names) == 1 and any(mark in names[0] for mark in ";\t|")
    hint = " Its first line has no comma: part its fields by commas." if parted else ""
    return DomainError(
        f"{path} lacks the columns {name_some(absent)}.{hint} What it has is in the error's "
        "attribute values: in a file without a header, names are a record.",
        values=names,
    )


def quoting(path: Path) -> Literal["none", "fields", "after blanks"]:
    """Return where quotes stand; after a blank Python's reader alone takes a field for quoted.

    Raises DomainError if a line is longer than a record may be.
    """
    last, line = "", 0
    found: Literal["none", "fields"] = "none"
    with csv_errors(path), opened(path) as file:
        while block := file.read(2**20):
            if ' "' in last + block:
                return "after blanks"
            found = "fields" if '"' in block else found
            last, ends = block[-1], block.replace("\r", "\n")
            line += ends.find("\n") if "\n" in ends else len(ends)
            if line > LONGEST_RECORD:
                raise too_long(path)
            line = len(ends) - 1 - ends.rfind("\n") if "\n" in ends else line
    return found


def all_records_end(path: Path, last: str) -> bool:
    """Whether polars finds text in the last column of every record.

    It fills records that have too few fields with nulls, and says nothing: where the last column
    is ever empty, Python reads the file, and counts the fields.
    """
    import polars

    try:
        missing = _polars_records(path).select(polars.col(last).is_null().any())
        return not missing.collect(engine="streaming").item()
    except polars.exceptions.PolarsError:
        return False


def _polars_records(path: Path) -> "LazyFrame":
    """Return all columns as text, without empty lines, which polars reads as nulls."""
    import polars

    empty = polars.all_horizontal(polars.all().is_null())
    return polars.scan_csv(path, infer_schema=False, separator=delimiter_of(path)).filter(~empty)


def _by_python(path: Path, attributes: Attributes) -> Iterator[list[Column]]:
    for columns in csv_chunks(path):
        yield [text_column(one, columns[one.name]) for one in attributes]


def _by_arrow(path: Path, attributes: Attributes, raw: dict[str, str]) -> Iterator[list[Column]]:
    """Read by pyarrow: numbers as text, categories as positions among distinct texts."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    kinds = {True: pyarrow.string(), False: pyarrow.dictionary(pyarrow.int32(), pyarrow.string())}
    convert = arrow_csv.ConvertOptions(
        include_columns=[raw[one.name] for one in attributes],
        column_types={raw[one.name]: kinds[one.is_numeric] for one in attributes},
        null_values=[],
        strings_can_be_null=False,
    )
    try:
        with arrow_csv.open_csv(
            pyarrow.input_stream(str(path), compression="detect"),
            read_options=arrow_csv.ReadOptions(block_size=PART_BYTES),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter_of(path), newlines_in_values=True
            ),
            convert_options=convert,
        ) as reader:
            for batch in reader:
                yield [
                    _arrow_column(one, batch.column(place)) for place, one in enumerate(attributes)
                ]
    except pyarrow.ArrowInvalid as error:
        raise _unreadable(path, error) from None


def _by_polars(path: Path, attributes: Attributes, raw: dict[str, str]) -> Iterator[list[Column]]:
    """Read by polars, all columns as text."""
    import polars

    columns = [raw[one.name] for one in attributes]
    lazy = _polars_records(path).fill_null("")
    try:
        for part in lazy.select(columns).collect_batches(chunk_size=PART_RECORDS):
            yield [_polars_column(one, part[raw[one.name]]) for one in attributes]
    except polars.exceptions.ComputeError as error:
        raise _unreadable(path, error) from None


def _polars_column(attribute: Attribute, texts: "Series") -> Column:
    if attribute.is_numeric:
        return text_column(attribute, texts.to_list())
    return replace(as_any_column(attribute.name, texts), source="text")


def _unreadable(path: Path, error: Exception) -> DomainError:
    """Return the error without the record that a library quotes in it."""
    if "columns, got" in str(error):
        row = str(error).rpartition(": ")[2].split(",")
        return DomainError(
            f"{path}: a record has more or fewer fields than the header.", values=row
        )
    return DomainError(f"{path} is not a CSV file in UTF-8 with a header row.")


def _arrow_column(attribute: Attribute, texts: "DictionaryArray | StringArray") -> Column:
    """Return positions among distinct texts; of plain numbers themselves.

    Which is which is told text by text, so that no record decides how another is read.
    """
    if not attribute.is_numeric:
        levels = tuple(texts.dictionary.to_pylist())
        return Column(attribute.name, texts.indices.to_numpy(), levels, source="text")
    import pyarrow
    from pyarrow import compute

    try:
        return Column(attribute.name, compute.cast(texts, pyarrow.float64()).to_numpy())
    except pyarrow.ArrowInvalid:  # some are no numbers to Arrow: text by text then
        pass
    is_plain = compute.match_substring_regex(texts, PLAIN_NUMBER)
    known = compute.if_else(is_plain, texts, None)
    plain = compute.cast(known, pyarrow.float64()).to_numpy(zero_copy_only=False)
    rest = np.flatnonzero(~is_plain.to_numpy(zero_copy_only=False))
    values = np.array(plain, dtype=np.float64)
    if not len(rest):
        return Column(attribute.name, values)
    others = texts.take(pyarrow.array(rest)).to_pylist()
    places, distinct = positions_of(others)
    found = list(map(meanings(attribute), distinct))
    if not all(one is None or isinstance(one, int | float) for one in found):
        return text_column(attribute, texts.to_pylist())  # which encoding refuses
    values[rest] = np.array(found, dtype=np.float64)[places]
    return Column(attribute.name, values)
