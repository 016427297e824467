"""Domains of schemas that were written for other tools: Frictionless Table Schema, pandera."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.shown import shown
from mrf_matrix.domain.errors import DomainError, name_some

DEFAULT_BINS = 10  # bins of a range of numbers that the schema does not divide

MOST_INTEGERS = 20  # integers of a range that stay values of their own


def foreign_domain(schema: object, target: str) -> JsonObject:
    """Return the domain file of another tool's schema, for `Domain.from_dict`.

    Enumerations become categories, booleans booleans, and ranges of numbers ten bins (integers up
    to twenty of them values); missing values get a code where the schema allows them.

    `schema`: a Frictionless Table Schema or resource (``fields``, ``constraints``), or
    pandera's ``to_json`` or ``to_yaml`` (``columns``, ``checks``), as parsed; `target`: the column
    of the classes.

    Raises DomainError if it is neither, has no such column, or columns have no finite set of
    values: all of them are named.

    >>> made = foreign_domain({"fields": [
    ...     {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
    ...     {"name": "ill", "type": "boolean", "constraints": {"required": True}},
    ... ]}, target="ill")
    >>> made["attributes"]
    [{'name': 'age', 'range': [0, 120], 'step': 12, 'missing': 'category'}]
    """
    columns = _columns(schema)
    if target not in columns:
        raise DomainError(
            f"target={shown(target)}: expected a column of the schema: {name_some(columns)}."
        )
    unbounded = [name for name, told in columns.items() if told is None]
    if unbounded:
        raise DomainError(
            f"the schema gives no finite set of values for {name_some(unbounded)}. Add an "
            "enumeration, or a smallest and a largest value; or drop the columns from it."
        )
    known = cast(dict[str, JsonObject], columns)
    attributes = [{"name": name, **told} for name, told in known.items() if name != target]
    classes = {key: value for key, value in known[target].items() if key != "missing"}
    return {"attributes": attributes, "target": {"name": target, **classes}}


def _columns(schema: object) -> dict[str, JsonObject | None]:
    given = _mapping(schema)
    if isinstance(given.get("resources"), list) and len(given["resources"]) == 1:
        given = _mapping(given["resources"][0])
    given = _mapping(given.get("schema", given))
    if isinstance(given.get("fields"), list):
        return _each([(_name(one), one) for one in given["fields"]], _of_field)
    if isinstance(given.get("columns"), Mapping):
        return _each([(str(name), one) for name, one in given["columns"].items()], _of_column)
    raise DomainError(
        "the schema is neither a Frictionless Table Schema (fields) nor one of pandera (columns)."
    )


def _mapping(data: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one in place of whatever else there is."""
    return data if isinstance(data, Mapping) else {}


def _name(field: object) -> str:
    name = field.get("name") if isinstance(field, Mapping) else None
    if not isinstance(name, str):
        raise DomainError("the schema has a field without a name; expected one for every column.")
    return name


def _each(
    columns: Sequence[tuple[str, Any]], read: Callable[[Mapping[str, Any]], JsonObject | None]
) -> dict[str, JsonObject | None]:
    """Return what each column tells; whoever wrote the schema may have written anything."""
    counts = Counter(name for name, _ in columns)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise DomainError(f"the schema repeats {name_some(sorted(repeated))}; name columns once.")
    told: dict[str, JsonObject | None] = {}
    for name, one in columns:
        try:
            told[name] = read(one)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise DomainError(
                f"the schema's column {shown(name)} is not as Frictionless or pandera write it. "
                "Expected its type, and an enumeration or two finite ends."
            ) from None
    return told


def _of_field(field: Mapping[str, Any]) -> JsonObject | None:
    """Return what a Frictionless field says of its values."""
    rules = field.get("constraints", {})
    return _told(
        str(field.get("type", "string")), rules.get("enum") or field.get("categories"),
        rules.get("minimum"), rules.get("maximum"), not rules.get("required", False),
    )  # fmt: skip


def _of_column(column: Mapping[str, Any]) -> JsonObject | None:
    """Return what pandera's column says; its checks are a mapping, or a list of later versions."""
    checks: dict[str, Any] = {}
    found = column.get("checks") or {}
    if isinstance(found, Mapping):
        checks = {
            name: one.get("value", one) if isinstance(one, Mapping) else one
            for name, one in found.items()
        }
    else:
        checks = {
            one["options"]["check_name"]: one.get(
                "value", {key: value for key, value in one.items() if key != "options"}
            )
            for one in found
        }
    within = checks.get("in_range") or {}
    return _told(
        str(column.get("dtype", "")), checks.get("isin"),
        within.get("min_value", checks.get("greater_than_or_equal_to")),
        within.get("max_value", checks.get("less_than_or_equal_to")),
        bool(column.get("nullable")),
    )  # fmt: skip


def _told(kind: str, values: Any, low: Any, high: Any, missing: bool) -> JsonObject | None:
    option: JsonObject = {"missing": "category"} if missing else {}
    if isinstance(values, Mapping):
        values = values.get("allowed_values")
    if values:
        labels = [one.get("value") if isinstance(one, Mapping) else one for one in values]
        return {"categories": labels, **option}
    if kind.startswith("bool"):
        return {"boolean": True, **option}
    if low is None or high is None:
        return None
    if isinstance(low, str):
        return {"range": [low[:10], str(high)[:10]], "step": "year", **option}
    if kind.startswith("int") and high - low < MOST_INTEGERS:
        return {"range": [int(low), int(high)], **option}
    step = (high - low) / DEFAULT_BINS
    return {"range": [low, high], "step": int(step) if step == int(step) else step, **option}
