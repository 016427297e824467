"""Operators to plain values and back, by the rule of each structure, and as one file."""

import json
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from math import prod
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from strategies.operator_files.fields import Fetch, Node, OperatorFileError, Reader, Writer
from strategies.operator_files.rules import RULES
from strategies.operators import MemoryCapError, Operator, check_allocation
from strategies.operators.base.arrays import Numbers

_BY_TYPE = {rule.structure: (rule.kind, rule.write) for rule in RULES}
_BY_KIND = {rule.kind: (rule.fields, rule.read) for rule in RULES}


def encode(operator: Operator, prefix: str = "") -> tuple[Node, dict[str, Numbers]]:
    """Return an operator as a tree of plain values, ready for JSON, and a table of arrays.

    Parameters
    ----------
    operator : Operator
    prefix : str, default=""
        What the arrays' names begin with.

    Raises
    ------
    OperatorFileError
        If a structure has no rule; it is named.

    Examples
    --------
    >>> from strategies.operators import Identity, Scaled
    >>> encode(Scaled(2, Identity(3)))
    ({'kind': 'scaled', 'weight': 2, 'inner': {'kind': 'identity', 'n': 3, 'sizes': None}}, {})
    """
    writer = Writer(_BY_TYPE, prefix)
    tree = writer.operator(operator)
    return tree, writer.arrays


def decode(
    tree: object, arrays: Mapping[str, Numbers] | Fetch, prefix: str = ""
) -> tuple[Operator, set[str]]:
    """Return the operator of a tree, and the names of the arrays that it took.

    The operator has the same structure, entries and memory layout as the one that was encoded,
    and so computes the same to the last bit.

    Parameters
    ----------
    tree : dict
        From `encode`, or from anyone.
    arrays : mapping of str to ndarray, or callable
        The arrays; a callable returns the array of a name, type and shape, or raises.
    prefix : str, default=""
        What the arrays' names begin with.

    Raises
    ------
    ValueError, TypeError, ArithmeticError
        If the tree is no operator, or would take too much memory or work to check. Values out of
        a structure's range are refused by the structure.

    Examples
    --------
    >>> from strategies.operators import Grouping
    >>> decode(*encode(Grouping([0, 1, 0])))[0]
    Grouping(2 x 3)
    """
    fetch = _fetch_from(arrays) if isinstance(arrays, Mapping) else arrays
    reader = Reader(_BY_KIND, fetch, prefix)
    operator = reader.operator(tree)
    return operator, reader.names


def _fetch_from(arrays: Mapping[str, Numbers]) -> Fetch:
    def fetch(name: str, dtype: str, shape: tuple[int, ...]) -> Numbers:
        array = arrays.get(name)
        if array is None or array.dtype != np.dtype(dtype) or array.shape != shape:
            raise OperatorFileError(f"array {name!r}: expected {dtype} of shape {shape}.")
        return array

    return fetch


VALUES = "values.json"
MOST_TEXT = 2**24
"""Bytes of the plain values and the operator's tree."""

MOST_SAID = 1000  # characters of what was wrong


def write_operator(
    operator: Operator, values: Mapping[str, object], path: "str | os.PathLike[str]"
) -> None:
    """Write an operator and plain values as a zip of JSON and ``.npy`` arrays, whole or not."""
    tree, arrays = encode(operator)
    text = json.dumps({"operator": tree, **values})
    place = Path(path)
    with NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}.", delete=False) as draft:
        try:
            np.savez(draft, allow_pickle=False, **{VALUES: np.frombuffer(text.encode(), np.uint8)})
            with zipfile.ZipFile(draft, "a") as archive:
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            draft.close()
            os.replace(draft.name, place)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise


def read_operator(path: "str | os.PathLike[str]") -> tuple[Operator, dict[str, object]]:
    """Return the operator and the plain values of a file, which may come from anyone."""
    try:
        with _open_file(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            sizes = {one.filename: one.file_size for one in members}
            check_allocation(f"arrays of {path}", (sum(one.file_size for one in members),), 1)
            if len(sizes) < len(members) or sizes.get(f"{VALUES}.npy", MOST_TEXT) >= MOST_TEXT:
                raise OperatorFileError(f"{path} holds no operator, or one of too many parts.")
            arrays = {one.filename.removesuffix(".npy"): _array(archive, one) for one in members}
        values = json.loads(arrays.pop(VALUES).tobytes(), object_pairs_hook=_refuse_repeats)
        operator, _ = decode(values.pop("operator"), arrays)
    except (FileNotFoundError, PermissionError, MemoryError, MemoryCapError, OperatorFileError):
        raise
    except (OSError, zipfile.BadZipFile, ValueError, TypeError, KeyError, ArithmeticError,
            AttributeError, RecursionError) as error:  # fmt: skip
        said = str(error)[:MOST_SAID]
        raise OperatorFileError(f"{path} is no operator's file: {said}") from error
    return operator, values


@contextmanager
def _open_file(path: "str | os.PathLike[str]") -> Iterator[BinaryIO]:
    """Give a regular file to read, no larger than the memory cap: no pipe, which has no end."""
    waits_for_nobody = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OperatorFileError(f"{os.fspath(path)} is no regular file: expected one.")
    with os.fdopen(os.open(path, os.O_RDONLY | waits_for_nobody), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OperatorFileError(f"{os.fspath(path)} is no regular file: expected one.")
        check_allocation(f"the file {os.fspath(path)}", (found.st_size,), 1)
        yield file


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Return a member as an array whose header says as many bytes as there are."""
    with archive.open(info) as member:
        content = member.read(info.file_size)
    file = BytesIO(content)
    form = np.lib.format
    version = form.read_magic(file)
    read = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"the array {info.filename[:50]!r} has an unknown format.")
    shape, in_columns, dtype = read[version](file)
    if dtype.hasobject or prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"the array {info.filename[:50]!r} is not as long as it declares.")
    flat = np.frombuffer(content, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if in_columns else "C")


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated.")
    return found
