"""Files of records, read a part at a time: Parquet, CSV, and folders of them.

CSV files are read by pyarrow, or by Python where it is not there. Both read text, and one rule says
what a text means: that of `mrf_matrix.domain.encoding`. A domain's categories are looked up once
for each distinct text of a part, not once a record.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mrf_matrix.base.files import PLAIN, FileFormat
from mrf_matrix.datasets.files import (
    CSV_ENDINGS,
    LONGEST_RECORD,
    PARQUET_ENDINGS,
    CsvRecords,
    csv_chunks,
    csv_errors,
    is_data_file,
    missing_columns_error,
    not_csv_message,
    open_text,
    parquet_errors,
    too_long_error,
)
from mrf_matrix.domain import Attribute, Domain, DomainError
from mrf_matrix.domain.columns import Column, check_repeats, read_columns
from mrf_matrix.domain.encoding import positions_of, text_column, value_reader

if TYPE_CHECKING:
    from polars import DataFrame
    from pyarrow import DictionaryArray, StringArray, Table


PART_BYTES = 2**23  # bytes of text in memory at a time

PLAIN_NUMBER = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"
"""Texts that Arrow reads as Python does."""

Attributes = Sequence[Attribute]


def csv_columns(
    path: Path, attributes: Attributes, file_format: FileFormat = PLAIN
) -> Iterator[list[Column]]:
    """Yield the attributes' columns of some records at a time; at least once.

    Raises DomainError if the file is no CSV of this format, lacks a column or repeats it, a record
    has too few or too many fields, or a number is expected and not found.
    """
    used = [one.name for one in attributes]
    with csv_errors(path, file_format), open_text(path, file_format) as file:
        records = CsvRecords(file, path, file_format)
        names = records.header(used)
        if absent := [name for name in used if name not in names]:
            raise records.missing_columns_error(absent, names)
        is_plain = records.n_lines == 1 and records.has_more()
    if is_plain and find_spec("pyarrow"):
        quotes = find_quotes(path, file_format)
        if quotes == "fields":
            with csv_errors(path, file_format), open_text(path, file_format) as file:
                CsvRecords(file, path, file_format, skips_blanks=False).check_quotes()
        if quotes != "after blanks":
            return _read_by_arrow(path, attributes, file_format, names)
    return _read_by_python(path, attributes, file_format)


def find_quotes(
    path: Path, file_format: FileFormat = PLAIN
) -> Literal["none", "fields", "after blanks"]:
    """Return where quotes stand; after a blank Python's reader alone takes a field for quoted.

    Raises DomainError if a line is longer than a record may be.
    """
    last, line = "", 0
    found: Literal["none", "fields"] = "none"
    with csv_errors(path, file_format), open_text(path, file_format) as file:
        while block := file.read(2**20):
            if ' "' in last + block:
                return "after blanks"
            found = "fields" if '"' in block else found
            last, ends = block[-1], block.replace("\r", "\n")
            line += ends.find("\n") if "\n" in ends else len(ends)
            if line > LONGEST_RECORD:
                raise too_long_error(path)
            line = len(ends) - 1 - ends.rfind("\n") if "\n" in ends else line
    return found


def _read_by_python(
    path: Path, attributes: Attributes, file_format: FileFormat
) -> Iterator[list[Column]]:
    for columns in csv_chunks(path, file_format):
        yield [text_column(one, columns[one.name], file_format.decimal) for one in attributes]


def _read_by_arrow(
    path: Path, attributes: Attributes, file_format: FileFormat, header: list[str]
) -> Iterator[list[Column]]:
    """Read by pyarrow: numbers as text, categories as positions among distinct texts.

    Columns are called by their places, for a header may repeat names or leave them out.
    """
    import pyarrow
    from pyarrow import csv as arrow_csv

    texts, numbers = pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), pyarrow.string()
    decimal = file_format.decimal
    used = [str(header.index(one.name)) for one in attributes]
    kinds = [numbers if one.is_numeric and decimal == "." else texts for one in attributes]
    convert = arrow_csv.ConvertOptions(
        include_columns=used,
        column_types=dict(zip(used, kinds, strict=True)),
        null_values=[],
        strings_can_be_null=False,
    )
    try:
        with arrow_csv.open_csv(
            pyarrow.input_stream(str(path), compression="detect"),
            read_options=arrow_csv.ReadOptions(
                block_size=PART_BYTES,
                column_names=list(map(str, range(len(header)))),
                skip_rows=1,
                encoding="utf8" if file_format.is_utf8 else file_format.encoding,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=file_format.separator_of(path), newlines_in_values=True
            ),
            convert_options=convert,
        ) as reader:
            for batch in reader:
                yield [
                    _arrow_column(one, batch.column(place), decimal)
                    for place, one in enumerate(attributes)
                ]
    except pyarrow.ArrowInvalid as error:
        raise _format_error(path, file_format, error) from None


def _format_error(path: Path, file_format: FileFormat, error: Exception) -> DomainError:
    """Return the error without the record that a library quotes in it."""
    if "columns, got" in str(error):
        row = str(error).rpartition(": ")[2].split(file_format.separator_of(path))
        return DomainError(
            f"{path}: a record has more or fewer fields than the header.", values=row
        )
    return DomainError(f"{not_csv_message(path, file_format)} with a header row.")


def _arrow_column(
    attribute: Attribute, texts: "DictionaryArray | StringArray", decimal: str
) -> Column:
    """Return positions among distinct texts; of plain numbers themselves.

    Which is which is told text by text, so that no record decides how another is read.
    """
    if not attribute.is_numeric or decimal != ".":
        levels, places = tuple(texts.dictionary.to_pylist()), texts.indices.to_numpy()
        return Column(attribute.name, places, levels, source="text", decimal=decimal)
    import pyarrow
    from pyarrow import compute

    with suppress(pyarrow.ArrowInvalid):  # some are no numbers to Arrow: text by text then
        cast = compute.cast(texts, pyarrow.float64()).to_numpy()
        if not np.isnan(cast).any():  # Arrow reads "nan(3)" as one
            return Column(attribute.name, cast)
    is_plain = compute.match_substring_regex(texts, PLAIN_NUMBER)
    known = compute.if_else(is_plain, texts, None)
    plain = compute.cast(known, pyarrow.float64()).to_numpy(zero_copy_only=False)
    rest = np.flatnonzero(~is_plain.to_numpy(zero_copy_only=False))
    values = np.array(plain, dtype=np.float64)
    if not len(rest):
        return Column(attribute.name, values)
    others = texts.take(pyarrow.array(rest)).to_pylist()
    places, distinct = positions_of(others)
    found = list(map(value_reader(attribute), distinct))
    if not all(one is None or isinstance(one, int | float) for one in found):
        return text_column(attribute, texts.to_pylist())  # which encoding refuses
    values[rest] = np.array(found, dtype=np.float64)[places]
    return Column(attribute.name, values)


ReadColumns = list[Column]

PART = 2**18  # records of a Parquet file in memory at a time


def data_files(path: "str | PathLike[str]") -> list[Path]:
    """Return the CSV and Parquet files that a path means: itself, or all in a folder, by name.

    Names that begin with a dot or an underscore are passed over, as other readers of folders do.

    Raises
    ------
    DomainError
        If there is no such file.
    """
    place = Path(path)
    if place.is_dir():
        found = sorted(
            file
            for file in place.rglob("*")
            if file.is_file()
            and is_data_file(file.name)
            and not any(part.startswith((".", "_")) for part in file.relative_to(place).parts)
        )
        if found:
            return found
        raise DomainError(f"{place}: expected files {endings()} in this folder, and found none.")
    if not is_data_file(place.name):
        raise DomainError(f"{place}: expected a file {endings()}, or a folder of them.")
    if not place.exists():
        raise DomainError(f"{place}: there is no such file.")
    return [place]


def endings() -> str:
    return ", ".join((*CSV_ENDINGS, *PARQUET_ENDINGS))


def file_columns(
    file: "str | PathLike[str]", domain: Domain, file_format: FileFormat = PLAIN
) -> Iterator[ReadColumns]:
    """Yield the domain's columns of some records at a time, that of the classes last.

    Raises DomainError if the file lacks a column, cannot be read, or no installed library can read
    it.
    """
    path = Path(file)
    attributes = [*domain.attributes, domain.required_target()]
    if not path.name.lower().endswith(PARQUET_ENDINGS):
        yield from csv_columns(path, attributes, file_format)
        return
    names = [attribute.name for attribute in attributes]
    for part in _parquet_parts(path, names):
        yield read_columns(part, names)


def n_records_of(path: Path) -> int | None:
    """Return the number of records of a Parquet file, None of a CSV file: **private**."""
    if not path.name.lower().endswith(PARQUET_ENDINGS):
        return None
    if find_spec("pyarrow"):
        from pyarrow import parquet

        with parquet_errors(path, "pyarrow"):
            return int(parquet.read_metadata(path).num_rows)
    if find_spec("polars"):
        import polars

        with parquet_errors(path, "polars"):
            return int(polars.scan_parquet(path).select(polars.len()).collect().item())
    return None


def _parquet_parts(path: Path, names: list[str]) -> Iterator[object]:
    """Yield parts of a Parquet file as frames, by the first installed library that can."""
    for library, parts in (("pyarrow", _arrow_parts), ("polars", _polars_parts)):
        if find_spec(library):
            with parquet_errors(path, library):
                yield from parts(path, names)
            return
    raise DomainError(f"{path}: reading Parquet needs pyarrow or polars; pip install pyarrow.")


def _arrow_parts(path: Path, names: list[str]) -> "Iterator[Table]":
    import pyarrow
    from pyarrow import parquet

    schema = parquet.read_schema(path)
    _check_names(path, names, schema.names)
    texts = [
        name
        for name in names
        if pyarrow.types.is_string(schema.field(name).type)
        or pyarrow.types.is_large_string(schema.field(name).type)
    ]
    with parquet.ParquetFile(path, read_dictionary=texts, buffer_size=2**20) as file:
        for part in file.iter_batches(batch_size=PART, columns=names):
            yield pyarrow.Table.from_batches([part])


def _polars_parts(path: Path, names: list[str]) -> "Iterator[DataFrame]":
    import polars

    lazy = polars.scan_parquet(path)
    _check_names(path, names, lazy.collect_schema().names())
    size = n_records_of(path) or 0
    for start in range(0, max(size, 1), PART):
        yield lazy.select(names).slice(start, PART).collect()


def _check_names(path: Path, names: list[str], got: list[str]) -> None:
    check_repeats(got, names, str(path))
    absent = [name for name in names if name not in got]
    if absent:
        raise missing_columns_error(path, absent, got)
