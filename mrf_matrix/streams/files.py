"""Files of records, read a part at a time: Parquet, CSV, and folders of them.

*CSV files, read a part at a time by pyarrow or polars, or by Python where neither is there.* All
read text, and one rule says what a text means: that of `mrf_matrix.domain.encoding`. A domain's
categories are looked up once for each distinct text of a part, not once a record.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mrf_matrix.base.file_format import PLAIN, FileFormat
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
from mrf_matrix.domain.columns import Column, as_any_column, check_repeats, read_columns
from mrf_matrix.domain.encoding import positions_of, text_column, value_reader

if TYPE_CHECKING:
    from polars import DataFrame, LazyFrame, Series
    from pyarrow import DictionaryArray, StringArray, Table


PART_BYTES = 2**23  # bytes of text in memory at a time

PLAIN_NUMBER = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"
"""Texts that Arrow reads as Python does."""

PART_RECORDS = 2**16  # records in memory at a time, where a reader counts records

Attributes = Sequence[Attribute]


@dataclass(frozen=True)
class Source:
    """A CSV file whose header was read: columns are read by their places, whatever their names."""

    path: Path
    file_format: FileFormat
    n_columns: int
    attributes: Attributes
    places: tuple[int, ...]  # of the attributes

    @property
    def names(self) -> list[str]:
        """Names for all columns, which a header may repeat or leave out."""
        return list(map(str, range(self.n_columns)))

    @property
    def used_names(self) -> list[str]:
        """Those names that the attributes have."""
        return list(map(str, self.places))

    @property
    def separator(self) -> str:
        return self.file_format.separator_of(self.path)


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
    places = tuple(names.index(name) for name in used)
    source = Source(path, file_format, len(names), attributes, places)
    quotes = find_quotes(path, file_format)
    if quotes != "none":
        skips = quotes == "after blanks"
        with csv_errors(path, file_format), open_text(path, file_format) as file:
            CsvRecords(file, path, file_format, skips_blanks=skips).check_quotes()
    if is_plain and quotes != "after blanks":
        if find_spec("pyarrow"):
            return _read_by_arrow(source)
        suits_polars = file_format.is_utf8 and quotes == "none"
        if suits_polars and find_spec("polars") and has_complete_records(source):
            return _read_by_polars(source)
    return _read_by_python(source)


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


def has_complete_records(source: Source) -> bool:
    """Whether polars finds every record, with text in its last column.

    It fills records that have too few fields with nulls, and says nothing, has nulls for empty
    lines as for records of empty fields, and takes a carriage return alone for no end of a line:
    where there are such, Python reads the file, and counts the fields.
    """
    import polars

    if not has_newlines_only(source):
        return False
    try:
        last = polars.col(source.names[-1])
        missing = _polars_records(source).select(last.is_null().any())
        return not missing.collect(engine="streaming").item()
    except polars.exceptions.PolarsError:
        return False


def has_newlines_only(source: Source) -> bool:
    """Whether every carriage return stands before a newline."""
    with open_text(source.path, source.file_format) as file:
        while block := file.read(2**20):
            if block.endswith("\r"):
                block += file.read(1)
            if "\r" in block.replace("\r\n", ""):
                return False
    return True


def _polars_records(source: Source) -> "LazyFrame":
    import polars

    schema = dict.fromkeys(source.names, polars.String())
    return polars.scan_csv(
        source.path, has_header=False, skip_rows=1, schema=schema, separator=source.separator
    )


def _read_by_python(source: Source) -> Iterator[list[Column]]:
    decimal = source.file_format.decimal
    for columns in csv_chunks(source.path, source.file_format):
        yield [text_column(one, columns[one.name], decimal) for one in source.attributes]


def _read_by_arrow(source: Source) -> Iterator[list[Column]]:
    """Read by pyarrow: numbers as text, categories as positions among distinct texts."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    texts, numbers = pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), pyarrow.string()
    decimal = source.file_format.decimal
    kinds = [numbers if one.is_numeric and decimal == "." else texts for one in source.attributes]
    convert = arrow_csv.ConvertOptions(
        include_columns=source.used_names,
        column_types=dict(zip(source.used_names, kinds, strict=True)),
        null_values=[],
        strings_can_be_null=False,
    )
    try:
        with arrow_csv.open_csv(
            pyarrow.input_stream(str(source.path), compression="detect"),
            read_options=arrow_csv.ReadOptions(
                block_size=PART_BYTES,
                column_names=source.names,
                skip_rows=1,
                encoding="utf8" if source.file_format.is_utf8 else source.file_format.encoding,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=source.separator, newlines_in_values=True
            ),
            convert_options=convert,
        ) as reader:
            for batch in reader:
                yield [
                    _arrow_column(one, batch.column(place), decimal)
                    for place, one in enumerate(source.attributes)
                ]
    except pyarrow.ArrowInvalid as error:
        raise _format_error(source, error) from None


def _read_by_polars(source: Source) -> Iterator[list[Column]]:
    import polars

    decimal = source.file_format.decimal
    lazy = _polars_records(source).select(source.used_names).fill_null("")
    try:
        for part in lazy.collect_batches(chunk_size=PART_RECORDS):
            yield [
                _polars_column(one, part[name], decimal)
                for one, name in zip(source.attributes, source.used_names, strict=True)
            ]
    except polars.exceptions.ComputeError as error:
        raise _format_error(source, error) from None


def _polars_column(attribute: Attribute, texts: "Series", decimal: str) -> Column:
    if attribute.is_numeric and decimal == ".":
        return text_column(attribute, texts.to_list())
    return replace(as_any_column(attribute.name, texts), source="text", decimal=decimal)


def _format_error(source: Source, error: Exception) -> DomainError:
    """Return the error without the record that a library quotes in it."""
    if "columns, got" in str(error):
        row = str(error).rpartition(": ")[2].split(source.separator)
        return DomainError(
            f"{source.path}: a record has more or fewer fields than the header.", values=row
        )
    return DomainError(f"{not_csv_message(source.path, source.file_format)} with a header row.")


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
