"""Records to codes, attribute by attribute, by what a value means: the same in every container.

A column is read value by value, each distinct value once (`value_reader`), so that no value's
meaning depends on another record. Blanks around a text are dropped. A category's own spelling is
that category, a mark of missing values is a missing value, and a text that spells a number is that
number. A number, in turn, means the category that spells it.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar, cast

import numpy as np

from mrf_matrix.base.arrays import Bools, Codes, Longs, Values
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
from mrf_matrix.domain.attribute_parts import GroupOfCode, days_of_times
from mrf_matrix.domain.bins import (
    ABSENT,
    UNLISTED,
    Reader,
    date_reader,
    decimal_reader,
    find_bins,
    is_below,
    lenient_reader,
    missing_days,
    number_reader,
)
from mrf_matrix.domain.columns import Column, Scalar, as_any_column, match_key, read_columns

BOOLEANS = {"true": True, "false": False}
UNREADABLE = object()
"""A value of no kind expected, where such values have a code."""

Key = TypeVar("Key", bound=Hashable)

DENSE_RANGE = 2**16  # integer categories within so wide a range are looked up in a table
OUTSIDE = ("refuse", "clip", "missing")


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


def read_column(attribute: Attribute, column: Column) -> Column:
    """Return a column whose values are what they mean for an attribute, missing ones marked.

    Texts and objects become positions among their distinct meanings. Short floats become the
    decimals that they are written as: the float32 that prints as 0.4 is 0.4.

    Raises DomainError if a value is no scalar.
    """
    kind = column.values.dtype.kind
    if column.levels is not None:
        read = value_reader(attribute, column.decimal)
        return replace(column, levels=tuple(map(read, column.levels)))
    if kind == "b":
        both = tuple(map(value_reader(attribute), (False, True)))
        return replace(column, values=column.values.astype(np.int64), levels=both)
    if kind in "iuf":
        return _read_numbers(attribute, column)
    if kind == "M" and attribute.is_date:
        days = days_of_times(column.values)
        return _mark_missing(column, column.values, days, missing_days(attribute))
    held = list(column.values) if kind in "mM" else column.values.tolist()  # times are no numbers
    places, distinct = distinct_values(attribute, held)
    read = value_reader(attribute, column.decimal)
    return replace(column, values=places, levels=tuple(map(read, distinct)))


def text_column(attribute: Attribute, texts: Sequence[str], decimal: str = ".") -> Column:
    """Return a column of text as positions among its distinct texts, or as numbers at once."""
    name = attribute.name
    if attribute.is_numeric and decimal == ".":
        try:
            return Column(name, np.fromiter(map(float, texts), np.float64, len(texts)))
        except ValueError:  # a mark of missing values, or a mistake
            pass
    places, distinct = positions_of(texts)
    return Column(name, places, tuple(distinct), source="text", decimal=decimal)


def positions_of(values: Sequence[Key]) -> tuple[Longs, list[Key]]:
    """Return the place of every value among the distinct ones, and these."""
    first: dict[Key, int] = {}
    places = np.array([first.setdefault(one, len(first)) for one in values], dtype=np.int64)
    return places, list(first)


def _read_numbers(attribute: Attribute, column: Column) -> Column:
    """Return numbers as they are, marks missing; by their meanings where these are texts."""
    values = as_doubles(column.values)
    known = listed_categories(attribute)
    is_text = attribute.groups is not None or any(isinstance(one, str) for one in known)
    if is_text or attribute.is_date:
        places, held = np.full(len(values), -1), np.full(len(values), True)
        if column.missing is not None:  # whose values mean nothing
            held = ~column.missing
        distinct, places[held] = np.unique(values[held], return_inverse=True)
        levels = tuple(map(value_reader(attribute), distinct.tolist()))
        return replace(column, values=places, levels=levels)
    return _mark_missing(column, values, values, missing_marks(attribute)[1])


def _mark_missing(column: Column, values: Values, keys: Values, marks: Collection[float]) -> Column:
    """Return a column of values, missing ones marked: those whose keys are marks."""
    if not marks:
        return replace(column, values=values)
    marked = np.isin(keys, np.array(list(marks), dtype=np.float64))
    missing = marked if column.missing is None else marked | column.missing
    return replace(column, values=values, missing=missing)


def as_doubles(values: Values) -> Values:
    """Return short floats as the decimals that they print as: the float32 0.4 is 0.4."""
    if values.dtype.kind != "f" or values.dtype.itemsize == 8:
        return values
    distinct, places = np.unique(values, return_inverse=True)
    return np.array([float(str(one)) for one in distinct])[places.ravel()]


def distinct_values(attribute: Attribute, values: Sequence[object]) -> tuple[Longs, list[object]]:
    """Return the place of every value among the distinct ones, and these.

    Values of different types are distinct: True is not 1. Times are told apart on the wall: of one
    moment there are several, by their zones.

    Raises DomainError if one is no scalar.
    """
    if attribute.unreadable != "error":
        instead = None if attribute.unreadable == "missing" else UNREADABLE
        values = [one if isinstance(one, Hashable) else instead for one in values]
    if attribute.is_date:
        values = [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in values]
    try:
        places, found = positions_of([(type(one), one) for one in values])
    except TypeError:  # whose text is the values' own
        raise DomainError(
            f"Column {short_repr(attribute.name)} holds values that are not scalars. Expected "
            f"{known_values(attribute)}."
        ) from None
    return places, [one for _, one in found]


def known_values(attribute: Attribute) -> str:
    """Return the values that an attribute knows, in words."""
    if attribute.is_binned:
        kind = "dates" if attribute.is_date else "numbers"
        return f"{kind} (edges {name_some(map(str, attribute.edges or ()))})"
    return f"one of {name_some(attribute.labels)}"


def value_reader(attribute: Attribute, decimal: str = ".") -> Reader:
    """Return a reader of values: each becomes a category, a number, the text of a date, or None.

    A value that it cannot read stays as it is, so that encoding judges it. `decimal`: the mark by
    which texts write decimals.
    """
    if attribute.groups is not None:
        read = _group_reader(attribute)
    elif not attribute.is_binned:
        read = _category_reader(attribute)
    else:
        read = date_reader(attribute) if attribute.is_date else number_reader(attribute)
    if decimal != "." and not attribute.is_date:
        read = decimal_reader(read, attribute, decimal)
    is_lenient = attribute.is_binned and attribute.unreadable == "missing"
    return lenient_reader(read, attribute) if is_lenient else read


def _group_reader(attribute: Attribute) -> Reader:
    """Return a reader of codes: declared marks first, then codes (NA12), then usual marks."""
    group_of, (marks, marked) = GroupOfCode(attribute.groups or ()), missing_marks(attribute)

    def read(value: object) -> object:
        text = value.strip() if isinstance(value, str) else value
        if is_missing(value) or text in marks - MISSING_MARKS or number_of(value) in marked:
            return None
        return None if text in marks and group_of(text) < 0 else text

    return read


def _category_reader(attribute: Attribute) -> Reader:
    """Return a reader of categories, by their spelling or the number or boolean that they are."""
    known, listed = attribute.categories, listed_categories(attribute)
    texts = {one for one in listed if isinstance(one, str)}
    numbers = _numbered_categories(listed)
    booleans = _boolean_categories(listed)
    marks, marked = missing_marks(attribute)

    def read(value: object) -> object:
        if is_missing(value):
            return None
        if isinstance(value, bool | np.bool_):
            return booleans.get(bool(value), value)
        text = value.strip() if isinstance(value, str) else None
        if isinstance(value, str) and value in texts:
            return value
        number = number_of(value)
        spelled = text if text is not None or number is None else str(number)
        if spelled in texts:
            return spelled
        if text in marks or number in marked:
            return None
        if number is not None:
            return number if isinstance(known, range) else numbers.get(number, value)
        return value if text is None else booleans.get(BOOLEANS.get(text.lower()), text)

    return read


def _numbered_categories(categories: Sequence[object]) -> dict[object, object]:
    """Return categories by the number that they are or spell.

    A number means its own text (5 means "5"), else the number itself, else its only other spelling.
    """
    spelled: dict[object, list[str]] = {}
    for one in categories:
        if isinstance(one, str) and (number := parsed_number(one)) is not None:
            spelled.setdefault(number, []).append(one)
    found: dict[object, object] = {
        number: str(number) if str(number) in listed else listed[0]
        for number, listed in spelled.items()
        if len(listed) == 1 or str(number) in listed
    }
    own = {one: one for one in categories if not isinstance(one, str | bool)}
    return own | {one: text for one, text in found.items() if text == str(one) or one not in own}


def _boolean_categories(categories: Sequence[object]) -> dict[object, object]:
    """Return categories by the booleans that they are, or that one text alone spells."""
    found: dict[object, object] = {}
    for text, truth in BOOLEANS.items():
        spelled = [one for one in categories if isinstance(one, str) and one.lower() == text]
        if len(spelled) == 1:
            found[truth] = spelled[0]
    return found | {one: one for one in categories if isinstance(one, bool)}
