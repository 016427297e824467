"""From columns of text, as CSV has them, to values: those a domain speaks of, or a guess."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.domain import Attribute
from mrf_matrix.domain.encoding import numbers, value_array
from mrf_matrix.domain.texts import (
    MISSING_MARKS,
    number_in_text,
    positions_of,
    read_column,
    text_column,
)


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
