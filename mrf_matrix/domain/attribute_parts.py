"""Checked parts of an attribute: names, categories, edges, dates and groups of codes."""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base import is_plain_line
from mrf_matrix.base.arrays import Array, Values
from mrf_matrix.base.checks import DomainError, name_few, short_repr
from mrf_matrix.domain.columns import Scalar, match_key

EPOCH = datetime(1970, 1, 1)
DAY = timedelta(days=1)


def day_of(value: object) -> float:
    """Return the days since 1970 of a date, a time or an ISO text; NaN of what is missing.

    Raises ValueError if it is no date.

    >>> day_of("1970-01-03"), day_of("1970-01-03T12:00")
    (2.0, 2.5)
    """
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) / DAY
    if isinstance(value, date):
        return float(value.toordinal() - EPOCH.toordinal())
    if isinstance(value, np.datetime64):
        return float(days_of_times(np.array([value]))[0])
    raise ValueError("no date")


def day_or_none(value: object) -> float | None:
    """Return a value's days since 1970, None if it is no date."""
    try:
        return day_of(value)
    except ValueError:
        return None


def days_of_times(values: Values) -> Array:
    """Return the days since 1970 of an array of datetime64, to the microsecond; NaN of NaT."""
    if np.datetime_data(values.dtype)[0] in ("ns", "ps", "fs", "as"):
        values = values.astype("M8[us]")  # whose days a float tells apart, as of a text
    return np.asarray((values - np.datetime64(0, "D")) / np.timedelta64(1, "D"), dtype=np.float64)


def dates_of_days(days: ArrayLike) -> Values:
    """Return the dates on which days lie; NaT of NaN."""
    floored = np.floor(np.asarray(days, dtype=np.float64))
    known = np.isfinite(floored)
    return np.where(
        known, np.where(known, floored, 0).astype("datetime64[D]"), np.datetime64("NaT", "D")
    )


MAX_SIZE = 2**31 - 1  # codes are int32
LONGEST = 5000  # characters of a name or a category
LARGEST_EDGE = sys.float_info.max
LARGEST = 2**53
"""Numbers up to here are exact as floats."""

PLAIN = (
    "expected one line without control characters, escapes and marks of writing direction. Rename "
    "it, in the records too."
)


def check_name(name: object) -> None:
    """Refuse a name that is not text."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST:
        raise DomainError(
            f"Attribute name={short_repr(name)}: expected a non-empty string, of at most {LONGEST} "
            "characters."
        )
    if not is_plain_line(name):  # it will be printed, and may come from a stranger's file
        raise DomainError(f"Attribute name={name[:80]!r}: {PLAIN}")


def check_one_kind(name: str, **kinds: object) -> None:
    """Refuse anything but exactly one of size, categories, edges."""
    given = [kind for kind, value in kinds.items() if value is not None]
    if len(given) != 1:
        raise DomainError(
            f"Attribute {name!r}: got {' and '.join(given) or 'none'} of size, categories, edges, "
            "groups; expected exactly one."
        )


def checked_size(name: str, size: object) -> range:
    if isinstance(size, bool) or not isinstance(size, Integral) or not 1 <= int(size) <= MAX_SIZE:
        raise DomainError(
            f"Attribute {name!r}: size={short_repr(size)}; expected a positive integer, at most "
            f"{MAX_SIZE}: use coarser codes."
        )
    return range(int(size))


def checked_categories(name: str, categories: Iterable[object]) -> Sequence[Scalar]:
    """Return categories as Python scalars; refuse none, repeated or unfit ones."""
    if isinstance(categories, str | bytes) or not isinstance(categories, Iterable):
        raise DomainError(
            f"Attribute {name!r}: categories={short_repr(categories)}; expected a list such as "
            "['low', 'high']."
        )
    if isinstance(categories, range) and categories.step == 1 and len(categories):
        plain_scalar(name, categories[0])
        plain_scalar(name, categories[-1])
        return categories
    values = tuple(plain_scalar(name, value) for value in categories)
    if not values:
        raise DomainError(f"Attribute {name!r}: no categories; expected at least one.")
    if len(set(map(match_key, values))) < len(values):
        counts = Counter(map(match_key, values))
        repeated = [value for value in values if counts[match_key(value)] > 1]
        raise DomainError(
            f"Attribute {name!r}: repeated categories {name_few(repeated)}; list each value once."
        )
    if all(type(value) is int for value in values):  # consecutive integers have one form
        run = range(int(values[0]), int(values[0]) + len(values))
        return run if tuple(run) == values else values
    return values


def plain_scalar(name: str, value: object) -> Scalar:
    scalar = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(scalar, str):
        if not is_plain_line(scalar):
            raise DomainError(f"Attribute {name!r}: a category acts on terminals: {PLAIN}")
        if len(scalar) > LONGEST:
            raise DomainError(
                f"Attribute {name!r}: a category has {len(scalar)} characters; expected at most "
                f"{LONGEST}."
            )
        return str(scalar)
    if isinstance(scalar, bool | int | float) and abs(scalar) <= LARGEST:
        return scalar
    raise DomainError(
        f"Attribute {name!r}: category {short_repr(value)} of type {type(value).__name__}; "
        f"expected a string, boolean or number up to 2**53 in size (longer ones as strings). For "
        f"missing values give missing='category'."
    )


def checked_missing_values(name: str, values: Iterable[object], missing: str) -> tuple[Scalar, ...]:
    """Return values that stand for missing ones; refuse them where missing values have no code."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DomainError(f"Attribute {name!r}: missing_values expects a list, such as [999].")
    listed = tuple(plain_scalar(name, value) for value in values)
    if listed and missing == "error":
        raise DomainError(
            f"Attribute {name!r}: missing_values need a code; add missing='category'."
        )
    return listed


def checked_edges(
    name: str, edges: Iterable[object], is_open: bool
) -> tuple[int | float, ...] | tuple[date, ...]:
    """Return edges as Python numbers or dates; refuse too few, non-finite or unordered ones."""
    if isinstance(edges, str | bytes) or not isinstance(edges, Iterable):
        raise DomainError(
            f"Attribute {name!r}: edges={short_repr(edges)}; expected a list of numbers."
        )
    listed = list(edges)
    values: list[int | float] | list[date]
    if any(map(is_date, listed)):
        values = [checked_date(name, edge) for edge in listed]
    else:
        values = [checked_edge(name, edge) for edge in listed]
    least = 1 if is_open else 2
    if len(values) < least:
        raise DomainError(
            f"Attribute {name!r}: {len(values)} edges; expected at least {least} "
            "(outer edges included)."
        )
    for low, high in pairwise(values):
        increasing = low < high if isinstance(low, date) else float(low) < float(high)  # type: ignore[operator, arg-type]
        if not increasing:
            raise DomainError(
                f"Attribute {name!r}: edges {low!s}, {high!s} are not increasing; expected each "
                "edge to be larger than the one before it."
            )
    return tuple(values)  # type: ignore[return-value]


def is_date(edge: object) -> bool:
    """Whether an edge is a date without a time of day, or the ISO text of one."""
    if not isinstance(edge, str):
        return type(edge) is date
    try:
        return bool(date.fromisoformat(edge))
    except ValueError:
        return False


def checked_date(name: str, edge: object) -> date:
    if is_date(edge):
        return date.fromisoformat(str(edge))
    raise DomainError(
        f"Attribute {name!r}: edge {short_repr(edge)}; expected a date such as '2020-01-31', as "
        f"the others."
    )


def checked_edge(name: str, edge: object) -> int | float:
    if isinstance(edge, bool) or not isinstance(edge, Real) or not abs(edge) <= LARGEST_EDGE:  # type: ignore[operator]
        raise DomainError(
            f"Attribute {name!r}: edge {short_repr(edge)}; expected a finite number that a float "
            "holds, or dates alone. For open-ended outer bins give outside='open'."
        )
    return int(edge) if isinstance(edge, Integral) else float(edge)


Groups = tuple[tuple[str, tuple[str, ...]], ...]
"""Each group's label, and the prefixes and ranges of prefixes that belong to it."""


def checked_groups(name: str, groups: object) -> Groups:
    """Return groups as labels with their prefixes; refuse none, or prefixes of two groups.

    `groups`: a mapping of labels to prefixes, or a list of prefixes that are their own labels.
    """
    pairs: Iterable[object]
    if isinstance(groups, Mapping):
        pairs = groups.items()
    elif isinstance(groups, Sequence) and not isinstance(groups, str | bytes):
        pairs = [(one, one) if isinstance(one, str) else one for one in groups]
    else:
        raise _groups_error(name)
    found = []
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], str):
            raise _groups_error(name)
        listed = (pair[1],) if isinstance(pair[1], str) else pair[1]
        prefixes = tuple(listed) if isinstance(listed, Iterable) else ()
        if not prefixes or not all(isinstance(one, str) and one.strip() for one in prefixes):
            raise _groups_error(name)
        for one in prefixes:
            _check_range(name, one.strip())
        found.append((pair[0], tuple(one.strip() for one in prefixes)))
    for (low, high, _), (following, _, _) in pairwise(intervals(found)):
        if following[: len(high)] <= high:
            raise DomainError(
                f"Attribute {name!r}: codes that begin with {following!r} are in the group of "
                f"{low!r} to {high!r} as well; expected every code in one group only."
            )
    return tuple(found)


def _check_range(name: str, prefix: str) -> None:
    """Refuse what is written as a range and is none: ``1-99``, ``E14-E10``."""
    low, dash, high = prefix.replace("\u2013", "-").partition("-")
    if not dash or not low or not high or "-" in high:
        return
    alike = low[:1].isalpha() == high[:1].isalpha() and high[-1].isdigit() and low[-1].isdigit()
    if len(low) > len(high) and not (low[:1].isalpha() and high[:1].isalpha()):
        return  # one code, such as 1234-5
    if alike and (len(low) != len(high) or low > high):
        raise DomainError(
            f"Attribute {name!r}: {prefix!r} is no range of codes; expected two ends of one "
            f"length, the smaller first, such as 'E10-E14' or '01-99'."
        )


def _groups_error(name: str) -> DomainError:
    return DomainError(
        f"Attribute {name!r}: groups expects labels with prefixes of codes, for example "
        "{'diabetes': ['E10-E14'], 'heart': ['I20-I25', 'I50']}."
    )


def intervals(groups: Iterable[tuple[str, Sequence[str]]]) -> list[tuple[str, str, int]]:
    """Return first prefix, last prefix and group of every range, in order.

    ``E10-E14`` is a range, for its ends are equally long; ``1234-5`` is one prefix, and what looks
    like a range and is none was refused.
    """
    found = []
    for group, (_, prefixes) in enumerate(groups):
        for prefix in prefixes:
            low, dash, high = prefix.replace("\u2013", "-").partition("-")
            whole = dash and len(low) == len(high) and low <= high
            found.append((low, high, group) if whole else (prefix, prefix, group))
    return sorted(found)


class GroupOfCode:
    """Finds the group of a code: its label, or the only range that its first characters are in.

    >>> group = GroupOfCode((("diabetes", ("E10-E14",)), ("heart", ("I20-I25", "I50"))))
    >>> group("E11.9"), group("I50"), group("heart"), group("J45")
    (0, 1, 1, -1)
    """

    def __init__(self, groups: Groups) -> None:
        self._labels = {label: group for group, (label, _) in enumerate(groups)}
        self._ranges = intervals(groups)
        self._lows = [low for low, _, _ in self._ranges]

    def __call__(self, value: object) -> int:
        """Return the number of a value's group, -1 if it is in none."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        code = str(value).strip()
        if code in self._labels:
            return self._labels[code]
        place = bisect_right(self._lows, code) - 1
        if place < 0:
            return -1
        _, high, group = self._ranges[place]
        return group if code[: len(high)] <= high else -1
