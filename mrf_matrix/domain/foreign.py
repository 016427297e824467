"""Domains from schemas of Frictionless and pandera, and a reader of untrusted YAML."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class SchemaColumn:
    """One column of a schema."""

    attribute: JsonObject | None  # as a domain file writes it; None without a finite set of values
    rules: Sequence[str]  # names of all rules for its values
    notation: str = ""  # what of its values' notation no reader here takes
    decimal: str = ""  # the mark of numbers
    is_ordered: bool = False  # whether its categories are declared to be in order


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
    _refuse_notations(columns)
    if target not in columns:
        raise DomainError(
            f"target={short_repr(target)}: expected a column of the schema: {name_some(columns)}."
        )
    known = {name: one.attribute for name, one in columns.items() if one.attribute is not None}
    unbounded = [name for name in columns if name not in known]
    if unbounded:
        raise DomainError(
            f"the schema gives no finite set of values for {name_some(unbounded)}. Add an "
            "enumeration, or a smallest and a largest value; or drop the columns from it."
        )
    classes = {key: one for key, one in known.pop(target).items() if not key.startswith("missing")}
    attributes = [{"name": name, **one} for name, one in known.items()]
    return {"attributes": attributes, "target": {"name": target, **classes}}


def schema_losses(schema: object) -> list[str]:
    """Return what a schema says and a domain does not, a sentence each.

    `schema`: one that `foreign_domain` takes.
    """
    columns = _columns(schema)
    notes = _file_notes(_parts(schema)[0], columns)
    for name, one in columns.items():
        if lost := [key for key in one.rules if key not in KEPT_RULES]:
            notes.append(f"{short_repr(name)}: {name_some(lost)} of its values is not kept.")
    ordered = [name for name, one in columns.items() if one.is_ordered]
    return notes + [
        f"{short_repr(one)}: that its categories are ordered is lost." for one in ordered
    ]


def _file_notes(resource: Mapping[str, Any], columns: Mapping[str, SchemaColumn]) -> list[str]:
    """Return how the files of a resource are written, in the words of readers' options."""
    dialect = _as_mapping(resource.get("dialect"))
    found = {"separator": dialect.get("delimiter"), "encoding": resource.get("encoding")}
    usual = {"separator": ",", "encoding": "utf-8"}
    if {one.decimal for one in columns.values() if one.decimal} == {","}:
        found["decimal"] = ","
    options = [
        f"{key}={value!r}"
        for key, value in found.items()
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


def _refuse_notations(columns: Mapping[str, SchemaColumn]) -> None:
    """Refuse columns whose values are written as no reader of ours reads them, all by name."""
    wrong = [
        f"{short_repr(name)} ({one.notation})" for name, one in columns.items() if one.notation
    ]
    if len({one.decimal for one in columns.values() if one.decimal}) > 1:
        names = [name for name, one in columns.items() if one.decimal not in ("", ".")]
        wrong.append(f"{name_some(names)} (decimalChar, where other numbers have points)")
    if wrong:
        raise DomainError(
            f"the schema has values written as they are not read here: {', '.join(wrong)}. Convert "
            "these columns, and correct the schema; or drop them from it."
        )


def _as_mapping(data: object) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _parts(schema: object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the resource that a schema is of, which may be itself, and the schema."""
    resource = _as_mapping(schema)
    if isinstance(resource.get("resources"), list) and len(resource["resources"]) == 1:
        resource = _as_mapping(resource["resources"][0])
    return resource, _as_mapping(resource.get("schema", resource))


def _columns(schema: object) -> dict[str, SchemaColumn]:
    """Return the columns by name; whoever wrote the schema may have written anything."""
    _, given = _parts(schema)
    fields, columns = given.get("fields"), given.get("columns")
    named: list[tuple[Any, Any]] = []
    if isinstance(fields, list):
        marks = {"missingValues": given.get("missingValues", [""])}
        named = [(_as_mapping(one).get("name"), {**marks, **_as_mapping(one)}) for one in fields]
    elif isinstance(columns, Mapping):
        named = [(str(name), one) for name, one in columns.items()]
    else:
        raise DomainError(
            "the schema is neither a Frictionless Table Schema (fields) nor one of pandera "
            "(columns)."
        )
    names = [name for name, _ in named]
    if not all(isinstance(name, str) for name in names):
        raise DomainError("the schema has a field without a name; expected one for every column.")
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise DomainError(f"the schema repeats {name_some(sorted(repeated))}; name columns once.")
    found = {}
    for name, one in named:
        try:
            found[name] = _read_field(one) if isinstance(fields, list) else _read_column(one)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise DomainError(
                f"the schema's column {short_repr(name)} is not as Frictionless or pandera write "
                f"it. Expected its type, and an enumeration or two finite ends."
            ) from None
    return found


def _read_field(field: Mapping[str, Any]) -> SchemaColumn:
    """Read a field of Frictionless, its schema's marks of missing values beside its own."""
    rules, kind = field.get("constraints", {}), str(field.get("type", "string"))
    values = _labels(rules.get("enum") or field.get("categories") or ())
    low = rules.get("minimum", rules.get("exclusiveMinimum"))
    high = rules.get("maximum", rules.get("exclusiveMaximum"))
    is_boolean = kind == "boolean" and not values
    found = _booleans(field) if is_boolean else _attribute(kind, values, low, high)
    texts = [str(one).strip() for one in _labels(field["missingValues"] or ())]
    marks = [one for one in dict.fromkeys(texts) if one not in MISSING_MARKS]
    if found is not None and (marks or not rules.get("required", False)):
        found |= {"missing": "category", **({"missing_values": marks} if marks else {})}
    decimal = str(field.get("decimalChar", ".")) if kind == "number" else ""
    notation = _unread_notation(field, kind)
    if clash := sorted(set(marks) & set(map(str, values))):
        notation = notation or f"missingValues and values both name {name_some(clash)}"
    return SchemaColumn(found, [*rules], notation, decimal, bool(field.get("categoriesOrdered")))


def _unread_notation(field: Mapping[str, Any], kind: str) -> str:
    """Return what of a field's notation is not read here; nothing where all is."""
    form = field.get("format", "default")
    if kind in ("date", "datetime", "time") and form not in ISO_FORMATS:
        return f"format {short_repr(form)}; dates are read as 2020-01-31"
    if kind in ("number", "integer") and field.get("groupChar"):
        return "groupChar"
    if kind in ("number", "integer") and field.get("bareNumber", True) is not True:
        return "bareNumber"
    if kind == "number" and field.get("decimalChar", ".") not in (".", ","):
        return "decimalChar"
    if kind == "boolean" and _booleans(field) is None:
        return "trueValues and falseValues of several spellings"
    return ""


def _booleans(field: Mapping[str, Any]) -> JsonObject | None:
    """Return a boolean field's values; None if one of the two has several spellings."""
    true, false = field.get("trueValues") or ["true"], field.get("falseValues") or ["false"]
    spellings = [{str(one).lower() for one in side} for side in (true, false)]
    if spellings == [{"true"}, {"false"}]:
        return {"boolean": True}
    return {"categories": [*false, *true]} if len(true) == len(false) == 1 else None


def _read_column(column: Mapping[str, Any]) -> SchemaColumn:
    """Read a column of pandera, whose checks are a mapping, or a list of later versions."""
    given = column.get("checks") or {}
    if not isinstance(given, Mapping):
        given = {
            one["options"]["check_name"]: {key: one[key] for key in one if key != "options"}
            for one in given
        }
    checks = {
        name: one.get("value", one) if isinstance(one, Mapping) else one
        for name, one in given.items()
    }
    values, within = checks.get("isin") or (), checks.get("in_range") or {}
    if isinstance(values, Mapping):
        values = values.get("allowed_values") or ()
    low = checks.get("greater_than_or_equal_to", checks.get("greater_than"))
    high = checks.get("less_than_or_equal_to", checks.get("less_than"))
    ends = within.get("min_value", low), within.get("max_value", high)
    found = _attribute(str(column.get("dtype", "")), _labels(values), *ends)
    if found and column.get("nullable"):
        found["missing"] = "category"
    return SchemaColumn(found, [*checks, *(key for key in ("unique", "regex") if column.get(key))])


def _labels(values: Any) -> list[Any]:
    return [one.get("value") if isinstance(one, Mapping) else one for one in values]


def _attribute(kind: str, values: list[Any], low: Any, high: Any) -> JsonObject | None:
    """Return an attribute by its type and values, or its two ends; None without either."""
    if values:
        return {"categories": values}
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
