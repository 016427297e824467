"""The meaning of a value for an attribute: the same in every file, frame, array and list.

A column is read value by value, each distinct value once (`value_reader`), so that no value's
meaning depends on another record. Blanks around a text are dropped. A category's own spelling is
that category, a mark of missing values is a missing value, and a text that spells a number is that
number. A number, in turn, means the category that spells it.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from math import inf, isnan, nan
from typing import TypeVar

import numpy as np

from mrf_matrix.base.arrays import Longs, Values
from mrf_matrix.base.checks import DomainError, name_some, short_repr
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.attribute_parts import (
    LARGEST_EDGE,
    GroupOfCode,
    day_or_none,
    days_of_times,
)
from mrf_matrix.domain.columns import Column

MISSING_MARKS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})
BOOLEANS = {"true": True, "false": False}
UNREADABLE = object()
"""A value of no kind expected, where such values have a code."""

Key = TypeVar("Key", bound=Hashable)
Reader = Callable[[object], object]


def parsed_number(text: str) -> int | float | None:
    """Return a text as a number, a whole one where it is; None if it is none, or not a number.

    >>> parsed_number("7.0"), parsed_number(" 1e3 "), parsed_number("seven")
    (7, 1000, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return None if isnan(number) else int(number) if number.is_integer() else number


def number_in_text(text: str, decimal: str) -> int | float | None:
    """Return the number that a text writes by a decimal mark; a comma leaves points no meaning.

    >>> number_in_text("1,5", ","), number_in_text("1.5", ","), number_in_text("1,5", ".")
    (1.5, None, None)
    """
    if decimal == ".":
        return parsed_number(text)
    return None if "." in text else parsed_number(text.replace(decimal, "."))


def is_missing(value: object) -> bool:
    """Whether an object stands for a missing value: None, NaN, NaT, or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, str):
        return False
    if isinstance(value, Decimal):
        return value.is_nan()
    return type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float | np.floating | np.datetime64 | np.timedelta64)
        and bool(value != value)
    )


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
        return _mark_missing(column, column.values, days_of_times(column.values), _days(attribute))
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
    return _mark_missing(column, values, values, _marks(attribute)[1])


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


def listed_categories(attribute: Attribute) -> Sequence[object]:
    """Return categories that are written out, which sizes and groups are not."""
    known = attribute.categories
    return known if isinstance(known, tuple) and attribute.groups is None else ()


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
        read = _date_reader(attribute) if attribute.is_date else _number_reader(attribute)
    if decimal != "." and not attribute.is_date:
        read = _decimal_reader(read, attribute, decimal)
    is_lenient = attribute.is_binned and attribute.unreadable == "missing"
    return _lenient_reader(read, attribute) if is_lenient else read


@dataclass(frozen=True)
class OtherNotation:
    """A number written otherwise than its file declares: by a point, where marks are commas."""

    text: str

    def __repr__(self) -> str:
        return repr(self.text)


def _decimal_reader(inner: Reader, attribute: Attribute, decimal: str) -> Reader:
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


def _lenient_reader(inner: Reader, attribute: Attribute) -> Reader:
    """Return a reader to which what is no number, or no date, is missing."""

    def read(value: object) -> object:
        found = None if is_missing(value) else inner(value)
        known = number_of(found) if attribute.is_numeric else day_or_none(found)
        return None if known is None else found

    return read


def _marks(attribute: Attribute) -> tuple[frozenset[str], frozenset[float]]:
    """Return an attribute's marks of missing values as texts, and as the numbers they spell."""
    numbers = map(number_of, attribute.missing_values)
    texts = {one.strip() for one in attribute.missing_values if isinstance(one, str)}
    return MISSING_MARKS | texts, frozenset(one for one in numbers if one is not None)


def _days(attribute: Attribute) -> frozenset[float]:
    """Return the marks of missing values that are dates, as days since 1970."""
    days = map(day_or_none, map(str, attribute.missing_values))
    return frozenset(one for one in days if one is not None)


def number_of(value: object) -> int | float | None:
    """Return the number that a value is, or spells; None of booleans and of what is none.

    What no float holds is infinite, as its text is.
    """
    if isinstance(value, str):
        return parsed_number(value)
    if isinstance(value, int | Fraction) and not -LARGEST_EDGE <= value <= LARGEST_EDGE:
        return inf if value > 0 else -inf
    if isinstance(value, Decimal | Fraction):
        value = nan if is_missing(value) else float(value)
    if isinstance(value, bool | np.bool_ | np.timedelta64) or not isinstance(
        value, int | float | np.number
    ):
        return None
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.floating) and value.dtype.itemsize != 8:
        number = float(str(value))  # the decimals that a short one prints as
    if not isinstance(number, int | float) or isnan(number):
        return None
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _number_reader(attribute: Attribute) -> Reader:
    marks, numbers = _marks(attribute)

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


def _date_reader(attribute: Attribute) -> Reader:
    """Return a reader of dates; a number is read by its digits, 20200131."""
    (marks, numbers), days = _marks(attribute), _days(attribute)

    def read(value: object) -> object:
        number = number_of(value)
        if number in numbers or (isinstance(value, str) and value.strip() in marks):
            return None
        written = value if number is None or isinstance(value, str) else str(number)
        day = day_or_none(written)
        return value if day is None else None if day in days else written

    return read


def _group_reader(attribute: Attribute) -> Reader:
    """Return a reader of codes: declared marks first, then codes (NA12), then usual marks."""
    group_of, (marks, marked) = GroupOfCode(attribute.groups or ()), _marks(attribute)

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
    marks, marked = _marks(attribute)

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
