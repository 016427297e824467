"""Fields of a file's JSON: of the expected keys, type and size, or refused by name."""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from mrf_matrix.base import is_plain_line
from mrf_matrix.files.container import ContainerError

LONGEST = 5000
FRACTION = re.compile(r"[0-9]{1,1300}(/[0-9]{1,1300})?")


def checked_object(data: object, keys: set[str], where: str) -> dict[str, Any]:
    """Refuse anything but an object with exactly these keys."""
    if not isinstance(data, dict) or set(data) != keys:
        raise ContainerError(f"{where}: expected an object with the keys {sorted(keys)}.")
    return data


def checked_version(data: dict[str, Any], name: str, version: int) -> None:
    """Refuse a file of another format, or of another version of it."""
    if data["format"] != name:
        raise ContainerError(f"format: expected {name!r}.")
    found = data["schema_version"]
    if type(found) is not int or found != version:
        raise ContainerError(
            f"schema_version={str(found)[:20]}: this mrf_matrix reads {version}; a later one may "
            f"read it."
        )


def line_of_text(data: object, where: str, longest: int = LONGEST) -> str:
    """Return a line of text; control characters could act on the reader's terminal."""
    if not isinstance(data, str) or len(data) > longest or not is_plain_line(data):
        raise ContainerError(f"{where}: expected a line of at most {longest} characters.")
    return data


def fraction_of(data: object, where: str) -> Fraction:
    """Return an exact number from its text: ``1/3`` or ``5``, of bounded length."""
    if not isinstance(data, str) or FRACTION.fullmatch(data) is None:
        raise ContainerError(f"{where}={str(data)[:50]!r}: expected a fraction as text: '1/2'.")
    try:
        return Fraction(data)
    except ZeroDivisionError:
        raise ContainerError(f"{where}={data[:50]!r} divides by zero.") from None


def whole_of(data: Any, where: str) -> int:
    """Return a whole number that is not negative from its text."""
    number = fraction_of(data, where)
    if number.denominator != 1:
        raise ContainerError(f"{where}={data[:50]!r}: expected a whole number as text.")
    return number.numerator


def one_of(data: object, allowed: Sequence[str], where: str) -> str:
    """Return one of a few words."""
    if not isinstance(data, str) or data not in allowed:
        raise ContainerError(f"{where}={str(data)[:50]!r}: expected one of {tuple(allowed)}.")
    return data
