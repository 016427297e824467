"""Short forms of an attribute, for domain files and for a line typed at a prompt."""

import re
from collections.abc import Mapping, Sequence
from datetime import MAXYEAR, date
from fractions import Fraction

from mrf_matrix.base.checks import DomainError, short_repr
from mrf_matrix.base.fields import FieldError, JsonObject, one_line

Vocabulary = Sequence[str] | Mapping[str, Sequence[str]]  # categories, or groups of codes by prefix


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VOCABULARIES: dict[str, Vocabulary] = {
    "weekdays": words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "months": words(
        "January February March April May June July August September October November December"
    ),
    "blood_types": words("A+ A- B+ B- AB+ AB- O+ O-"),
    "eu_countries": words(
        "AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE"
    ),
    "us_states": words(
        "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV "
        "NH NJ NM NY NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY"
    ),
    "icd10_chapters": {
        "infections": ("A00-B99",),
        "neoplasms": ("C00-D49",),
        "blood": ("D50-D89",),
        "endocrine": ("E00-E89",),
        "mental": ("F01-F99",),
        "nervous system": ("G00-G99",),
        "eye": ("H00-H59",),
        "ear": ("H60-H95",),
        "circulation": ("I00-I99",),
        "respiration": ("J00-J99",),
        "digestion": ("K00-K95",),
        "skin": ("L00-L99",),
        "musculoskeletal": ("M00-M99",),
        "genitourinary": ("N00-N99",),
        "pregnancy": ("O00-O99",),
        "perinatal": ("P00-P96",),
        "congenital": ("Q00-Q99",),
        "symptoms": ("R00-R99",),
        "injuries": ("S00-T98",),
        "special purposes": ("U00-U99",),
        "external causes": ("V00-Y99",),
        "contact with services": ("Z00-Z99",),
    },
}
"""By name. Countries are ISO 3166-1 alpha-2; diagnoses are the chapters of the WHO's ICD-10 and of
its US modification, whose last codes are the larger ones here."""


SHORTHAND = ("boolean", "range", "step", "vocabulary")
STEPS = {"month": 1, "quarter": 3, "year": 12}
"""Steps of dates, in months."""

MOST_BINS = 100_000


def expand_shorthand(data: JsonObject) -> JsonObject:
    """Return an attribute without short forms.

    ``"boolean": true`` are the categories false and true; ``"range": [0, 120]`` the integers of
    both ends and between; ``"range"`` with ``"step"`` bins of one width, or months, quarters or
    years of dates; ``"vocabulary"`` is a public list by name.

    Raises FieldError if a short form is none of these, or two are given.

    >>> expand_shorthand({"name": "age", "range": [0, 60], "step": 20})
    {'name': 'age', 'edges': [0, 20, 40, 60]}
    >>> expand_shorthand({"name": "day", "range": ["2020-01-01", "2021-01-01"], "step": "quarter"})[
    ...     "edges"
    ... ]
    ['2020-01-01', '2020-04-01', '2020-07-01', '2020-10-01', '2021-01-01']
    """
    rest = {key: value for key, value in data.items() if key not in SHORTHAND}
    given = [key for key in ("boolean", "range", "vocabulary") if key in data]
    if len(given) > 1:
        raise FieldError(f"got {' and '.join(given)}; expected one of them.")
    if "step" in data and given != ["range"]:
        raise FieldError("step goes with range: {'range': [0, 120], 'step': 10}.")
    if not given:
        return rest
    if given == ["boolean"]:
        if data["boolean"] is not True:
            raise FieldError("boolean expects true.")
        written: JsonObject = {"categories": [False, True]}
    elif given == ["range"]:
        written = _range_values(data["range"], data.get("step"))
    else:
        name = data["vocabulary"]
        if not isinstance(name, str) or name not in VOCABULARIES:
            raise FieldError(
                f"vocabulary={short_repr(name)}; expected one of {', '.join(VOCABULARIES)}."
            )
        found = VOCABULARIES[name]
        written = {"groups": found} if isinstance(found, dict) else {"categories": found}
    clash = written.keys() & rest.keys()
    if clash:
        raise FieldError(f"got {given[0]} and {clash.pop()}; expected one of them.")
    return rest | written


def _range_values(ends: object, step: object) -> JsonObject:
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        raise FieldError(f"range={short_repr(ends)}; expected its two ends, for example [0, 120].")
    low, high = ends
    if isinstance(low, str):
        return {"edges": _date_edges(low, high, step)}
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
        raise FieldError(f"range={short_repr(ends)}; expected two numbers, or two dates.")
    if not low < high:
        raise FieldError(f"range={short_repr(ends)}; expected the smaller end first.")
    if step is None:
        if not (isinstance(low, int) and isinstance(high, int)):
            raise FieldError(f"range={short_repr(ends)}; numbers that are no integers need a step.")
        return {"categories": range(low, high + 1)}
    if isinstance(step, bool) or not isinstance(step, int | float) or not step > 0:
        raise FieldError(f"step={short_repr(step)}; expected a positive number.")
    return {"edges": _edges(Fraction(str(low)), Fraction(str(high)), Fraction(str(step)))}


def _edges(low: Fraction, high: Fraction, step: Fraction) -> list[int | float]:
    """Return edges a step apart, without a float's drift; the last ends the range."""
    if (high - low) / step > MOST_BINS:
        raise FieldError(f"more than {MOST_BINS} bins; expected a larger step.")
    whole = [low + i * step for i in range(int((high - low) / step) + 1)]
    if whole[-1] < high:
        whole.append(high)
    return [int(edge) if edge.denominator == 1 else float(edge) for edge in whole]


def _date_edges(low: str, high: object, step: object) -> list[str]:
    if step not in STEPS:
        raise FieldError(f"step={short_repr(step)}; of dates expected one of {', '.join(STEPS)}.")
    try:
        first, last = date.fromisoformat(low), date.fromisoformat(str(high))
    except ValueError as error:
        raise FieldError(
            f"range={short_repr([low, high])}; expected two dates as 2020-01-31 "
            f"({one_line(error)})."
        ) from error
    if first.day > 28 or not first < last:
        raise FieldError(
            f"range={short_repr([low, high])}; expected the earlier date first, by day 28."
        )
    edges, months = [first], STEPS[str(step)]
    while edges[-1] < last and len(edges) <= MOST_BINS:
        year, month = divmod(edges[-1].year * 12 + edges[-1].month - 1 + months, 12)
        beyond = year > MAXYEAR  # there is no such date: the range ends before
        edges.append(last if beyond else min(date(year, month + 1, first.day), last))
    return [edge.isoformat() for edge in edges]


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
"""The words that may be typed."""

OPTION = re.compile(r"\s*\+(?:(other|open|unreadable)|(missing)(?:=([^+]*))?)\s*$")
STRAY = re.compile(r"\s\+\w.*")
OPTIONS: dict[str, JsonObject] = {
    "missing": {"missing": "category"},
    "other": {"unknown": "other"},
    "open": {"outside": "open"},
    "unreadable": {"missing": "category", "unreadable": "missing"},
}


def attribute_from_words(name: str, text: str) -> JsonObject | None:
    """Return the attribute of a line of words, as a domain file writes it; None to skip it.

    Raises DomainError if the words mean nothing.

    >>> attribute_from_words("age", "0..120 by 10 +open")
    {'name': 'age', 'range': [0, 120], 'step': 10, 'outside': 'open'}
    >>> attribute_from_words("smoker", "yes, no +missing=9")
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
