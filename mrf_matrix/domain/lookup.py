"""From the values of one column to the codes of one attribute, vectorised."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from mrf_matrix.base.arrays import Bools, Codes, Values
from mrf_matrix.base.shown import shown
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.attribute_checks import Scalar
from mrf_matrix.domain.columns import Column
from mrf_matrix.domain.errors import SEE_VALUES, DomainError, name_some
from mrf_matrix.domain.matching import ABSENT, UNLISTED, find_categories, is_missing

FEW_EDGES = 32  # up to here counting edges below a value beats a binary search


def encode_column(attribute: Attribute, column: Column) -> Codes:
    """Return the codes of a column, shape (N,).

    Raises DomainError if a value is missing, unknown or outside and the attribute has no code for
    it.
    """
    codes = (
        find_bins(attribute, column) if attribute.is_numeric else find_categories(attribute, column)
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
            f"Column {shown(attribute.name)} has missing values. Drop or fill them, or declare the "
            "attribute with missing='category'."
        )
    if attribute.other_code is not None:
        codes[unlisted] = attribute.other_code
    elif unlisted.any():
        raise unlisted_values(attribute, column, unlisted)
    return codes


def unlisted_values(attribute: Attribute, column: Column, unlisted: Bools) -> DomainError:
    """Return the error of values that have no code: what was expected, and what to do."""
    picked = column.values[unlisted].tolist()
    if column.levels is not None:
        picked = [column.levels[i] for i in picked]
    where = f"Column {shown(attribute.name)} ({column.source}) holds values"
    if attribute.edges is not None:
        low, high = attribute.edges[0], attribute.edges[-1]
        return DomainError(
            f"{where} outside [{low!r}, {high!r}]. Widen the public edges, clip the values, or "
            f"declare outside='open'. {SEE_VALUES}",
            values=picked,
        )
    expected = name_some(cast(Sequence[Scalar], attribute.categories))
    return DomainError(
        f"{where} that are not in the categories {expected}. Strings, numbers and booleans differ: "
        f"convert the column, add the category, or declare unknown='other'. {SEE_VALUES}",
        values=picked,
    )


def find_bins(attribute: Attribute, column: Column) -> Codes:
    """Find the bin of every value by counting the edges at or below it."""
    values = numbers(attribute, column)
    edges = np.asarray(attribute.edges, dtype=np.float64)
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


def numbers(attribute: Attribute, column: Column) -> Values:
    """Return the values as numbers; refuse text and booleans."""
    if column.levels is None and column.values.dtype.kind in "iuf":
        return column.values
    if column.levels is None and column.values.dtype == object:
        return floats_of_objects(attribute, column.values)
    if column.levels == ():  # a column of nulls has no type to complain about
        return np.full(len(column.values), np.nan)
    raise not_numbers(attribute, column.source, column.levels or column.values[:5].tolist())


def not_numbers(attribute: Attribute, source: str, values: Sequence[object]) -> DomainError:
    """Say that a numeric attribute met something else."""
    return DomainError(
        f"Column {shown(attribute.name)} ({source}) holds values where numbers are expected (edges "
        f"{name_some(attribute.edges or ())}) that are none. Convert the column to numbers. "
        f"{SEE_VALUES}",
        values=values,
    )


def floats_of_objects(attribute: Attribute, values: Values) -> Values:
    """Convert objects to floats, missing ones to NaN."""
    listed = values.tolist()
    kinds = set(map(type, listed))
    wrong = {kind for kind in kinds if issubclass(kind, str | bytes | bool | np.bool_)}
    if not wrong:
        try:
            floats = np.array([np.nan if is_missing(v) else v for v in listed], dtype=np.float64)
            if floats.ndim == 1:  # it is not for lists of one length
                return floats
        except (TypeError, ValueError, OverflowError):  # whose texts quote values
            pass
        wrong = kinds - {int, float} or kinds
    raise not_numbers(attribute, "object", [v for v in listed if type(v) in wrong])
