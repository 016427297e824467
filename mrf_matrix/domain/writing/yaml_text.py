"""YAML of strangers: values alone, in time and memory of the text's own size."""

from collections import Counter
from typing import Any

from mrf_matrix.base.shown import shown
from mrf_matrix.domain.errors import DomainError

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
        raise DomainError(f"the key {shown(repeated[0])} is repeated.")
    return dict(super(type(loader), loader).construct_mapping(node, deep=deep))
