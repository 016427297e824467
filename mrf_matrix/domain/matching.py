"""Values of a column among the categories of an attribute, by the cheapest exact route."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from mrf_matrix.base.arrays import Codes, Values
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.attribute_checks import Scalar, match_key
from mrf_matrix.domain.code_groups import GroupOfCode, Groups
from mrf_matrix.domain.columns import Column
from mrf_matrix.domain.texts import is_missing

UNLISTED, ABSENT = -1, -2  # marks of a value that has no code yet
DENSE_RANGE = 2**16  # integer categories within so wide a range are looked up in a table


def find_categories(attribute: Attribute, column: Column) -> Codes:
    """Look every value up among the categories: levels in a table, numbers by search."""
    categories = cast(Sequence[Scalar], attribute.categories)
    if attribute.groups is not None:
        return find_groups(attribute.groups, column)
    if column.levels is not None:
        found = match_objects(categories, column.levels)
        return np.append(found, np.int32(ABSENT))[column.values]  # position -1 is the appended one
    return match_numbers(categories, column.values)


def find_groups(groups: Groups, column: Column) -> Codes:
    """Look every distinct value's group up by its first characters."""
    group_of = GroupOfCode(groups)
    values = column.values.tolist() if column.levels is None else list(column.levels)
    known = {
        value: ABSENT if is_missing(value) else group_of(value) for value in dict.fromkeys(values)
    }
    codes = np.fromiter(map(known.__getitem__, values), np.int32, len(values))
    return codes if column.levels is None else np.append(codes, np.int32(ABSENT))[column.values]


class CodeTable(dict[object, int]):
    """Codes of known values; anything else is unlisted."""

    def __missing__(self, key: object) -> int:
        """Mark a value without a code."""
        return UNLISTED


def plainly_comparable(categories: Sequence[Scalar], values: Sequence[object]) -> bool:
    """Whether Python's own equality is right: it is not where True and 1 can meet."""
    if all(isinstance(value, str) for value in categories):
        return True
    booleans = {bool, np.bool_}
    return booleans.isdisjoint(map(type, categories)) and booleans.isdisjoint(map(type, values))


def match_objects(categories: Sequence[Scalar], values: Sequence[object]) -> Codes:
    """Look objects up in a dictionary."""
    if plainly_comparable(categories, values):
        table = CodeTable({value: code for code, value in enumerate(categories)})
        codes = np.fromiter(map(table.__getitem__, values), np.int32, len(values))
    else:
        keyed = CodeTable({match_key(value): code for code, value in enumerate(categories)})
        codes = np.fromiter(
            (keyed[key_of(cast(Scalar, value))] for value in values), np.int32, len(values)
        )
    for row in np.flatnonzero(codes < 0).tolist():
        if is_missing(values[row]):
            codes[row] = ABSENT
    return codes


def key_of(value: Scalar | np.bool_) -> tuple[str, object]:
    """Return the matching key of a value from records."""
    return match_key(bool(value) if isinstance(value, np.bool_) else value)


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
    """Whether values are integers, all in start .. start+size-1, that int32 holds."""
    if values.dtype.kind not in "iu" or not len(values):
        return False
    low, high = int(values.min()), int(values.max())
    fits = start > -(2**31) and high < 2**31
    return fits and start <= low and high < start + size


def search_numbers(categories: Sequence[Scalar], values: Values) -> Codes:
    """Match numbers among the sorted numeric categories by binary search."""
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
