"""A domain as JSON, which is read with suspicion, as text and as a table; its JSON Schema."""

import json
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from mrf_matrix.base import whole_file
from mrf_matrix.base.checks import SHOWN, DomainError, magnitude
from mrf_matrix.base.display import html_table
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    list_of,
    object_of,
    parse_json,
    versioned_object,
)
from mrf_matrix.base.files import UnreadableError, content_of
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.shorthand import SHORTHAND, STEPS, VOCABULARIES, expand_shorthand

FORMAT = "mrf_matrix.domain"
SCHEMA_VERSION = 1
MAX_BYTES = 32 * 1024**2
MAX_ATTRIBUTES = 100_000
MAX_VALUES = 1_000_000

DomainParts = tuple[list[Attribute], Attribute | None]
"""Attributes and target."""

READ_OFF_KEY = "is_read_off"
DOMAIN_KEYS = {"$schema", "format", "schema_version", "attributes", "target", READ_OFF_KEY}
OPTIONS = ("unknown", "outside", "missing", "unreadable")
KINDS = ("size", "categories", "edges", "groups")
ATTRIBUTE_KEYS = {"name", *KINDS, *OPTIONS, "missing_values"}


def domain_to_dict(
    attributes: Sequence[Attribute], target: Attribute | None, *, is_read_off: bool = False
) -> JsonObject:
    """Return a domain's attributes and target as JSON-ready data, and that it is read off if so."""
    said: JsonObject = {READ_OFF_KEY: True} if is_read_off else {}
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "attributes": [attribute_to_dict(attribute) for attribute in attributes],
        "target": None if target is None else attribute_to_dict(target),
        **said,
    }


def attribute_to_dict(attribute: Attribute) -> JsonObject:
    """Return an attribute as JSON-ready data, options left out where they are the default."""
    data: JsonObject = {"name": attribute.name}
    if attribute.edges is not None:
        data["edges"] = [str(edge) if attribute.is_date else edge for edge in attribute.edges]
    elif attribute.groups is not None:
        data["groups"] = {label: list(prefixes) for label, prefixes in attribute.groups}
    elif isinstance(attribute.categories, range) and attribute.categories.start == 0:
        data["size"] = len(attribute.categories)
    else:
        data["categories"] = list(attribute.categories or ())
    options = {option: getattr(attribute, option) for option in OPTIONS}
    if attribute.missing_values:
        data["missing_values"] = list(attribute.missing_values)
    return data | {option: value for option, value in options.items() if value != "error"}


def domain_from_dict(data: object, where: str = "domain") -> DomainParts:
    """Return the parts of the domain that :func:`domain_to_dict` wrote.

    Raises DomainError if anything is missing, unknown, of another type, or beyond the size caps.
    """
    try:
        given = domain_object(data, where)
        attributes = [
            attribute_from_dict(item, f"attribute {i}")
            for i, item in enumerate(list_of(given["attributes"], "attributes", MAX_ATTRIBUTES))
        ]
        target = given.get("target")
        of_classes = None if target is None else attribute_from_dict(target, "target")
        read_off = given.get(READ_OFF_KEY, False)
        if not isinstance(read_off, bool):
            raise FieldError(f"{READ_OFF_KEY} is not true or false.")
        if not read_off:
            return attributes, of_classes
        classes = None if of_classes is None else of_classes.read_off()
        return [one.read_off() for one in attributes], classes
    except FieldError as error:
        raise DomainError(f"{where}: {error}") from error


def domain_object(data: object, where: str) -> JsonObject:
    """Return the object of a domain; by hand, format and version may be left out."""
    if isinstance(data, dict):
        data = {"format": FORMAT, "schema_version": SCHEMA_VERSION} | data
    return versioned_object(data, where, FORMAT, SCHEMA_VERSION, ("attributes",), DOMAIN_KEYS)


def attribute_from_dict(item: object, where: str) -> Attribute:
    data = object_of(item, where, ("name",), {*ATTRIBUTE_KEYS, *SHORTHAND})
    for key in ("categories", "edges", "missing_values"):
        if data.get(key) is not None:
            list_of(data[key], f"{where}: {key}", MAX_VALUES)
    try:
        if not data.keys().isdisjoint(SHORTHAND):
            data = expand_shorthand(data)
        return Attribute(**data)  # type: ignore[arg-type]  # which checks all that it is given
    except (ValueError, TypeError, ArithmeticError) as error:  # whoever wrote it, may write all
        raise FieldError(f"{where}: {error}") from error


def save_domain(data: JsonObject, path: "str | os.PathLike[str]") -> None:
    head = {key: data[key] for key in ("format", "schema_version")}
    attributes = list_of(data["attributes"], "attributes", MAX_ATTRIBUTES)
    listed = ",\n".join(f"    {json.dumps(item, ensure_ascii=False)}" for item in attributes)
    text = (
        json.dumps(head)[:-1]
        + f',\n  "attributes": [\n{listed}\n  ],\n  "target": '
        + json.dumps(data["target"], ensure_ascii=False)
        + (f',\n  "{READ_OFF_KEY}": true' if data.get(READ_OFF_KEY) else "")
        + "\n}\n"
    )
    with whole_file(Path(path)) as file:
        file.write(text.encode("utf-8"))


def load_domain(path: "str | os.PathLike[str]") -> DomainParts:
    """Read the parts of a domain from a JSON file that may be untrusted.

    Raises DomainError if the file is larger than 32 MiB, is not JSON, or does not hold a valid
    domain; FileNotFoundError if there is no such file.
    """
    return domain_from_dict(domain_json(path), os.fspath(path))


def domain_json(path: "str | os.PathLike[str]") -> object:
    try:
        return parse_json(content_of(path, MAX_BYTES))
    except UnreadableError as error:
        raise DomainError(str(error)) from error
    except ValueError as error:
        where = os.fspath(path)
        raise DomainError(f"{where} is not a domain file in JSON: {error}") from error


def domain_schema() -> JsonObject:
    """Return the JSON Schema (2020-12) of a domain file.

    It accepts every file that `Domain.from_dict` takes; what an editor cannot check, edges out of
    order or prefixes of two groups, `mrf-matrix domain check` does.
    """
    attribute = {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": _properties(),
        "oneOf": [
            {"required": [kind]}
            for kind in (
                "size", "categories", "edges", "groups", "boolean", "range", "vocabulary",
            )
        ],
        "dependentRequired": {"step": ["range"], "missing_values": ["missing"]},
    }  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A public domain of mrf_matrix",
        "type": "object",
        "required": ["attributes"],
        "additionalProperties": False,
        "properties": {
            "$schema": {"type": "string"},
            "format": {"const": FORMAT},
            "schema_version": {"const": SCHEMA_VERSION},
            "attributes": {
                "type": "array", "minItems": 1, "maxItems": MAX_ATTRIBUTES,
                "items": {"$ref": "#/$defs/attribute"},
            },
            "target": {"anyOf": [{"$ref": "#/$defs/attribute"}, {"type": "null"}]},
        },
        "$defs": {"attribute": attribute},
    }  # fmt: skip


def _properties() -> JsonObject:
    scalars: JsonObject = {"type": ["string", "number", "boolean"]}
    texts: JsonObject = {
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "pattern": r"\S"},
    }

    def array_of(items: JsonObject, least: int, says: str) -> JsonObject:
        return {
            "type": "array", "minItems": least, "maxItems": MAX_VALUES, "items": items,
            "description": says,
        }  # fmt: skip

    edge: JsonObject = {"type": ["number", "string"]}
    return {
        "name": {"type": "string", "minLength": 1, "description": "The column's name."},
        "size": {"type": "integer", "minimum": 1, "description": "Integers 0 .. size-1."},
        "categories": array_of(scalars, 1, "Every value that is possible."),
        "edges": array_of(edge, 1, "Edges of bins, outer ones included; or ISO dates."),
        "groups": {
            "description": "Groups of codes by prefix: a label and prefixes, as E10-E14.",
            "anyOf": [{"type": "object", "minProperties": 1, "additionalProperties": texts}, texts],
        },
        "boolean": {"const": True, "description": "False and true."},
        "range": {
            "type": "array", "minItems": 2, "maxItems": 2, "items": edge,
            "description": "Both ends of whole numbers, or with step of bins.",
        },
        "step": {
            "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"enum": list(STEPS)}],
            "description": "Width of a bin of the range.",
        },
        "vocabulary": {"enum": list(VOCABULARIES), "description": "A public list by name."},
        "unknown": {"enum": ["error", "other"], "description": "Values that are not listed."},
        "outside": {"enum": ["error", "open"], "description": "Numbers beyond the edges."},
        "missing": {"enum": ["error", "category"], "description": "Missing values."},
        "unreadable": {
            "enum": ["error", "missing", "other"],
            "description": "Values of no kind expected.",
        },
        "missing_values": array_of(scalars, 1, "Values that stand for a missing one."),
    }  # fmt: skip


EXACT_BELOW = 10**12
MOST_ROWS = 50
WIDE = 50  # codes above which most get few records

FEW = 100  # records of a code below which noise weighs at budgets around one


def readable_count(n: int) -> str:
    """Write a count, ``1,728`` or ``about 9.7e398``.

    >>> readable_count(1728), readable_count(4**30), readable_count(10**5000)
    ('1,728', 'about 1.2e18', 'about 1.0e5000')
    """
    return f"{n:,}" if n < EXACT_BELOW else magnitude(Fraction(n))


def domain_text(attributes: Sequence[Attribute], target: Attribute | None, size: int) -> str:
    """Return a domain of so many cells as text, an attribute a line, twenty at most."""
    lines = [f"    {attribute!r}," for attribute in attributes[:20]]
    if len(attributes) > 20:
        lines.append(f"    ... {len(attributes) - 20} more,")
    listed = "\n".join(lines)
    return f"Domain([\n{listed}\n], target={target!r})  # {readable_count(size)} cells"


def domain_html(attributes: Sequence[Attribute], target: Attribute | None, size: int) -> str:
    """Return a domain as an HTML table: its attributes, their number of codes, first labels."""
    rows = [attribute_row(attribute) for attribute in attributes[:MOST_ROWS]]
    if len(attributes) > len(rows):
        rows.append((f"{len(attributes) - len(rows)} more", "", ""))
    if target is not None:
        rows.append(attribute_row(target, " (target)"))
    caption = f"{len(attributes)} attributes, {readable_count(size)} cells"
    return html_table(caption, rows, ("attribute", "codes", "labels"))


def attribute_row(attribute: Attribute, note: str = "") -> tuple[str, str, str]:
    shown = [str(label) for label in attribute.labels[: 2 * SHOWN]]
    text = " · ".join(shown) + (" · ..." if attribute.size > len(shown) else "")
    return f"{attribute.name}{note}", str(attribute.size), text


def wide_columns(attributes: Sequence[Attribute], n_records: int | None = None) -> list[str]:
    """Return a line of advice for every attribute with many codes.

    `n_records`: the *public* number of records; without it, nothing is said of records.

    >>> print(*wide_columns([Attribute("x0", size=200)], 1000))
    'x0': 200 codes: group them, or expect about 5 records of each. Take bins: "range", "step".
    >>> wide_columns([Attribute("x0", size=20)])
    []
    """
    return [
        _advice(one, n_records)
        for one in attributes
        if one.size > WIDE and (n_records is None or n_records / one.size <= FEW)
    ]


def _advice(attribute: Attribute, n_records: int | None) -> str:
    expect = "that most of them drown in noise"
    if n_records is not None:
        expect = f"about {n_records / attribute.size:.2g} records of each"
    return (
        f"{attribute.name!r}: {attribute.size} codes: group them, or expect {expect}. "
        f"{_remedy(attribute)}"
    )


def _remedy(attribute: Attribute) -> str:
    values: Sequence[object] | None = attribute.categories
    if attribute.is_binned:
        return "Take fewer, wider bins."
    if isinstance(values, range):
        return 'Take bins: "range", "step".'
    return (
        'List the common ones with "unknown": "other", or group codes: "groups": {"heart": ["I2"]}.'
    )
