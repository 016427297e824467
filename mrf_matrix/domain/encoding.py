"""Records to codes, attribute by attribute, and codes back to values."""

from collections.abc import Sequence
from math import inf, nan
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Bools, Codes, Longs, Values
from mrf_matrix.base.checks import SEE_VALUES, DomainError, name_some, short_repr
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.attribute_parts import (
    GroupOfCode,
    dates_of_days,
    day_or_none,
    days_of_times,
)
from mrf_matrix.domain.columns import (
    Column,
    Scalar,
    as_any_column,
    checked_codes,
    match_key,
    plain_array,
    read_columns,
)
from mrf_matrix.domain.texts import MISSING_MARKS, is_missing, read_column

UNLISTED, ABSENT = -1, -2  # marks of a value that has no code yet
DENSE_RANGE = 2**16  # integer categories within so wide a range are looked up in a table


def find_categories(attribute: Attribute, column: Column) -> Codes:
    """Return the codes of a column that was read: of levels by a table, of numbers by search."""
    categories = cast(Sequence[Scalar], attribute.categories)
    if column.levels is None:
        return match_numbers(categories, column.values)
    if attribute.groups is not None:
        found = list(map(GroupOfCode(attribute.groups), column.levels))
    else:
        known = {match_key(value): code for code, value in enumerate(categories)}
        found = [known.get(match_key(cast(Scalar, one)), UNLISTED) for one in column.levels]
    codes = np.array([*found, ABSENT], dtype=np.int32)  # position -1 is the last
    codes[:-1][np.fromiter(map(is_missing, column.levels), np.bool_, len(found))] = ABSENT
    return codes[column.values]


def match_numbers(categories: Sequence[Scalar], values: Values) -> Codes:
    """Match numbers by offset (consecutive integers) or by binary search, exactly."""
    if isinstance(categories, range):
        codes = offsets(values, categories.start, len(categories))
    else:
        codes = search_numbers(categories, values)
    if values.dtype.kind == "f":
        codes[np.isnan(values)] = ABSENT
    return codes


def offsets(values: Values, start: int, size: int) -> Codes:
    """Return values minus start where that is an integer in 0 .. size-1."""
    if are_inside(values, start, size):  # the usual case: one cast, no masks
        codes = values.astype(np.int32)
        if start:
            codes -= start
        return codes
    inside = (values >= start) & (values <= start + size - 1)
    if values.dtype.kind == "f":
        inside &= values == np.floor(values)
    if not inside.all():
        values = np.where(inside, values, 0)
    codes = (values.astype(np.int64) - start).astype(np.int32)
    codes[~inside] = UNLISTED
    return codes


def are_inside(values: Values, start: int, size: int) -> bool:
    if values.dtype.kind not in "iu" or not len(values):
        return False
    low, high = int(values.min()), int(values.max())
    fits = start > -(2**31) and high < 2**31
    return fits and start <= low and high < start + size


def search_numbers(categories: Sequence[Scalar], values: Values) -> Codes:
    coded = enumerate(categories)
    listed = sorted((value, code) for code, value in coded if match_key(value)[0] == "number")
    if not listed:
        return np.full(len(values), UNLISTED, dtype=np.int32)
    known = np.array([value for value, _ in listed])
    code_of = np.array([code for _, code in listed], dtype=np.int32)
    if known.dtype.kind == "i" and known[-1] - known[0] < DENSE_RANGE:
        table = np.full(known[-1] - known[0] + 2, UNLISTED, dtype=np.int32)  # -1 reads the last
        table[known - known[0]] = code_of
        return table[offsets(values, int(known[0]), len(table) - 1)]
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[place] == values, code_of[place], np.int32(UNLISTED))


MARKS = ", ".join(repr(mark) for mark in sorted(MISSING_MARKS))
OUTSIDE = ("refuse", "clip", "missing")
FEW_EDGES = 32  # up to here counting edges below a value beats a binary search


def encode_records(
    attributes: Sequence[Attribute], records: object, extra: str, outside: str = "refuse"
) -> Codes:
    """Return the codes of records, shape (N, d), C-contiguous.

    Raises DomainError as `encode_columns`.
    """
    columns = encode_columns(attributes, records, extra, outside)
    codes = np.empty((len(attributes), len(columns[0])), dtype=np.int32)
    for row, column in zip(codes, columns, strict=True):
        row[:] = column
    return np.ascontiguousarray(codes.T)


def encode_columns(
    attributes: Sequence[Attribute], records: object, extra: str, outside: str = "refuse"
) -> list[Codes]:
    """Return the codes of records, one array of shape (N,) for each attribute.

    Raises DomainError if columns are missing, repeated or unwanted, their lengths differ, or a
    value has no code: of all columns at once.
    """
    if outside not in OUTSIDE:
        raise DomainError(f"outside={short_repr(outside)}; expected one of {OUTSIDE}.")
    columns = read_columns(records, tuple(attribute.name for attribute in attributes), extra)
    lengths = {len(column.values) for column in columns}
    if len(lengths) != 1:
        raise DomainError("Columns differ in length; expected one value a record in each.")
    found, problems = [], []
    for attribute, column in zip(attributes, columns, strict=True):
        try:
            found.append(encode_column(attribute, column, outside))
        except DomainError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise DomainError(
            " ".join(map(str, problems)), values=[one for each in problems for one in each.values]
        )
    return found


def encode_labels(target: Attribute, labels: object) -> Codes:
    """Return the class codes of labels, shape (N,); an array of shape (N, 1) is taken too."""
    if isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    column = as_any_column(target.name, labels)
    try:
        return encode_column(target, column)
    except DomainError as error:
        raise class_numbers_error(target, column, error) from None


def class_numbers_error(target: Attribute, column: Column, error: DomainError) -> DomainError:
    """Return an error, with the remedy where numbers stand for classes that are text.

    Types alone decide whether it is told: which numbers there are is private.
    """
    known = target.labels
    are_numbers = column.levels is None and column.values.dtype.kind in "iu"
    if not are_numbers or not all(isinstance(one, str) for one in known):
        return error
    return DomainError(
        f"{error} VotingClassifier, BaggingClassifier, StackingClassifier and cross_val_predict of "
        f"scikit-learn make numbers of text, in an order of their own. Give these "
        f"domain.encode_target(y), and the classifier a domain with "
        f"target=Attribute({target.name!r}, size={len(known)}).",
        values=error.values,
    )


def encode_column(attribute: Attribute, column: Column, outside: str = "refuse") -> Codes:
    """Return the codes of a column, shape (N,).

    `outside`: what becomes of values that were read and have no code: refused; "clip": numbers and
    dates get the nearest bin; "missing": they get the code of missing values.

    Raises DomainError if a value is missing, unknown or outside and the attribute has no code for
    it.
    """
    column = read_column(attribute, column)
    codes = (
        find_bins(attribute, column) if attribute.is_binned else find_categories(attribute, column)
    )
    if column.missing is not None:
        codes[column.missing] = ABSENT
    if codes.size == 0 or codes.min() >= 0:
        return codes
    absent, unlisted = codes == ABSENT, codes == UNLISTED
    if attribute.missing_code is not None:
        codes[absent] = attribute.missing_code
    elif absent.any():
        raise DomainError(
            f"Column {short_repr(attribute.name)} has missing values. Drop or fill them, or "
            f"declare the attribute with missing='category'."
        )
    if attribute.is_binned and outside == "clip":
        codes[unlisted] = np.where(is_below(attribute, column), 0, attribute.n_known - 1)[unlisted]
    elif outside == "missing" and attribute.missing_code is not None:
        codes[unlisted] = attribute.missing_code
    elif attribute.other_code is not None:
        codes[unlisted] = attribute.other_code
    elif unlisted.any():
        raise unlisted_error(attribute, column, unlisted)
    return codes


def is_below(attribute: Attribute, column: Column) -> Bools:
    values = (days if attribute.is_date else numbers)(attribute, column)
    return np.asarray(values < attribute.numeric_edges[0])


def unlisted_error(attribute: Attribute, column: Column, unlisted: Bools) -> DomainError:
    """Return the error of values that have no code: what was expected, and what to do."""
    picked = column.values[unlisted].tolist()
    if column.levels is not None:
        picked = [column.levels[i] for i in picked]
    where = f"Column {short_repr(attribute.name)} ({column.source}) holds values"
    if attribute.edges is not None:
        low, high = attribute.edges[0], attribute.edges[-1]
        return DomainError(
            f"{where} outside [{low!s}, {high!s}]. Widen the public edges, or declare "
            f"outside='open', before a fit; in predict give outside='clip'. {SEE_VALUES}",
            values=picked,
        )
    expected = name_some(cast(Sequence[Scalar], attribute.categories))
    if attribute.groups is not None:
        return DomainError(
            f"{where} that are in none of the groups of codes {expected}. Add their prefixes, or "
            f"declare unknown='other'. {SEE_VALUES}",
            values=picked,
        )
    return DomainError(
        f"{where} that are not in the categories {expected}. Numbers and booleans differ: correct "
        f"the column, add the category, or declare unknown='other'. {SEE_VALUES}",
        values=picked,
    )


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
