"""Files of records, read a part at a time: Parquet, CSV, and folders of them."""

from collections.abc import Iterator
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from mrf_matrix.base.file_format import PLAIN, FileFormat
from mrf_matrix.datasets.files import (
    CSV_ENDINGS,
    PARQUET_ENDINGS,
    is_data_file,
    lacking,
    parquet_errors,
)
from mrf_matrix.domain import Domain, DomainError
from mrf_matrix.domain.columns import Column, check_repeats, read_columns
from mrf_matrix.streams.csv_files import csv_columns

if TYPE_CHECKING:
    from polars import DataFrame
    from pyarrow import Table

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
    """Return the endings of the files that can be read, for messages."""
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
    """Read by pyarrow; text comes as positions in a dictionary, and pages as they are needed."""
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
        raise lacking(path, absent, got)
