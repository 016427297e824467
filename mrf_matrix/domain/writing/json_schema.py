"""The JSON Schema of a domain file, for editors that complete and check what is typed."""

from mrf_matrix.base.fields import JsonObject
from mrf_matrix.domain.serialization import FORMAT, MAX_ATTRIBUTES, MAX_VALUES, SCHEMA_VERSION
from mrf_matrix.domain.writing.shorthand import STEPS
from mrf_matrix.domain.writing.vocabularies import VOCABULARIES


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

    def listed(items: JsonObject, least: int, says: str) -> JsonObject:
        return {
            "type": "array", "minItems": least, "maxItems": MAX_VALUES, "items": items,
            "description": says,
        }  # fmt: skip

    edge: JsonObject = {"type": ["number", "string"]}
    return {
        "name": {"type": "string", "minLength": 1, "description": "The column's name."},
        "size": {"type": "integer", "minimum": 1, "description": "Integers 0 .. size-1."},
        "categories": listed(scalars, 1, "Every value that is possible."),
        "edges": listed(edge, 1, "Edges of bins, outer ones included; or ISO dates."),
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
        "missing_values": listed(scalars, 1, "Values that stand for a missing one."),
    }  # fmt: skip
