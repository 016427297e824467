"""CSV and Parquet files, and the values of their columns."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from io import BytesIO, TextIOWrapper
from os import PathLike
from pathlib import Path
from typing import IO, BinaryIO, Literal, cast

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.checks import name_some
from mrf_matrix.base.files import (
    IN_WORDS,
    PLAIN,
    TAB_ENDINGS,
    FileFormat,
    open_regular,
    separator_hint,
)
from mrf_matrix.domain import Attribute, Domain, DomainError
from mrf_matrix.domain.attribute import MISSING_MARKS
from mrf_matrix.domain.bins import number_in_text, numbers, value_array
from mrf_matrix.domain.columns import check_repeats, series_values
from mrf_matrix.domain.encoding import positions_of, read_column, text_column

CSV_ENDINGS, PARQUET_ENDINGS = (".csv", ".csv.gz", *TAB_ENDINGS), (".parquet", ".pq")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
CHUNK, CHUNK_CHARACTERS = 20_000, 2**26  # records, and their text, in memory at a time
LONGEST_RECORD = 2**24  # characters
MOST_COLUMNS = 100_000
Columns = dict[str, Values]
FrameLibrary = Literal["polars", "pyarrow"]
PARQUET_LIBRARIES: tuple[FrameLibrary, ...] = ("polars", "pyarrow")


def is_data_file(name: str) -> bool:
    """Whether a name means a file rather than a data set; spreadsheets are refused."""
    if name.lower().endswith(SPREADSHEETS):
        raise DomainError(
            f"{name} is a spreadsheet, which is not read. Save its sheet as CSV (UTF-8), and give "
            "that file: one header line, one record a line."
        )
    return name.lower().endswith((*CSV_ENDINGS, *PARQUET_ENDINGS))


def read_file(
    path: "str | PathLike[str]", domain: Domain | None, file_format: FileFormat = PLAIN
) -> Columns:
    file = Path(path)
    if file.name.lower().endswith(PARQUET_ENDINGS):
        target = () if domain is None or domain.target is None else (domain.target.name,)
        return read_parquet(file, None if domain is None else (*domain.names, *target))
    return read_csv(file, domain, file_format)


def read_parquet(path: Path, used: Sequence[str] | None = ()) -> Columns:
    """Read a Parquet file with the first installed library, or pyarrow where names are repeated.

    `used`: names that may not be repeated, None means all; of others the first stands for all.
    """
    import narwhals as nw

    library = parquet_library(f"{path}: reading")
    with parquet_errors(path, library):
        names = parquet_names(path, library)
        check_repeats(names, used, str(path))
        if len(first := {name: names.index(name) for name in names}) < len(names):
            from pyarrow import parquet

            whole = parquet.ParquetFile(path).read()
            frame = nw.from_native(whole.select(list(first.values())), eager_only=True)
        else:
            frame = nw.read_parquet(str(path), backend=library)
        return {name: series_values(frame[name]) for name in frame.columns}


def parquet_library(task: str) -> FrameLibrary:
    """Return the first installed library that reads and writes Parquet."""
    for library in PARQUET_LIBRARIES:
        if find_spec(library):
            return library
    raise DomainError(f"{task} Parquet needs polars or pyarrow; pip install polars.")


def parquet_names(path: Path, library: FrameLibrary) -> list[str]:
    """Return the names of a Parquet file's columns; other libraries read no repeated ones."""
    if find_spec("pyarrow"):
        from pyarrow import parquet

        return list(parquet.read_schema(path).names)
    import narwhals as nw

    return nw.scan_parquet(str(path), backend=library).collect_schema().names()


def given_columns(
    path: Path, names: Sequence[str], file_format: FileFormat = PLAIN
) -> dict[str, Sequence[object]]:
    """Return columns as they stand in a file: text of CSV, values of Parquet."""
    if path.name.lower().endswith(PARQUET_ENDINGS):
        found = read_parquet(path, names)
        return {name: found[name].tolist() for name in names}
    kept: dict[str, list[object]] = {name: [] for name in names}
    for columns in csv_chunks(path, file_format, names):
        for name in names:
            kept[name].extend(columns[name])
    return {**kept}


def parquet_bytes(columns: Mapping[str, Sequence[object]]) -> bytes:
    import narwhals as nw

    written = BytesIO()
    nw.from_dict(dict(columns), backend=parquet_library("writing")).write_parquet(written)
    return written.getvalue()


@contextmanager
def parquet_errors(path: Path, library: str) -> Iterator[None]:
    """Turn a library's errors into one that quotes nothing; ask first whether there is a file."""
    with open_regular(path):
        pass
    try:
        yield
    except DomainError:
        raise
    except Exception as error:
        if type(error).__name__ == "DuplicateError":  # polars', which tells no name
            raise DomainError(
                f"{path} has columns more than once. Rename or drop those that are not meant."
            ) from None
        raise DomainError(
            f"{path} is no Parquet file that {library} can read ({type(error).__name__}). Write it "
            "again, or convert it to CSV."
        ) from None


def read_csv(path: Path, domain: Domain | None, file_format: FileFormat = PLAIN) -> Columns:
    """Read a CSV file with a header row, whichever frame libraries are installed.

    Columns that the domain does not name come empty, or as a guess where there is no domain; those
    without a name are left out. In memory are one chunk of text and the finished columns (8 bytes a
    value; equal texts of a chunk are stored once).

    Raises DomainError if the file is no CSV of this format, repeats a name that is used, a record
    has too few or too many fields, or a number is expected and not found.
    """
    attributes = [*(domain.attributes if domain else ()), domain.target if domain else None]
    known = {attribute.name: attribute for attribute in attributes if attribute is not None}
    parts: dict[str, list[Values]] = {}
    decimal = file_format.decimal
    for columns in csv_chunks(path, file_format, None if domain is None else tuple(known)):
        for name, texts in columns.items():
            if domain is None:
                values = np.array(texts, dtype=object)
            elif name in known:
                values = typed_column(known[name], texts, decimal)
            else:
                values = np.empty(0)  # the domain has no use for it
            parts.setdefault(name, []).append(values)
    found = {name: concatenated_parts(listed) for name, listed in parts.items() if name}
    if domain is not None:
        return found
    return {name: guessed_column(values.tolist(), decimal) for name, values in found.items()}


@contextmanager
def open_text(path: Path, file_format: FileFormat = PLAIN) -> Iterator[IO[str]]:
    """Give a CSV file, compressed or not, as text.

    It is read twice at least, header and records, and so is no pipe.
    """
    with open_regular(path) as file, ExitStack() as stack:
        raw: BinaryIO = file
        if path.name.lower().endswith(".gz"):
            raw = cast(BinaryIO, stack.enter_context(gzip.open(file)))
        yield stack.enter_context(TextIOWrapper(raw, encoding=file_format.codec, newline=""))


def too_long_error(path: Path) -> DomainError:
    return DomainError(
        f"{path}: a record has more than {LONGEST_RECORD} characters. Expected a CSV file, one "
        f"record a line."
    )


class CsvRecords:
    """The records of a CSV file as text, of bounded length each: a file may be one endless line."""

    def __init__(
        self, file: IO[str], path: Path, file_format: FileFormat, *, skips_blanks: bool = True
    ) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_RECORD))  # as of other readers
        self._file, self._path = file, path
        self._separator = file_format.separator_of(path)
        self._record = self._part = 0  # characters of this record, and of the part read last
        self._lines: list[str] = []  # of this record
        self._width: int | None = None  # fields of a record, once the header is known
        self._ahead = ""  # a line that was read, and is yet to be parted
        self._rows = csv.reader(
            self, delimiter=self._separator, skipinitialspace=skips_blanks, strict=True
        )

    def __iter__(self) -> Iterator[str]:
        while line := self._ahead or self._file.readline(LONGEST_RECORD + 1):
            self._ahead = ""
            self._record += len(line)
            self._part += len(line)
            if self._record > LONGEST_RECORD:
                raise too_long_error(self._path)
            self._lines.append(line)
            yield line

    def next(self) -> list[str] | None:
        """Return the next record, None at the end.

        A quoted field may run over lines, but over none that is a record by itself: a stray quote
        would swallow the records that follow.
        """
        self._record = 0
        self._lines = []
        found = next(self._rows, None)
        if self._width is not None and len(self._lines) > 1:
            parts = self._width - 1
            if any(line.count(self._separator) == parts for line in self._lines[1:]):
                raise csv.Error(
                    "a quote is opened and closed around a line that looks like another record; "
                    "close it, or write two quotes for one"
                )
        return found

    @property
    def n_lines(self) -> int:
        """Number of lines of the record that was read last."""
        return len(self._lines)

    def has_more(self) -> bool:
        """Whether any text follows the header: some libraries refuse files without a record."""
        return bool(self._file.readline(LONGEST_RECORD + 1))

    def header(self, used: Sequence[str] | None = ()) -> list[str]:
        """Return the names in the first line, of which those `used` are there once at most.

        `used`: None means all that are no blanks.
        """
        try:
            names = [name.strip() for name in self.next() or []]
        except csv.Error as error:
            hint = separator_hint("".join(self._lines), self._separator, used or ())
            raise csv.Error(f"{error}.{hint}") from None
        if not names or len(names) > MOST_COLUMNS:
            raise DomainError(
                f"{self._path}: expected a first line of column names, at most {MOST_COLUMNS}.",
                values=names,
            )
        check_repeats(names, used, str(self._path))
        self._width = len(names)
        return names

    def hint(self, absent: Sequence[str]) -> str:
        """Return what to say of a header without some columns, once it is read."""
        return separator_hint("".join(self._lines), self._separator, absent)

    def missing_columns_error(self, absent: Sequence[str], names: Sequence[str]) -> DomainError:
        return missing_columns_error(self._path, absent, names, self.hint(absent))

    def check_quotes(self) -> None:
        """Read the records that hold quotes, and refuse one whose quotes are not closed."""
        self.header()
        while line := self._file.readline(LONGEST_RECORD + 1):
            if '"' in line:
                self._ahead = line
                self.next()

    def part(self) -> list[list[str]]:
        """Return some records, as many as memory suits; none at the end."""
        self._part = 0
        found: list[list[str]] = []
        while len(found) < CHUNK and self._part < CHUNK_CHARACTERS:
            if (record := self.next()) is None:
                break
            found.append(record)
        return found


def missing_columns_error(
    path: Path, absent: Sequence[str], names: Sequence[str], hint: str = ""
) -> DomainError:
    return DomainError(
        f"{path} lacks the columns {name_some(absent)}.{hint} What it has is in the error's "
        "attribute values: in a file without a header, names are a record.",
        values=names,
    )


def header_of(path: Path, file_format: FileFormat = PLAIN) -> list[str]:
    if path.name.lower().endswith(PARQUET_ENDINGS):
        library = parquet_library(f"{path}: reading")
        with parquet_errors(path, library):
            return parquet_names(path, library)
    with csv_errors(path, file_format), open_text(path, file_format) as file:
        return CsvRecords(file, path, file_format).header()


def header_hint(path: Path, absent: Sequence[str], file_format: FileFormat = PLAIN) -> str:
    """Return what to say of a CSV file's header without some columns; empty of Parquet files."""
    if path.name.lower().endswith(PARQUET_ENDINGS):
        return ""
    with csv_errors(path, file_format), open_text(path, file_format) as file:
        records = CsvRecords(file, path, file_format)
        records.header()
        return records.hint(absent)


def csv_chunks(
    path: Path, file_format: FileFormat = PLAIN, used: Sequence[str] | None = ()
) -> Iterator[dict[str, Sequence[str]]]:
    """Yield the columns of some records at a time; at least once.

    `used`: names that may not be repeated; None means all.
    """
    with csv_errors(path, file_format), open_text(path, file_format) as file:
        records = CsvRecords(file, path, file_format)
        header = records.header(used)
        if absent := [name for name in used or () if name not in header]:
            raise records.missing_columns_error(absent, header)
        first = True
        while (part := records.part()) or first:
            yield columns_of_rows(header, part, path)
            first = False


@contextmanager
def csv_errors(path: Path, file_format: FileFormat = PLAIN) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:  # whose texts quote nothing
        raise DomainError(f"{not_csv_message(path, file_format)}: {error}") from error
    except UnicodeError:  # whose text quotes bytes
        raise DomainError(
            f"{not_csv_message(path, file_format)}: its bytes are none. Give the encoding that it "
            f"was written in, for example encoding='latin-1', 'cp1252' or 'utf-16', {IN_WORDS}."
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DomainError(
            f"{not_csv_message(path, file_format)} ({type(error).__name__}). Write it again, or "
            f"convert it."
        ) from None


def not_csv_message(path: Path, file_format: FileFormat) -> str:
    """Return the beginning of what is said of a file that is no CSV of a format."""
    encoding = "UTF-8" if file_format.is_utf8 else file_format.encoding
    return f"{path} is not a CSV file in {encoding}"


def columns_of_rows(
    header: list[str], rows: list[list[str]], path: Path
) -> dict[str, Sequence[str]]:
    if set(map(len, rows)) - {0, len(header)}:
        row = next(r for r in rows if r and len(r) != len(header))
        raise DomainError(
            f"{path}: a record has more or fewer fields than the {len(header)} of the header.",
            values=row,
        )
    columns = list(zip(*filter(None, rows), strict=True)) or [()] * len(header)
    return dict(zip(header, columns, strict=True))


def typed_column(attribute: Attribute, texts: Sequence[str], decimal: str = ".") -> Values:
    """Return the values of a text column in the types of an attribute, missing ones None or NaN.

    Texts without a meaning stay as they are, so that encoding judges them.

    Raises DomainError if bins of numbers meet a text that is no number.
    """
    column = read_column(attribute, text_column(attribute, texts, decimal))
    if attribute.is_numeric:
        values = numbers(attribute, column).astype(np.float64)
        return values if column.missing is None else np.where(column.missing, np.nan, values)
    return np.asarray(value_array(column.levels or ())[column.values])


def guessed_column(texts: Sequence[str], decimal: str = ".") -> Values:
    """Return a column as numbers if every text is one, else as text: for a domain from data."""
    positions, distinct = positions_of(texts)
    present = [text.strip() for text in distinct]
    marked = [None if text in MISSING_MARKS else text for text in present]
    numbers = [None if text is None else number_in_text(text, decimal) for text in marked]
    numeric = all(
        n is not None for n, text in zip(numbers, marked, strict=True) if text is not None
    )
    return np.asarray(value_array(numbers if numeric else marked)[positions])


def concatenated_parts(parts: list[Values]) -> Values:
    """Concatenate parts of one column; where their types differ, values keep their own."""
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)
