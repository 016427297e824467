"""Numbers and dates in bins: how each is read, the bin of it; and what codes stand for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Bools, Codes, Longs, Values
from mrf_matrix.base.checks import SEE_VALUES, DomainError, name_some, short_repr
from mrf_matrix.domain.attribute import (
    MISSING_MARKS,
    Attribute,
    is_missing,
    listed_categories,
    missing_marks,
    number_of,
    parsed_number,
)
from mrf_matrix.domain.attribute_parts import dates_of_days, day_or_none, days_of_times
from mrf_matrix.domain.columns import Column, checked_codes, plain_array

UNLISTED, ABSENT = -1, -2  # marks of a value that has no code yet

Reader = Callable[[object], object]


@dataclass(frozen=True)
class OtherNotation:
    """A number written otherwise than its file declares: by a point, where marks are commas."""

    text: str

    def __repr__(self) -> str:
        return repr(self.text)


def number_in_text(text: str, decimal: str) -> int | float | None:
    """Return the number that a text writes by a decimal mark; a comma leaves points no meaning.

    >>> number_in_text("1,5", ","), number_in_text("1.5", ","), number_in_text("1,5", ".")
    (1.5, None, None)
    """
    if decimal == ".":
        return parsed_number(text)
    return None if "." in text else parsed_number(text.replace(decimal, "."))


def number_reader(attribute: Attribute) -> Reader:
    marks, numbers = missing_marks(attribute)

    def read(value: object) -> object:
        if is_missing(value):
            return None
        number = number_of(value)
        if number is not None:
            return None if number in numbers else number
        text = value.strip() if isinstance(value, str) else None
        if text is not None and (text in marks or text.lower().lstrip("+-") == "nan"):
            return None
        return value

    return read


def date_reader(attribute: Attribute) -> Reader:
    """Return a reader of dates; a number is read by its digits, 20200131."""
    (marks, numbers), days = missing_marks(attribute), missing_days(attribute)

    def read(value: object) -> object:
        number = number_of(value)
        if number in numbers or (isinstance(value, str) and value.strip() in marks):
            return None
        written = value if number is None or isinstance(value, str) else str(number)
        day = day_or_none(written)
        return value if day is None else None if day in days else written

    return read


def missing_days(attribute: Attribute) -> frozenset[float]:
    """Return the marks of missing values that are dates, as days since 1970."""
    days = map(day_or_none, map(str, attribute.missing_values))
    return frozenset(one for one in days if one is not None)


def decimal_reader(inner: Reader, attribute: Attribute, decimal: str) -> Reader:
    """Return a reader of texts that write decimals by another mark than the point.

    A category or mark of missing values that is spelled so is itself. Text categories and groups
    of codes take points too, as text, which no mark changes.
    """
    listed = listed_categories(attribute)
    spelled = (*listed, *attribute.missing_values)
    own = {one.strip() for one in spelled if isinstance(one, str)}
    is_text = attribute.groups is not None or any(isinstance(one, str) for one in listed)

    def read(value: object) -> object:
        text = value.strip() if isinstance(value, str) else ""
        if not text or text in own:
            return inner(value)
        if number_in_text(text, decimal) is not None:
            return inner(text.replace(decimal, "."))
        is_number = "." in text and parsed_number(text) is not None
        return OtherNotation(text) if is_number and not is_text else inner(value)

    return read


def lenient_reader(inner: Reader, attribute: Attribute) -> Reader:
    """Return a reader to which what is no number, or no date, is missing."""

    def read(value: object) -> object:
        found = None if is_missing(value) else inner(value)
        known = number_of(found) if attribute.is_numeric else day_or_none(found)
        return None if known is None else found

    return read


FEW_EDGES = 32  # up to here counting edges below a value beats a binary search


def find_bins(attribute: Attribute, column: Column) -> Codes:
    """Find the bin of every value by counting the edges at or below it."""
    values = (days if attribute.is_date else numbers)(attribute, column)
    edges = np.asarray(attribute.numeric_edges, dtype=np.float64)
    inner = edges if attribute.outside == "open" else edges[1:-1]
    if len(inner) <= FEW_EDGES:
        below = np.zeros(len(values), dtype=np.int8)
        for edge in inner:
            below += values >= edge
        codes = below.astype(np.int32)
    else:
        codes = np.searchsorted(inner, values, side="right").astype(np.int32)
    if attribute.outside == "error":
        codes[~((values >= edges[0]) & (values <= edges[-1]))] = UNLISTED
    if values.dtype.kind == "f":
        codes[np.isnan(values)] = ABSENT
    return codes


def is_below(attribute: Attribute, column: Column) -> Bools:
    values = (days if attribute.is_date else numbers)(attribute, column)
    return np.asarray(values < attribute.numeric_edges[0])


def days(attribute: Attribute, column: Column) -> Values:
    """Return dates as days since 1970, missing ones as NaN; refuse what is no date."""
    if column.levels is None and column.values.dtype.kind == "M":
        return days_of_times(column.values)
    held = column.values.tolist() if column.levels is None else list(column.levels)
    found = [nan if is_missing(value) else day_or_none(value) for value in held]
    if None in found and attribute.unreadable == "missing":
        found = [nan if day is None else day for day in found]
    if None in found:
        wrong = [value for value, day in zip(held, found, strict=True) if day is None]
        raise DomainError(
            f"Column {short_repr(attribute.name)} ({column.source}) holds values where dates are "
            f"expected (edges {name_some(map(str, attribute.edges or ()))}) that are none. Write "
            f"them as 2020-01-31. {SEE_VALUES}",
            values=wrong,
        )
    array = np.array(found, dtype=np.float64)
    return array if column.levels is None else np.append(array, nan)[column.values]


def numbers(attribute: Attribute, column: Column) -> Values:
    """Return the values as numbers; refuse text and booleans."""
    if column.levels is None and column.values.dtype.kind in "iuf":
        return column.values
    if column.levels is not None:  # a level that no record has may be anything
        levels = np.array([*column.levels, None], dtype=object)
        used, found = np.zeros(len(levels), dtype=bool), np.full(len(levels), np.nan)
        used[column.values] = True
        used[-1] = False
        found[used] = floats_of_objects(attribute, levels[used], column.source)
        return np.asarray(found[column.values])
    raise not_numbers_error(attribute, column.source, column.values[:5].tolist())


MARKS = ", ".join(repr(mark) for mark in sorted(MISSING_MARKS))


def not_numbers_error(attribute: Attribute, source: str, values: Sequence[object]) -> DomainError:
    """Say that a numeric attribute met something else."""
    what = "holds text" if source == "text" else f"({source}) holds values"
    commas = (
        " Decimal commas of a file are read by decimal=',' in file_format=FileFormat(...)."
        if source == "text"
        else ""
    )
    return DomainError(
        f"Column {short_repr(attribute.name)} {what} where numbers are expected (edges "
        f"{name_some(attribute.edges or ())}). Correct them, or declare missing='category' with "
        f"missing_values; {MARKS} are missing already.{commas} {SEE_VALUES}",
        values=values,
    )


def floats_of_objects(attribute: Attribute, values: Values, source: str) -> Values:
    """Convert objects to floats, missing ones to NaN."""
    listed = values.tolist()
    kinds = set(map(type, listed))
    other = str | bytes | bool | np.bool_ | np.complexfloating | np.datetime64 | np.timedelta64
    wrong = {kind for kind in kinds if issubclass(kind, other)}
    if not wrong:
        try:
            floats = np.array([np.nan if is_missing(v) else v for v in listed], dtype=np.float64)
            if floats.ndim == 1:  # it is not for lists of one length
                return floats
        except (TypeError, ValueError, OverflowError):  # whose texts quote values
            pass
        wrong = kinds - {int, float} or kinds
    raise not_numbers_error(attribute, source, [v for v in listed if type(v) in wrong])


def decode_records(
    attributes: Sequence[Attribute], codes: ArrayLike, numeric: str, native: Any
) -> Any:
    """Return what codes of shape (N, d) stand for: a dict of columns, or a frame of a library.

    Raises DomainError if the codes are not integers of this shape, each among its attribute's
    codes.
    """
    sizes = tuple(attribute.size for attribute in attributes)
    names = tuple(attribute.name for attribute in attributes)
    checked = checked_codes(codes, sizes, names)
    columns = {
        attribute.name: decode_column(attribute, checked[:, i], numeric)
        for i, attribute in enumerate(attributes)
    }
    if native is None:
        return columns
    import narwhals as nw

    lists = {name: values.tolist() for name, values in columns.items()}
    return nw.from_dict(lists, backend=native).to_native()


def decode_labels(target: Attribute, codes: ArrayLike) -> Values:
    column = plain_array("codes", codes).reshape(-1, 1)
    checked = checked_codes(column, [target.size], [target.name])
    return np.asarray(value_array(target.labels)[checked[:, 0]])


def decode_column(attribute: Attribute, codes: Values, numeric: str) -> Values:
    if numeric not in ("interval", "midpoint"):
        raise DomainError(f"numeric={numeric!r}; expected 'interval' or 'midpoint'.")
    if attribute.is_binned and numeric == "midpoint":
        middles = np.append(midpoints(attribute), np.nan)  # the appended one is the missing code
        return np.asarray((dates_of_days(middles) if attribute.is_date else middles)[codes])
    if isinstance(attribute.categories, range) and attribute.size == attribute.n_known:
        integers: Longs = codes.astype(np.int64) + attribute.categories.start
        return integers
    values: list[object] = list(attribute.labels)
    if attribute.missing_code is not None:
        values[-1] = None
    return np.asarray(value_array(values)[codes])


def midpoints(attribute: Attribute) -> Array:
    """Return a number inside every bin: its middle; an open bin counts as wide as its neighbour."""
    edges = np.asarray(attribute.numeric_edges, dtype=np.float64)
    bins = np.array(attribute.bins)
    widths = np.diff(edges) if len(edges) > 1 else np.ones(1)
    low = np.where(bins[:, 0] == -inf, edges[0] - widths[0], bins[:, 0])
    high = np.where(bins[:, 1] == inf, edges[-1] + widths[-1], bins[:, 1])
    return low + (high - low) / 2


def value_array(values: Sequence[object]) -> Values:
    """Return values as an array of their own type; mixed ones stay objects."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
