"""Short forms of an attribute in a domain file, written out as categories, edges or groups."""

from datetime import MAXYEAR, date
from fractions import Fraction

from mrf_matrix.base.fields import FieldError, JsonObject, one_line
from mrf_matrix.base.shown import shown
from mrf_matrix.domain.writing.vocabularies import VOCABULARIES

SHORTHAND = {"boolean", "range", "step", "vocabulary"}
STEPS = {"month": 1, "quarter": 3, "year": 12}
"""Steps of dates, in months."""

MOST_BINS = 100_000


def written_out(data: JsonObject) -> JsonObject:
    """Return an attribute without short forms.

    ``"boolean": true`` are the categories false and true; ``"range": [0, 120]`` the integers of
    both ends and between; ``"range"`` with ``"step"`` bins of one width, or months, quarters or
    years of dates; ``"vocabulary"`` is a public list by name.

    Raises FieldError if a short form is none of these, or two are given.

    >>> written_out({"name": "age", "range": [0, 60], "step": 20})
    {'name': 'age', 'edges': [0, 20, 40, 60]}
    >>> written_out({"name": "day", "range": ["2020-01-01", "2021-01-01"], "step": "quarter"})[
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
        written = _of_range(data["range"], data.get("step"))
    else:
        name = data["vocabulary"]
        if not isinstance(name, str) or name not in VOCABULARIES:
            raise FieldError(
                f"vocabulary={shown(name)}; expected one of {', '.join(VOCABULARIES)}."
            )
        found = VOCABULARIES[name]
        written = {"groups": found} if isinstance(found, dict) else {"categories": found}
    clash = written.keys() & rest.keys()
    if clash:
        raise FieldError(f"got {given[0]} and {clash.pop()}; expected one of them.")
    return rest | written


def _of_range(ends: object, step: object) -> JsonObject:
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        raise FieldError(f"range={shown(ends)}; expected its two ends, for example [0, 120].")
    low, high = ends
    if isinstance(low, str):
        return {"edges": _date_edges(low, high, step)}
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
        raise FieldError(f"range={shown(ends)}; expected two numbers, or two dates.")
    if not low < high:
        raise FieldError(f"range={shown(ends)}; expected the smaller end first.")
    if step is None:
        if not (isinstance(low, int) and isinstance(high, int)):
            raise FieldError(f"range={shown(ends)}; numbers that are no integers need a step.")
        return {"categories": range(low, high + 1)}
    if isinstance(step, bool) or not isinstance(step, int | float) or not step > 0:
        raise FieldError(f"step={shown(step)}; expected a positive number.")
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
        raise FieldError(f"step={shown(step)}; of dates expected one of {', '.join(STEPS)}.")
    try:
        first, last = date.fromisoformat(low), date.fromisoformat(str(high))
    except ValueError as error:
        raise FieldError(
            f"range={shown([low, high])}; expected two dates as 2020-01-31 ({one_line(error)})."
        ) from error
    if first.day > 28 or not first < last:
        raise FieldError(f"range={shown([low, high])}; expected the earlier date first, by day 28.")
    edges, months = [first], STEPS[str(step)]
    while edges[-1] < last and len(edges) <= MOST_BINS:
        year, month = divmod(edges[-1].year * 12 + edges[-1].month - 1 + months, 12)
        beyond = year > MAXYEAR  # there is no such date: the range ends before
        edges.append(last if beyond else min(date(year, month + 1, first.day), last))
    return [edge.isoformat() for edge in edges]
