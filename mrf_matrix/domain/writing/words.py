"""An attribute in a line of words, as somebody types it at a prompt."""

import re

from mrf_matrix.base.fields import JsonObject
from mrf_matrix.domain.errors import DomainError
from mrf_matrix.domain.writing.vocabularies import VOCABULARIES

HELP = f"""\
F, M                       categories
0..4                       whole numbers, both ends included
0..120 by 10               bins of numbers; 2015-01-01..2021-01-01 by year: of dates
edges 0, 25, 40, 60        bins between edges
boolean                    true or false
codes E10-E14, I2          groups of codes by their first characters
{", ".join(VOCABULARIES)}
                           public lists
and after any of them: +missing, or +missing=999 where a value means that; +other for
values that are not listed; +open for values outside the bins; +unreadable where what is no
number, or no date, counts as missing
skip                       leave the column out: it is ignored"""
"""What may be typed."""

OPTION = re.compile(r"\s*\+(?:(other|open|unreadable)|(missing)(?:=([^+]*))?)\s*$")
STRAY = re.compile(r"\s\+\w.*")
OPTIONS: dict[str, JsonObject] = {
    "missing": {"missing": "category"},
    "other": {"unknown": "other"},
    "open": {"outside": "open"},
    "unreadable": {"missing": "category", "unreadable": "missing"},
}


def described(name: str, text: str) -> JsonObject | None:
    """Return the attribute of a line of words, as a domain file writes it; None to skip it.

    Raises DomainError if the words mean nothing.

    >>> described("age", "0..120 by 10 +open")
    {'name': 'age', 'range': [0, 120], 'step': 10, 'outside': 'open'}
    >>> described("smoker", "yes, no +missing=9")
    {'name': 'smoker', 'categories': ['yes', 'no'], 'missing': 'category', 'missing_values': [9]}
    """
    options: JsonObject = {}
    marks: list[object] = []
    while found := OPTION.search(text):
        option, value = found[1] or found[2], found[3]
        text = text[: found.start()]
        if value is not None:
            marks = [*_values(value), *marks]
        options = OPTIONS[option] | options
    text = text.strip()
    if (stray := STRAY.search(text)) is not None:
        raise DomainError(
            f"{name}: {stray[0].strip()[:80]!r} is no option. Expected +missing, +missing=999, "
            f"+unreadable, +other or +open."
        )
    if text == "skip":
        return None
    if marks:
        options["missing_values"] = marks
    return {"name": name, **_kind(name, text), **options}


def _kind(name: str, text: str) -> JsonObject:
    if text == "boolean":
        return {"boolean": True}
    if text in VOCABULARIES:
        return {"vocabulary": text}
    if ".." in text:
        ends, _, step = text.partition(" by ")
        low, _, high = ends.partition("..")
        steps = {"step": _value(step)} if step else {}
        return {"range": [_value(low), _value(high)], **steps}
    word, _, rest = text.partition(" ")
    if word == "edges" and rest:
        return {"edges": _values(rest)}
    if word == "codes" and rest:
        return {"groups": {str(code): [str(code)] for code in rest.replace(" ", "").split(",")}}
    if "," in text:
        return {"categories": _values(text)}
    raise DomainError(f"{name}: {text[:80]!r} describes no attribute. Expected one of\n{HELP}")


def _values(text: str) -> list[str | int | float]:
    """Return a list of numbers, or of texts where one of them is none."""
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    values = list(map(_value, pieces))
    return [*pieces] if any(isinstance(value, str) for value in values) else values


def _value(text: str) -> str | int | float:
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
