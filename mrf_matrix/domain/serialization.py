"""A domain as JSON: readable, versioned, and read with suspicion."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from mrf_matrix.base import whole_file
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.errors import DomainError, name_few

FORMAT = "mrf_matrix.domain"
SCHEMA_VERSION = 1
MAX_BYTES = 32 * 1024**2
MAX_ATTRIBUTES = 100_000
MAX_VALUES = 1_000_000

AttributesAndTarget = tuple[list[Attribute], Attribute | None]

DOMAIN_KEYS = {"format", "schema_version", "attributes", "target"}
OPTIONS = ("unknown", "outside", "missing")
ATTRIBUTE_KEYS = {"name", "size", "categories", "edges", *OPTIONS}


def domain_to_dict(attributes: Sequence[Attribute], target: Attribute | None) -> dict[str, Any]:
    """Return a domain's attributes and target as JSON-ready data."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "attributes": [attribute_to_dict(attribute) for attribute in attributes],
        "target": None if target is None else attribute_to_dict(target),
    }


def attribute_to_dict(attribute: Attribute) -> dict[str, Any]:
    """Return an attribute as JSON-ready data, options left out where they are the default."""
    data: dict[str, Any] = {"name": attribute.name}
    if attribute.edges is not None:
        data["edges"] = list(attribute.edges)
    elif isinstance(attribute.categories, range) and attribute.categories.start == 0:
        data["size"] = len(attribute.categories)
    else:
        data["categories"] = list(attribute.categories or ())
    options = {option: getattr(attribute, option) for option in OPTIONS}
    return data | {option: value for option, value in options.items() if value != "error"}


def domain_from_dict(data: Any, where: str = "domain") -> AttributesAndTarget:
    """Return attributes and target of the domain that :func:`domain_to_dict` wrote.

    Raises
    ------
    DomainError
        If anything is missing, unknown, of another type, or beyond the size caps.
    """
    check_keys(data, DOMAIN_KEYS, {"attributes"}, where)
    if data.get("format", FORMAT) != FORMAT:
        raise DomainError(f"{where}: format={data['format']!r}; expected {FORMAT!r}.")
    version = data.get("schema_version", SCHEMA_VERSION)
    if type(version) is not int or version < 1:
        raise DomainError(f"{where}: schema_version={version!r}; expected {SCHEMA_VERSION}.")
    if version > SCHEMA_VERSION:
        raise DomainError(
            f"{where}: schema_version={version}, written by a later mrf_matrix; this one reads up "
            f"to {SCHEMA_VERSION}. Upgrade it."
        )
    listed = checked_list(data["attributes"], f"{where}: attributes", MAX_ATTRIBUTES)
    attributes = [
        attribute_from_dict(item, f"{where}: attribute {i}") for i, item in enumerate(listed)
    ]
    target = data.get("target")
    return attributes, None if target is None else attribute_from_dict(target, f"{where}: target")


def attribute_from_dict(data: Any, where: str) -> Attribute:
    """Return the attribute that :func:`attribute_to_dict` wrote."""
    check_keys(data, ATTRIBUTE_KEYS, {"name"}, where)
    for key in ("categories", "edges"):
        if data.get(key) is not None:
            checked_list(data[key], f"{where}: {key}", MAX_VALUES)
    try:
        return Attribute(**data)
    except DomainError as error:
        raise DomainError(f"{where}: {error}") from error


def checked_list(data: object, where: str, most: int) -> Sequence[Any]:
    """Refuse anything but a list of bounded length."""
    if not isinstance(data, list | tuple):
        raise DomainError(f"{where} is {type(data).__name__}; expected a list.")
    if len(data) > most:
        raise DomainError(f"{where} has {len(data)} entries; expected at most {most}.")
    return data


def check_keys(data: object, allowed: set[str], needed: set[str], where: str) -> None:
    """Refuse anything but an object with known keys."""
    if not isinstance(data, dict):
        raise DomainError(f"{where} is {type(data).__name__}; expected an object.")
    unknown = [key for key in data if key not in allowed]
    if unknown:
        raise DomainError(f"{where}: unknown keys {name_few(unknown)}; expected {sorted(allowed)}.")
    absent = sorted(needed - set(data))
    if absent:
        raise DomainError(f"{where}: the key {absent[0]!r} is missing.")


def save_domain(data: dict[str, Any], path: "str | os.PathLike[str]") -> None:
    """Write what :func:`domain_to_dict` gave as a JSON file, complete or not at all."""
    head = {key: data[key] for key in ("format", "schema_version")}
    listed = ",\n".join(
        f"    {json.dumps(item, ensure_ascii=False)}" for item in data["attributes"]
    )
    text = (
        json.dumps(head)[:-1]
        + f',\n  "attributes": [\n{listed}\n  ],\n  "target": '
        + json.dumps(data["target"], ensure_ascii=False)
        + "\n}\n"
    )
    with whole_file(Path(path)) as file:
        file.write(text.encode("utf-8"))


def load_domain(path: "str | os.PathLike[str]") -> AttributesAndTarget:
    """Read attributes and target of a domain from a JSON file that may be untrusted.

    Raises
    ------
    DomainError
        If the file is larger than 32 MiB, is not JSON, or does not hold a valid domain.
    FileNotFoundError
        If there is no such file.
    """
    source = Path(path)
    with source.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DomainError(f"{source}: more than {MAX_BYTES} bytes; expected a domain file.")
    try:
        data = json.loads(
            content.decode("utf-8-sig"),
            object_pairs_hook=distinct_keys,
            parse_constant=refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise DomainError(f"{source} is not a domain file in JSON: {error}") from error
    return domain_from_dict(data, str(source))


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; refuse a key that occurs twice."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError(f"repeated keys among {[key for key, _ in pairs][:20]}")
    return data


def refuse_constant(text: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(f"{text} is not a JSON number")
