"""From columns of text, as CSV has them, to the values that a domain speaks of."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Longs, Values
from mrf_matrix.base.shown import shown
from mrf_matrix.domain import Attribute, DomainError
from mrf_matrix.domain.encoding import value_array
from mrf_matrix.domain.errors import SEE_VALUES

MISSING_MARKS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})
BOOLEANS = {"true": True, "false": False}


def typed_column(attribute: Attribute, texts: Sequence[str], where: str) -> Values:
    """Return the values of a text column in the types of an attribute, missing ones None or NaN.

    Surrounding blanks are dropped. A text that is a category stays that category, even if it looks
    like a number or a mark of missing values; texts without a meaning stay as they are, so that
    encoding judges them.

    Raises DomainError if a bin edge attribute meets a text that is no number.
    """
    if attribute.is_numeric:
        try:
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:  # a mark of missing values, or a mistake
            pass
    positions, distinct = positions_of(texts)
    values = [typed_value(attribute, text, where) for text in distinct]
    if attribute.is_numeric:
        return np.array([np.nan if value is None else value for value in values])[positions]
    return np.asarray(value_array(values)[positions])


def positions_of(texts: Sequence[str]) -> tuple[Longs, list[str]]:
    """Return every text's position in the list of distinct texts, and that list."""
    distinct = list(dict.fromkeys(texts))
    place = {text: position for position, text in enumerate(distinct)}
    return np.fromiter(map(place.__getitem__, texts), np.int64, len(texts)), distinct


def typed_value(attribute: Attribute, text: str, where: str) -> str | int | float | None:
    """Return what one text stands for."""
    text = text.strip()
    if isinstance(attribute.categories, tuple) and text in attribute.categories:
        return text
    if text in MISSING_MARKS or text in map(str, attribute.missing_values):
        return None
    if attribute.is_date or attribute.groups is not None:
        return text
    if attribute.is_numeric:
        try:
            return float(text)
        except ValueError:
            raise DomainError(
                f"{where}: column {shown(attribute.name)} holds text where numbers are expected. "
                f"Correct the file; marks of missing values are {sorted(MISSING_MARKS)}. "
                f"{SEE_VALUES}",
                values=[text],
            ) from None
    number = parsed_number(text)
    for candidate in (BOOLEANS.get(text.lower()), number):
        if candidate is not None and is_category(attribute, candidate):
            return candidate
    return text


def is_category(attribute: Attribute, value: int | float | bool) -> bool:
    """Whether a number or boolean is listed, as that type."""
    if isinstance(attribute.categories, range):
        return not isinstance(value, bool) and value in attribute.categories
    return any(
        known == value and isinstance(known, bool) == isinstance(value, bool)
        for known in attribute.categories or ()
        if not isinstance(known, str)
    )


def parsed_number(text: str) -> int | float | None:
    """Return a text as a number, an integer where it is one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def guessed_column(texts: Sequence[str]) -> Values:
    """Return a column as numbers if every text is one, else as text: for a domain from data."""
    positions, distinct = positions_of(texts)
    present = [text.strip() for text in distinct]
    marked = [None if text in MISSING_MARKS else text for text in present]
    numbers = [None if text is None else parsed_number(text) for text in marked]
    numeric = all(
        n is not None for n, text in zip(numbers, marked, strict=True) if text is not None
    )
    return np.asarray(value_array(numbers if numeric else marked)[positions])


def concatenated_parts(parts: list[Values]) -> Values:
    """Concatenate parts of one column; where their types differ, values keep their own."""
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)
