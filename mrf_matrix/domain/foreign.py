"""Domains of schemas that were written for other tools, and YAML of strangers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from mrf_matrix.base.checks import DomainError, name_some, short_repr
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.domain.texts import MISSING_MARKS

MOST_YAML = 4 * 1024**2
"""Bytes of a text: a schema of 100 000 values has 2 MB, and a second of reading takes as many."""

MOST_VALUES = 1_000_000
DEEPEST = 50
LONGEST_SCALAR = 4000  # characters; numbers of more take a square of them to read


def yaml_value(content: bytes) -> object:
    """Return the value of YAML in UTF-8.

    Aliases, with which a few lines stand for any amount, are counted as what they stand for before
    they are followed. Repeated keys, of which one would be lost, are refused as in JSON.

    Raises DomainError if it is no such YAML, or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise DomainError(
            "reading YAML needs PyYAML; pip install pyyaml, or write it as JSON."
        ) from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if len(content) > MOST_YAML:
        raise DomainError(f"it has {len(content)} bytes; expected at most {MOST_YAML} of YAML.")
    try:
        text = content.decode("utf-8-sig")
        _check_events(yaml.parse(text, Loader=loader))
        distinct = type("Distinct", (loader,), {"construct_mapping": _construct_mapping})
        return yaml.load(text, Loader=distinct)  # a SafeLoader
    except DomainError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise DomainError(f"it is not YAML that is read here: {error}") from error


def _check_events(events: Any) -> None:
    """Refuse what makes a short text long, before any value is made of it."""
    sizes: dict[str | None, int] = {}  # of the values with an anchor, aliases written out
    stack: list[tuple[str | None, int]] = [(None, 0)]  # anchors of what is open, values so far
    for event in events:
        kind, anchor = type(event).__name__, getattr(event, "anchor", None)
        size = 0
        if kind == "AliasEvent":
            size = sizes.get(anchor, MOST_VALUES + 1)  # unknown: an alias within its own value
        elif kind == "ScalarEvent":
            size = sizes[anchor] = 1
            if len(event.value) > LONGEST_SCALAR:
                raise DomainError(f"a value has more than {LONGEST_SCALAR} characters.")
        elif kind.endswith("StartEvent"):
            stack.append((anchor, 1))
        elif kind.endswith("EndEvent"):
            anchor, size = stack.pop()
            sizes[anchor] = size
        below, known = stack.pop() if stack else (None, 0)
        stack.append((below, known + size))
        if known + size > MOST_VALUES or len(stack) > DEEPEST:
            raise DomainError(
                f"it has more than {MOST_VALUES} values, aliases (*x) written out, or is nested "
                f"more than {DEEPEST} deep."
            )


def _construct_mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
    """Construct a mapping as PyYAML does, of distinct keys."""
    counts = Counter(getattr(key, "value", None) for key, _ in node.value)
    repeated = [key for key, count in counts.items() if count > 1 and isinstance(key, str)]
    if repeated:
        raise DomainError(f"the key {short_repr(repeated[0])} is repeated.")
    return dict(super(type(loader), loader).construct_mapping(node, deep=deep))


DEFAULT_BINS = 10  # bins of a range of numbers that the schema does not divide

MOST_INTEGERS = 20  # integers of a range that stay values of their own


def foreign_domain(schema: object, target: str) -> JsonObject:
    """Return the domain file of another tool's schema, for `Domain.from_dict`.

    Enumerations become categories, booleans booleans, and ranges of numbers ten bins (integers up
    to twenty of them values); missing values get a code where the schema allows them, and its marks
    of them are the attribute's. What a domain has no word for `schema_losses` tells.

    `schema`: a Frictionless Table Schema or resource (``fields``, ``constraints``), or
    pandera's ``to_json`` or ``to_yaml`` (``columns``, ``checks``), as parsed; `target`: the column
    of the classes.

    Raises DomainError if it is neither, has no such column, or columns have no finite set of
    values, or are written so that no reader of ours would read them: all of them are named.

    >>> made = foreign_domain({"fields": [
    ...     {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
    ...     {"name": "ill", "type": "boolean", "constraints": {"required": True}},
    ... ]}, target="ill")
    >>> made["attributes"]
    [{'name': 'age', 'range': [0, 120], 'step': 12, 'missing': 'category'}]
    """
    columns = _columns(schema)
    _refuse_notations(schema)
    if target not in columns:
        raise DomainError(
            f"target={short_repr(target)}: expected a column of the schema: {name_some(columns)}."
        )
    unbounded = [name for name, told in columns.items() if told is None]
    if unbounded:
        raise DomainError(
            f"the schema gives no finite set of values for {name_some(unbounded)}. Add an "
            "enumeration, or a smallest and a largest value; or drop the columns from it."
        )
    known = cast(dict[str, JsonObject], columns)
    attributes = [{"name": name, **told} for name, told in known.items() if name != target]
    classes = {key: value for key, value in known[target].items() if not key.startswith("missing")}
    return {"attributes": attributes, "target": {"name": target, **classes}}


def schema_losses(schema: object) -> list[str]:
    """Return what a schema says and a domain does not, a sentence each: how files are written.

    `schema`: one that `foreign_domain` takes.
    """
    resource, given = _parts(schema)
    notes = _file_notes(resource, _fields(given))
    for name, one in _named_rules(given):
        if told := [key for key in one if key not in KEPT_RULES]:
            notes.append(f"{short_repr(name)}: {name_some(told)} of its values is not kept.")
    for field in _fields(given):
        if field.get("categoriesOrdered"):
            notes.append(
                f"{short_repr(field.get('name'))}: that its categories are ordered is lost."
            )
    return notes


def _file_notes(resource: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how the files of a resource are written, in the words of readers' options."""
    dialect = _mapping(resource.get("dialect"))
    told = {"separator": dialect.get("delimiter"), "encoding": resource.get("encoding")}
    usual = {"separator": ",", "encoding": "utf-8"}
    marks = {str(one.get("decimalChar", ".")) for one in fields if one.get("type") == "number"}
    if marks == {","}:
        told["decimal"] = ","
    options = [
        f"{key}={value!r}"
        for key, value in told.items()
        if isinstance(value, str) and value.lower() != usual.get(key)
    ]
    notes = [f"Read its files with {', '.join(options)} in file_format=FileFormat(...)."]
    strange = [
        key
        for key, value in dialect.items()
        if key not in READ_DIALECT and USUAL_DIALECT.get(key, value is None) != value
    ]
    if strange:
        notes.append(f"Its dialect has {name_some(strange)}, which no reader here takes.")
    return notes if options else notes[1:]


READ_DIALECT = {"delimiter", "skipInitialSpace", "lineTerminator", "$schema", "name", "type"}
USUAL_DIALECT = {"quoteChar": '"', "doubleQuote": True, "header": True, "caseSensitiveHeader": True}
KEPT_RULES = {
    "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "required",
    "isin", "in_range", "greater_than_or_equal_to", "less_than_or_equal_to", "greater_than",
    "less_than",
}  # fmt: skip
"""Rules of values that become an attribute's, of Frictionless and of pandera."""

ISO_FORMATS = {
    "default", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S",
}  # fmt: skip


def _refuse_notations(schema: object) -> None:
    """Refuse fields whose values are written as no reader of ours reads them, all by name."""
    fields = _fields(_parts(schema)[1])
    wrong = [f"{short_repr(one.get('name'))} ({why})" for one in fields if (why := _notation(one))]
    numbers = [one for one in fields if one.get("type") == "number"]
    if len({str(one.get("decimalChar", ".")) for one in numbers}) > 1:
        names = [one.get("name") for one in numbers if one.get("decimalChar", ".") != "."]
        wrong.append(f"{name_some(names)} (decimalChar, where other numbers have points)")
    if wrong:
        raise DomainError(
            f"the schema has values written as they are not read here: {', '.join(wrong)}. Convert "
            "these columns, and correct the schema; or drop them from it."
        )


def _notation(field: Mapping[str, Any]) -> str | None:
    """Return what of a field's notation is not read here; None where all is."""
    kind, form = str(field.get("type", "string")), field.get("format", "default")
    if kind in ("date", "datetime", "time") and form not in ISO_FORMATS:
        return f"format {short_repr(form)}; dates are read as 2020-01-31"
    if kind in ("number", "integer") and field.get("groupChar"):
        return "groupChar"
    if kind in ("number", "integer") and field.get("bareNumber", True) is not True:
        return "bareNumber"
    if kind == "number" and field.get("decimalChar", ".") not in (".", ","):
        return "decimalChar"
    if kind == "boolean" and _boolean_values(field) is None:
        return "trueValues and falseValues of several spellings"
    clash = set(_marks(field)) & {str(one) for one in _labels(_values_of(field))}
    return f"missingValues and values both name {name_some(sorted(clash))}" if clash else None


def _boolean_values(field: Mapping[str, Any]) -> JsonObject | None:
    """Return a boolean field's values; None if one of the two has several spellings."""
    true, false = field.get("trueValues") or ["true"], field.get("falseValues") or ["false"]
    if {str(one).lower() for one in true} <= {"true"} and {str(one).lower() for one in false} <= {
        "false"
    }:
        return {"boolean": True}
    return {"categories": [*false, *true]} if len(true) == len(false) == 1 else None


def _marks(field: Mapping[str, Any]) -> list[str]:
    """Return a field's marks of missing values, but for those that are known anyway."""
    given = field.get("missingValues") or ()
    texts = [str(one.get("value") if isinstance(one, Mapping) else one).strip() for one in given]
    return [one for one in dict.fromkeys(texts) if one not in MISSING_MARKS]


def _values_of(field: Mapping[str, Any]) -> Any:
    return _mapping(field.get("constraints")).get("enum") or field.get("categories") or ()


def _labels(values: Any) -> list[Any]:
    return [one.get("value") if isinstance(one, Mapping) else one for one in values]


def _parts(schema: object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the resource that a schema is of, which may be itself, and the schema."""
    resource = _mapping(schema)
    if isinstance(resource.get("resources"), list) and len(resource["resources"]) == 1:
        resource = _mapping(resource["resources"][0])
    return resource, _mapping(resource.get("schema", resource))


def _fields(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fields = given.get("fields")
    marks = given.get("missingValues", [""])
    listed = fields if isinstance(fields, list) else []
    return [{"missingValues": marks, **_mapping(one)} for one in listed]


def _named_rules(given: Mapping[str, Any]) -> list[tuple[object, Sequence[str]]]:
    """Return the names of the rules that each column has for its values."""
    rules: list[tuple[object, Sequence[str]]] = [
        (one.get("name"), list(_mapping(one.get("constraints")))) for one in _fields(given)
    ]
    for name, column in _mapping(given.get("columns")).items():
        known = _mapping(column)
        flags = [key for key in ("unique", "regex") if known.get(key)]
        rules.append((name, [*_checks(known), *flags]))
    return rules


def _columns(schema: object) -> dict[str, JsonObject | None]:
    _, given = _parts(schema)
    if isinstance(given.get("fields"), list):
        marks = given.get("missingValues", [""])
        named = [(_name(one), {"missingValues": marks, **one}) for one in given["fields"]]
        return _read_each(named, _field_values)
    if isinstance(given.get("columns"), Mapping):
        return _read_each(
            [(str(name), one) for name, one in given["columns"].items()], _column_values
        )
    raise DomainError(
        "the schema is neither a Frictionless Table Schema (fields) nor one of pandera (columns)."
    )


def _mapping(data: object) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _name(field: object) -> str:
    name = field.get("name") if isinstance(field, Mapping) else None
    if not isinstance(name, str):
        raise DomainError("the schema has a field without a name; expected one for every column.")
    return name


def _read_each(
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
                f"the schema's column {short_repr(name)} is not as Frictionless or pandera write "
                f"it. Expected its type, and an enumeration or two finite ends."
            ) from None
    return told


def _field_values(field: Mapping[str, Any]) -> JsonObject | None:
    rules, kind = field.get("constraints", {}), str(field.get("type", "string"))
    marks = _marks(field)
    if kind == "boolean" and not _values_of(field):
        told = _boolean_values(field)
    else:
        told = _rule_values(
            kind, _values_of(field), rules.get("minimum", rules.get("exclusiveMinimum")),
            rules.get("maximum", rules.get("exclusiveMaximum")),
        )  # fmt: skip
    if told is None or (rules.get("required", False) and not marks):
        return told
    return {**told, "missing": "category", **({"missing_values": marks} if marks else {})}


def _column_values(column: Mapping[str, Any]) -> JsonObject | None:
    checks = _checks(column)
    within = checks.get("in_range") or {}
    low = checks.get("greater_than_or_equal_to", checks.get("greater_than"))
    high = checks.get("less_than_or_equal_to", checks.get("less_than"))
    told = _rule_values(
        str(column.get("dtype", "")), checks.get("isin"),
        within.get("min_value", low), within.get("max_value", high),
    )  # fmt: skip
    return {**told, "missing": "category"} if told and column.get("nullable") else told


def _checks(column: Mapping[str, Any]) -> dict[str, Any]:
    """Return pandera's checks by name; they are a mapping, or a list of later versions."""
    found = column.get("checks") or {}
    if isinstance(found, Mapping):
        return {
            name: one.get("value", one) if isinstance(one, Mapping) else one
            for name, one in found.items()
        }
    return {
        one["options"]["check_name"]: one.get(
            "value", {key: value for key, value in one.items() if key != "options"}
        )
        for one in found
    }


def _rule_values(kind: str, values: Any, low: Any, high: Any) -> JsonObject | None:
    if isinstance(values, Mapping):
        values = values.get("allowed_values")
    if values:
        return {"categories": _labels(values)}
    if kind.startswith("bool"):
        return {"boolean": True}
    if low is None or high is None:
        return None
    if isinstance(low, str):
        return {"range": [low[:10], str(high)[:10]], "step": "year"}
    if kind.startswith("int") and high - low < MOST_INTEGERS:
        return {"range": [int(low), int(high)]}
    step = (high - low) / DEFAULT_BINS
    return {"range": [low, high], "step": int(step) if step == int(step) else step}
