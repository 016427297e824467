"""Checks of what an attribute is made of; each returns plain Python values or raises."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import pairwise
from numbers import Integral, Real

from mrf_matrix.base import is_plain_line
from mrf_matrix.base.shown import shown
from mrf_matrix.domain.errors import DomainError, name_few

Scalar = str | int | float | bool
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
            f"Attribute name={shown(name)}: expected a non-empty string, of at most {LONGEST} "
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
    """Return the categories 0 .. size-1."""
    if isinstance(size, bool) or not isinstance(size, Integral) or not 1 <= int(size) <= MAX_SIZE:
        raise DomainError(
            f"Attribute {name!r}: size={shown(size)}; expected a positive integer, at most "
            f"{MAX_SIZE}: use coarser codes."
        )
    return range(int(size))


def checked_categories(name: str, categories: Iterable[object]) -> Sequence[Scalar]:
    """Return categories as Python scalars; refuse none, repeated or unfit ones."""
    if isinstance(categories, str | bytes) or not isinstance(categories, Iterable):
        raise DomainError(
            f"Attribute {name!r}: categories={shown(categories)}; expected a list such as "
            "['low', 'high']."
        )
    if isinstance(categories, range) and categories.step == 1 and len(categories):
        plain(name, categories[0])
        plain(name, categories[-1])
        return categories
    values = tuple(plain(name, value) for value in categories)
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


def match_key(value: Scalar) -> tuple[str, Scalar]:
    """Return what values are compared by: numbers by value, strings and booleans apart."""
    if isinstance(value, bool):
        return "bool", value
    return ("str", value) if isinstance(value, str) else ("number", value)


def plain(name: str, value: object) -> Scalar:
    """Return a category as a Python scalar."""
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
        f"Attribute {name!r}: category {shown(value)} of type {type(value).__name__}; expected a "
        "string, boolean or number up to 2**53 in size (longer ones as strings). For "
        "missing values give missing='category'."
    )


def checked_missing_values(name: str, values: Iterable[object], missing: str) -> tuple[Scalar, ...]:
    """Return values that stand for missing ones; refuse them where missing values have no code."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DomainError(f"Attribute {name!r}: missing_values expects a list, such as [999].")
    listed = tuple(plain(name, value) for value in values)
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
        raise DomainError(f"Attribute {name!r}: edges={shown(edges)}; expected a list of numbers.")
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
    """Return one edge as a date."""
    if is_date(edge):
        return date.fromisoformat(str(edge))
    raise DomainError(
        f"Attribute {name!r}: edge {shown(edge)}; expected a date such as '2020-01-31', as the "
        "others."
    )


def checked_edge(name: str, edge: object) -> int | float:
    """Return one edge as a Python number."""
    if isinstance(edge, bool) or not isinstance(edge, Real) or not abs(edge) <= LARGEST_EDGE:  # type: ignore[operator]
        raise DomainError(
            f"Attribute {name!r}: edge {shown(edge)}; expected a finite number that a float "
            "holds, or dates alone. For open-ended outer bins give outside='open'."
        )
    return int(edge) if isinstance(edge, Integral) else float(edge)
