"""From columns of text, as CSV has them, to the values that a domain speaks of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Attribute, DomainError

MISSING_MARKS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})
BOOLEANS = {"true": True, "false": False}

TextColumn = tuple[NDArray[Any], tuple[str | None, ...]]
"""Positions (N,) in a list of distinct texts, of which None and position -1 mean missing."""


def typed_column(attribute: Attribute, column: TextColumn, where: str) -> NDArray[Any]:
    """Return the values of a text column in the types of an attribute, missing ones None or NaN.

    Surrounding blanks are dropped. A text that is a category stays that category, even if it looks
    like a number or a mark of missing values; texts without a meaning stay as they are, so that
    encoding judges them.

    Raises
    ------
    DomainError
        If a bin edge attribute meets a text that is no number.
    """
    positions, texts = column
    values = [*(typed_value(attribute, text, where) for text in texts), None]
    if attribute.is_numeric:
        numbers = np.array([np.nan if value is None else value for value in values])
        return np.asarray(numbers[positions])
    kinds = {type(values[i]) for i in np.unique(positions).tolist()}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        (kind,) = kinds
        plain = [value if type(value) is kind else kind() for value in values]
        return np.asarray(np.array(plain)[positions])
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return np.asarray(array[positions])


def typed_value(attribute: Attribute, text: str | None, where: str) -> Any:
    """Return what one text stands for."""
    if text is None:
        return None
    text = text.strip()
    if isinstance(attribute.categories, tuple) and text in attribute.categories:
        return text
    if text in MISSING_MARKS:
        return None
    if attribute.is_numeric:
        try:
            return float(text)
        except ValueError:
            raise DomainError(
                f"{where}: column {attribute.name!r} holds {text!r} where numbers are expected. "
                f"Correct the file; marks of missing values are {sorted(MISSING_MARKS)}."
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


def guessed_column(column: TextColumn) -> NDArray[Any]:
    """Return a column as numbers if every text is one, else as text: for a domain from data."""
    positions, texts = column
    marks = [
        None if text is None or text.strip() in MISSING_MARKS else text.strip() for text in texts
    ]
    numbers = [None if text is None else parsed_number(text) for text in marks]
    values: list[Any] = [*marks, None]
    if all(text is None or number is not None for text, number in zip(marks, numbers, strict=True)):
        values = [*numbers, None]
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return np.asarray(array[positions])


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate parts of one column; where their types differ, values keep their own."""
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)
