"""Values as JSON can hold them: to be read by machines, to tell designs apart, to resume a run."""

import json
from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.base import whole_file
from mrf_matrix.base.fields import list_of, object_of, parse_json, part_of
from mrf_matrix.base.files import content_of
from strategies import Strategy
from strategies.operator_files import encode
from strategies.operators import Operator, as_operator

Plain = dict[str, "Plain"] | list["Plain"] | str | int | float | None  # what JSON can hold


def plain(value: object) -> Plain:
    """Return a value as plain JSON; numbers that are not finite, which JSON has not, are null.

    What has no plain form (an array, an operator, a function) is named by its kind and a digest of
    its content, so that different ones have different names, in every process.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(one) for one in value]
    return _fingerprint(value)


def plain_figures(figures: Mapping[str, object]) -> dict[str, Any]:
    return {name: plain(one) for name, one in figures.items()}


def key_of(value: object) -> str:
    """Return a name that tells a value from others, the same in every process."""
    return json.dumps(plain(_spell_infinite(value)), sort_keys=True)


def _spell_infinite(value: object) -> object:
    """Return a value with infinite numbers as words: null would not tell them from None."""
    if isinstance(value, Mapping):
        return {name: _spell_infinite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_spell_infinite(one) for one in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _fingerprint(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}, {_digest(str(value.dtype), value)}"
    if sparse.issparse(value):
        value = as_operator(value, "value")
    if isinstance(value, Strategy):
        return f"strategy by {value.method!r}, {_digest(value.norm, _fingerprint(value.matrix))}"
    if isinstance(value, Operator):
        tree, arrays = encode(value)
        return f"{value!r}, {_digest(json.dumps(tree), *arrays.values())}"
    if (code := getattr(value, "__code__", None)) is not None:
        name = f"{value.__module__}.{getattr(value, '__qualname__', '')}"
        return f"{name}, {_digest(code.co_code.hex(), repr(code.co_consts), repr(code.co_names))}"
    return repr(value)


def _digest(*content: str | NDArray[Any]) -> str:
    """Return a short digest of texts and arrays."""
    found = sha256()
    for one in content:
        if isinstance(one, str):
            found.update(one.encode())
        else:
            found.update(repr(one.shape).encode() + np.ascontiguousarray(one).tobytes())
    return found.hexdigest()[:16]


# Runs that resume --------------------------------------------------------------------------------

SCHEMA = 1
MAX_BYTES = 256 * 1024**2


class RunFile:
    """Finished rows of a long run, in a JSON file that is written whole: an interrupt loses none.

    Parameters
    ----------
    path : str or Path or None
        None keeps nothing.
    request : mapping
        What was asked: a file of another run is refused.
    """

    run: ClassVar[str]  # what is resumed
    rows: ClassVar[str]  # what is kept of it
    writer: ClassVar[str]  # the function that writes such files
    same: ClassVar[str]  # what a file must be of

    def __init__(self, path: str | PathLike[str] | None, request: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.request = json.loads(key_of(request))

    def load_rows(self, made: type[Any]) -> list[Any]:
        """Return the rows that are kept, each as an object; none where there is no file yet."""
        if self.path is None or not self.path.exists():
            return []
        try:
            content = parse_json(content_of(self.path, MAX_BYTES), finite=False)
            found = object_of(content, "it", ("schema", "request", self.rows))
            request = part_of(found, "request")
            stored: list[Any] = list_of(found[self.rows], self.rows, most=MAX_BYTES)
            rows = [made(**row) for row in stored]
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"resume={str(self.path)!r} is no file of {self.rows} ({error}): expected one that "
                f"{self.writer} wrote, or a new name."
            ) from None
        if request != self.request:
            names = sorted(request.keys() | self.request.keys())
            changed = [one for one in names if request.get(one) != self.request.get(one)]
            raise ValueError(
                f"resume={str(self.path)!r} is of another {self.run} (differs in {changed}): "
                f"expected the same {self.same}, or a new name."
            )
        return rows

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Write all rows, by replacing the file."""
        if self.path is None:
            return
        record = {"schema": SCHEMA, "request": self.request, self.rows: rows}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path) as file:
            file.write(f"{json.dumps(record, indent=1)}\n".encode())
