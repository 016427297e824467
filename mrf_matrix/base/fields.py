"""Reading of untrusted JSON: each field has the expected keys, type and size, or is refused."""

import json
import re
from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from math import inf, isfinite
from typing import NoReturn

from mrf_matrix.base.checks import is_plain_line, short_repr, shorten

JsonObject = dict[str, object]
"""An object of JSON; its values are nothing in particular until a field is checked."""

LONGEST = 5000
LONGEST_INTEGER = 4000  # digits; Python writes no more than 4300
MOST = 10_000
FRACTION = re.compile(r"[0-9]{1,1300}(/[0-9]{1,1300})?")


class FieldError(ValueError):
    """A field is missing, of another type, or larger than it may be."""

    def __init__(self, message: str) -> None:
        super().__init__(shorten(message))


def parse_json(content: bytes, *, finite: bool = True) -> object:
    """Return the value of JSON in UTF-8; refuse repeated keys, NaN and infinities, endless numbers.

    `finite`: False takes NaN and infinities, which our own results of a search have.

    Raises ValueError if it is no such JSON, or is nested too deeply.
    """
    try:
        return json.loads(
            content.decode("utf-8-sig"),
            object_pairs_hook=_distinct_object,
            parse_constant=_refuse_constant if finite else None,
            parse_int=_short_integer,
            parse_float=_finite_number if finite else None,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def object_of(
    data: object, where: str, keys: Collection[str], optional: Collection[str] = ()
) -> JsonObject:
    """Return an object that has all of some keys, and none but these and the optional ones."""
    if not isinstance(data, dict):
        raise FieldError(f"{where} is {type(data).__name__}; expected an object.")
    unknown = [key for key in data if key not in keys and key not in optional]
    if unknown:
        names = ", ".join(map(short_repr, unknown[:5]))
        raise FieldError(f"{where}: unknown keys {names}; expected {sorted({*keys, *optional})}.")
    absent = sorted(set(keys) - set(data))
    if absent:
        raise FieldError(f"{where}: the key {absent[0]!r} is missing.")
    return data


def part_of(data: JsonObject, key: str) -> JsonObject:
    """Return an object within an object, whose own keys are for its reader to check."""
    found = data[key]
    if not isinstance(found, dict):
        raise FieldError(f"{key}: expected an object.")
    return found


def versioned_object(
    data: object,
    where: str,
    kind: str,
    version: int,
    keys: Collection[str],
    optional: Collection[str] = (),
) -> JsonObject:
    """Return an object of a format and a version, checked first: other versions have other keys."""
    if isinstance(data, dict):
        _check_version(data, kind, version)
    return object_of(data, where, keys, optional)


def _check_version(data: JsonObject, kind: str, version: int) -> None:
    if data.get("format") != kind:
        raise FieldError(f"format={short_repr(data.get('format'))}: expected {kind!r}.")
    found = data.get("schema_version")
    if type(found) is int and 0 < found < version:
        raise FieldError(
            f"schema_version={found}: this mrf_matrix reads {version}. An earlier one wrote it and "
            f"can read it; with this one, make it anew."
        )
    if type(found) is not int or found != version:
        raise FieldError(
            f"schema_version={short_repr(found)}: this mrf_matrix reads {version}; a later one may "
            f"read it. Upgrade mrf_matrix."
        )


def list_of(data: object, where: str, most: int = MOST, least: int = 0) -> list[object]:
    if not isinstance(data, list | tuple):
        raise FieldError(f"{where} is {type(data).__name__}; expected a list.")
    if not least <= len(data) <= most:
        raise FieldError(
            f"{where} has {len(data)} entries; expected at least {least} and at most {most}."
        )
    return list(data)


def whole_numbers(
    data: object,
    where: str,
    least: int = 0,
    most: int = 2**31 - 1,
    length: int | None = None,
    longest: int = 100_000,
) -> tuple[int, ...]:
    listed = list_of(data, where, most=longest)
    if length not in (None, len(listed)):
        raise FieldError(f"{where} has {len(listed)} entries; expected {length}.")
    return tuple(integer_of(item, where, least, most) for item in listed)


def integer_of(data: object, where: str, least: int = 0, most: int = 2**31 - 1) -> int:
    if type(data) is not int or not least <= data <= most:
        raise FieldError(f"{where}={short_repr(data)}: expected a whole number, {least} to {most}.")
    return data


def number_of(data: object, where: str, least: float = 0.0, most: float = inf) -> float:
    if not (type(data) is int or type(data) is float) or not isfinite(data):
        raise FieldError(f"{where}={short_repr(data)}: expected a finite number.")
    if not least <= data <= most:
        raise FieldError(f"{where}={short_repr(data)}: expected a number from {least} to {most}.")
    return float(data)


def flag_of(data: object, where: str) -> bool:
    if type(data) is not bool:
        raise FieldError(f"{where}={short_repr(data)}: expected true or false.")
    return data


def line_of_text(data: object, where: str, longest: int = LONGEST) -> str:
    """Return a line of text; control characters could act on the reader's terminal."""
    if not isinstance(data, str) or len(data) > longest or not is_plain_line(data):
        raise FieldError(f"{where}: expected a line of at most {longest} characters.")
    return data


def fraction_of(data: object, where: str) -> Fraction:
    """Return an exact number from its text: ``1/3`` or ``5``, of bounded length."""
    if not isinstance(data, str) or FRACTION.fullmatch(data) is None:
        raise FieldError(f"{where}={short_repr(data)}: expected a fraction as text: '1/2'.")
    try:
        return Fraction(data)
    except ZeroDivisionError:
        raise FieldError(f"{where}={short_repr(data)} divides by zero.") from None


def whole_of(data: object, where: str) -> int:
    """Return a whole number that is not negative from its text."""
    number = fraction_of(data, where)
    if number.denominator != 1:
        raise FieldError(f"{where}={short_repr(data)}: expected a whole number as text.")
    return number.numerator


def one_line(error: BaseException) -> str:
    """Return an error as one short line of printable text."""
    text = str(error) or type(error).__name__
    if isinstance(error, KeyError):
        text = f"the key {text} is missing."
    return "".join(c if c.isprintable() else " " for c in text)[:1000]


def _short_integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"a number has {len(text)} digits; expected at most {LONGEST_INTEGER}")
    return int(text)


def _finite_number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{shorten(text, 40)} is no finite number")
    return number


def _distinct_object(pairs: list[tuple[str, object]]) -> JsonObject:
    data = dict(pairs)
    if len(data) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"repeated keys: {short_repr(repeated)}")
    return data


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")
