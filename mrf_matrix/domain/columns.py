"""Records as columns: frames through narwhals, arrays by position, mappings by name; codes."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import AnyInts, Bools, Values
from mrf_matrix.base.checks import DomainError, PrivateValue, name_some, short_repr

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.typing import IntoDataFrame

Records: TypeAlias = "IntoDataFrame | ArrayLike"
"""Records as users hold them: a frame of any library, or an array."""

Scalar: TypeAlias = str | int | float | bool

Outside: TypeAlias = Literal["refuse", "clip", "missing"]  # what becomes of values without a code

SHORT_FLOATS = ("float16", "float32", "halffloat", "float")  # as NumPy, pandas and Arrow name them

Factors: TypeAlias = tuple[Values, tuple[object, ...]]

Table: TypeAlias = "Mapping[str, object] | Values | nw.DataFrame[Any]"


@dataclass(frozen=True, eq=False, repr=False)
class Column(PrivateValue):
    """The values of one column, in the form that is cheapest to look up."""

    name: str  # name of the attribute
    values: Values
    """Shape (N,): numbers, booleans, fixed-width text or objects; with ``levels``, positions in
    them."""
    levels: tuple[object, ...] | None = None  # the distinct values of a factorised column
    missing: Bools | None = None
    """Shape (N,): null entries, whose ``values`` mean nothing. NaN and None are found besides."""
    source: str = ""  # the column's type as its owner knows it, for messages
    decimal: str = "."  # the mark by which its texts write decimals

    def __post_init__(self) -> None:
        if self.values.ndim != 1:
            raise DomainError(
                f"Column {short_repr(self.name)}: {self.values.ndim} dimensions; expected one."
            )


def plain_array(name: str, values: object) -> Values:
    """Return what was given as an ndarray, or refuse by name what is masked or sparse.

    By the rule of both packages: `strategies.operators.base.arrays.plain_array`.
    """
    if type(values) is np.ndarray:  # what it is already, and needs no SciPy to be told from others
        return values
    from strategies.operators.base.arrays import plain_array as checked  # loads SciPy

    return checked(name, values)


def checked_codes(
    codes: object,
    sizes: Sequence[int],
    names: Sequence[str] | None = None,
    *,
    least: int = 0,
    argument: str = "codes",
) -> AnyInts:
    """Return codes as an integer array (N, d), column i from `least` to ``sizes[i] - 1``.

    `codes`: encoded records, or decision paths, where -1 means "free"; `names`: of the attributes,
    for the message; `argument`: what the caller calls the codes.
    """
    array = plain_array(argument, codes)
    if array.ndim != 2 or array.shape[1] != len(sizes) or array.dtype.kind not in "iu":
        raise DomainError(
            f"{argument} has the wrong shape, or type {array.dtype}: expected integers of shape "
            f"(rows, {len(sizes)}), one column an attribute. Encode records with domain.encode(X)."
        )
    if len(array):
        outside = (array.min(axis=0) < least) | (array.max(axis=0) >= np.asarray(sizes))
        if outside.any():
            i = int(outside.argmax())
            column = array[:, i]
            raise DomainError(
                f"{argument} of attribute {names[i] if names else i!r} leave the domain: expected "
                f"{least} to {sizes[i] - 1}. Encode records with domain.encode(X).",
                values=column[(column < least) | (column >= sizes[i])].tolist(),
            )
    return array


def match_key(value: Scalar) -> tuple[str, Scalar]:
    """Return what values are compared by: numbers by value, strings and booleans apart."""
    if isinstance(value, bool | np.bool_):
        return "bool", bool(value)
    return ("str", value) if isinstance(value, str) else ("number", value)


def type_name(dtype: object) -> str:
    """Return the name of a column's type alone: widths and categories come from the values."""
    if not isinstance(dtype, np.dtype):
        return type(dtype).__name__
    return {"U": "text", "S": "bytes", "V": "records"}.get(dtype.kind, str(dtype))


def as_array_column(name: str, values: object) -> Column:
    array = values if isinstance(values, np.ndarray) else object_array(name, values)
    fields = array.dtype.names or ()
    if len(fields) == 1:  # as a frame of one column
        array = array[fields[0]]
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        return Column(name, np.asarray(array.data), missing=mask, source=type_name(array.dtype))
    return Column(name, array, source=type_name(array.dtype))


def object_array(name: str, values: object) -> Values:
    """Return a list as an array that keeps numbers, strings and booleans apart."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise DomainError(
            f"Column {short_repr(name)}: got {type(values).__name__}; expected an array, series or "
            f"list."
        )
    array = np.empty(len(values), dtype=object)
    try:
        array[:] = values
    except ValueError:  # whose text tells the lengths
        raise DomainError(
            f"Column {short_repr(name)} holds lists; expected one value a record."
        ) from None
    return array


def series_values(series: "nw.Series[Any]") -> Values:
    """Return a series as an array; texts as objects, for NumPy's own lose NULs at their end."""
    values = np.asarray(series.to_numpy())
    return values if values.dtype.kind != "U" else object_array(series.name, series.to_list())


def as_series_column(name: str, series: "nw.Series[Any]") -> Column:
    import narwhals as nw

    dtype = series.dtype
    is_text = dtype in (nw.String, nw.Categorical, nw.Enum)
    if is_text and (factors := factorise(series)) is not None:
        return Column(name, *factors, source=type_name(dtype))
    if dtype.is_decimal():  # libraries' own casts are off by a last digit: .7 is no float 7 * .1
        return Column(name, np.array([*series.to_list(), None], object)[:-1], source="Decimal")
    if type_name(dtype) in ("Int128", "UInt128"):
        series = series.cast(nw.Float64)
    if dtype.is_temporal():
        if dtype == nw.Datetime and getattr(dtype, "time_zone", None):
            series = series.dt.replace_time_zone(None)  # the day on the wall, as a text has it
        values = series.to_numpy()  # pandas' and polars' times, which objects of them are not
        return Column(name, np.asarray(values), source=type_name(dtype))
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        found = np.asarray(series.to_numpy())
        kept = found if found.dtype.kind in "biuf" else found.astype(object)  # of sparse columns
        return Column(name, kept, source=type_name(dtype))
    if not series.null_count():
        return Column(name, series.to_numpy(), source=type_name(dtype))
    null = series.is_null()
    filled = series.fill_null(False if dtype == nw.Boolean else 0)
    return Column(name, filled.to_numpy(), missing=null.to_numpy(), source=type_name(dtype))


def factorise(series: "nw.Series[Any]") -> Factors | None:
    """Return positions (-1 where null) and distinct values of text, None by unknown libraries.

    By each library's own hash table; none is imported, for the series brings its methods along.
    """
    native = series.to_native()
    if series.implementation.is_pandas_like():
        codes, levels = native.factorize()
        return np.asarray(codes), short_floats(np.asarray(levels)) or tuple(levels)
    if series.implementation.is_pyarrow():
        return arrow_factors(native)
    if series.implementation.is_polars():
        return polars_factors(series)
    return None


def arrow_factors(native: Any) -> Factors:
    """Factorise an Arrow chunked array; chunks may come with dictionaries of their own."""
    encoded = native.dictionary_encode().unify_dictionaries().combine_chunks()
    if hasattr(encoded, "chunks"):  # older pyarrow keeps a chunked array, of at most one chunk
        if encoded.num_chunks == 0:
            return np.empty(0, dtype=np.int32), ()
        encoded = encoded.chunk(0)
    known = encoded.dictionary
    levels = short_floats(known) or tuple(known.to_pylist())
    return encoded.indices.cast("int64").fill_null(-1).to_numpy(), levels


def short_floats(levels: Any) -> tuple[object, ...]:
    """Return floats below 64 bits as such, for a longer one is another number; empty for others."""
    if str(getattr(levels, "dtype", getattr(levels, "type", ""))).lower() not in SHORT_FLOATS:
        return ()
    return tuple(np.asarray(levels))


def polars_factors(series: "nw.Series[Any]") -> Factors:
    """Factorise a polars series by the physical numbers of its categorical form.

    What those numbers index differs between polars' versions, so a level is read from the last
    row that has its number.
    """
    import narwhals as nw

    categorical = series.cast(nw.Categorical) if series.dtype == nw.String else series
    native = categorical.to_native()
    physical = native.to_physical()
    null = physical.is_null()
    rows = np.arange(len(series))
    numbers = physical.fill_null(0).to_numpy().astype(np.int64)
    if null.any():
        kept = ~null.to_numpy()
        rows, present = rows[kept], numbers[kept]
    else:
        kept, present = None, numbers
    last_row = np.full(int(present.max(initial=0)) + 1, -1)
    last_row[present] = rows
    used = np.flatnonzero(last_row >= 0)
    position = np.full(len(last_row), -1, dtype=np.int32)
    position[used] = np.arange(len(used))
    codes = position[numbers]
    if kept is not None:
        codes[~kept] = -1
    return codes, tuple(series[last_row[used].tolist()].to_list())


def read_columns(records: object, names: Sequence[str], extra: str = "error") -> list[Column]:
    """Return the named columns of records, in that order.

    `records`: frames, mappings and structured arrays are matched by name, the others by position;
    `names`: columns wanted; `extra` {"error", "ignore"}: what happens to columns that are not
    wanted.

    Raises DomainError if a column is missing, repeated, or not wanted, or the records have no table
    shape.
    """
    table = checked_table(records, names, extra)
    if isinstance(table, Mapping):
        return [as_any_column(name, table[name]) for name in names]
    if not isinstance(table, np.ndarray):
        return [as_series_column(name, table.get_column(name)) for name in names]
    if names_of(table) is not None:
        return [as_array_column(name, table[name]) for name in names]
    return [as_array_column(name, table[:, i].copy()) for i, name in enumerate(names)]


def checked_table(records: object, names: Sequence[str], extra: str | None = None) -> Table:
    """Return records as a table that has the named columns, or refuse them as `read_columns`.

    No value is looked at.
    """
    if extra not in ("error", "ignore", None):
        raise DomainError(f"extra={short_repr(extra)}; expected 'error' or 'ignore'.")
    table = as_table(without_repeats(records, names, extra))
    got = names_of(table)
    if got is not None:
        check_columns(got, names, extra)
    elif isinstance(table, np.ndarray):
        check_shape(table, names)
    return table


def names_of(table: Table) -> list[object] | None:
    if isinstance(table, np.ndarray):
        named = table.dtype.names is not None and table.ndim == 1
        return list(table.dtype.names or ()) if named else None
    return list(table) if isinstance(table, Mapping) else list(table.columns)


def as_table(records: object) -> Table:
    """Return records as a mapping, an array or a frame, whichever they are, or refuse them."""
    if isinstance(records, Mapping | np.ndarray):
        return records
    frame = as_frame(records)
    if frame is not None:
        return frame
    if isinstance(records, Sequence) and not isinstance(records, str | bytes):
        return rows_as_array(records)
    raise DomainError(
        f"Records of type {type(records).__name__}; expected a pandas, polars or Arrow table in "
        "memory, a NumPy array, or a mapping of column names to arrays. Collect lazy frames and "
        "densify sparse matrices first."
    )


def as_frame(records: object) -> "nw.DataFrame[Any] | None":
    """Return records as a narwhals frame, None if they are no frame in memory."""
    import narwhals as nw
    from narwhals.exceptions import NarwhalsError

    try:
        frame = nw.from_native(records, eager_only=True, pass_through=True)
        repeated = isinstance(frame, nw.DataFrame) and len(set(frame.columns)) < frame.shape[1]
    except NarwhalsError:  # its words may quote names, which a file without a header takes from
        repeated = True  # a record
    if repeated:
        raise DomainError("Records repeat column names; rename them.")
    return frame if isinstance(frame, nw.DataFrame) else None


def without_repeats(
    records: Any, used: Sequence[str] | None, extra: str | None = "ignore"
) -> object:
    """Return a frame without columns of repeated names, which no domain can mean; others as is.

    Raises DomainError if a repeated name is `used` (None means all), or `extra` is not "ignore".
    """
    is_labelled = hasattr(records, "iloc") and hasattr(records, "columns")  # as pandas' are
    if not is_labelled and not hasattr(records, "column_names"):  # as Arrow's are
        return records
    got = list(records.columns if is_labelled else records.column_names)
    if len(set(got)) == len(got):
        return records
    check_repeats(got, used)
    if extra != "ignore":
        check_columns(got, used or (), extra)
    counts = Counter(got)
    kept = [place for place, name in enumerate(got) if counts[name] == 1]
    return records.iloc[:, kept] if is_labelled else records.select(kept)


def as_any_column(name: str, values: object) -> Column:
    if isinstance(values, np.ndarray | list | tuple):
        return as_array_column(name, values)
    import narwhals as nw

    values = _as_series(values)
    found = nw.from_native(values, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(found, nw.DataFrame):
        if found.shape[1] != 1:
            raise DomainError(
                f"Column {short_repr(name)}: got a frame of {found.shape[1]} columns; expected one."
            )
        found = found.get_column(found.columns[0])
    if isinstance(found, nw.Series):
        return as_series_column(name, found)
    return as_array_column(name, values)


def _as_series(values: Any) -> object:
    """Return a library's array or index as its series, which narwhals knows; others as they are."""
    library = type(values).__module__.partition(".")[0]  # who brings one has it loaded
    if library == "pyarrow" and hasattr(values, "dictionary_encode"):
        chunks = values.chunks if hasattr(values, "chunks") else [values]
        return sys.modules[library].chunked_array(chunks, type=values.type)
    if library == "pandas" and not hasattr(values, "iloc"):
        return sys.modules[library].Series(values)
    return values


def check_shape(array: Values, names: Sequence[str]) -> None:
    if array.ndim != 2:
        raise DomainError(
            f"Records are an array of {array.ndim} dimensions; expected two (records, attributes). "
            "Reshape one record with X.reshape(1, -1)."
        )
    if array.shape[1] != len(names):
        raise DomainError(
            f"Records have {array.shape[1]} columns; expected {len(names)}, in the order "
            f"{name_some(names)}. Arrays are matched by position."
        )


def rows_as_array(rows: Sequence[object]) -> Values:
    """Return a list of rows as an object array, which keeps numbers and strings apart."""
    if not rows:
        raise DomainError("Records are an empty list; expected rows, or an array of shape (0, d).")
    lengths = {len(row) if isinstance(row, Sequence | np.ndarray) else -1 for row in rows}
    if len(lengths) != 1 or -1 in lengths or any(isinstance(row, str) for row in rows):
        raise DomainError(
            f"Records are a list of {type(rows[0]).__name__} of unequal or no length; expected "
            "rows of one length."
        )
    array = np.empty((len(rows), lengths.pop()), dtype=object)
    try:
        for i, row in enumerate(rows):
            array[i] = row
    except ValueError:  # whose text tells the lengths
        raise DomainError(
            "Records are rows whose values are lists; expected one value a column."
        ) from None
    return array


def check_repeats(
    got: Sequence[object], used: Sequence[str] | None = None, where: str = "Records"
) -> None:
    """Refuse repeated column names that are used, by name; the others no message shows.

    `used`: None means all that are no blanks.
    """
    have = "have" if where == "Records" else "has"
    repeated = [name for name, count in Counter(got).items() if count > 1]
    if used is None:
        if told := [name for name in repeated if name]:
            raise DomainError(
                f"{where} {have} repeated column names; expected distinct ones: rename them.",
                values=told,
            )
        return
    if told := [name for name in used if name in repeated]:
        raise DomainError(
            f"{where} {have} the columns {name_some(told)} more than once. Rename or drop those "
            "that are not meant."
        )


def check_columns(
    got: Sequence[object], names: Sequence[str], extra: str | None, where: str = "Records"
) -> None:
    """Refuse missing and unwanted column names, and wanted ones that are repeated.

    No message shows a name that is not wanted: in a file without a header, names are a record.
    """
    lack, have = ("lack", "have") if where == "Records" else ("lacks", "has")
    check_repeats(got, names, where)
    there, wanted = set(got), set(names)
    unwanted = [name for name in got if name not in wanted]
    absent = [name for name in names if name not in there]
    if absent:
        raise DomainError(
            f"{where} {lack} the columns {name_some(absent)}. Frames are matched by column name: "
            "rename the columns, or pass a NumPy array, matched by position. Other names that are "
            "there stand in the error's attribute values.",
            values=unwanted,
        )
    if unwanted and extra != "ignore":
        choice = "" if extra is None else ", or give extra='ignore'"  # whose caller takes it
        raise DomainError(
            f"{where} {have} columns that are not in the domain, named in the error's attribute "
            "values. Drop them, as X[list(domain.names)] does (the target is passed "
            f"apart){choice}.",
            values=unwanted,
        )
