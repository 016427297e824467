"""An operator with plain values beside it, as one file without pickles."""

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

from strategies.operator_files.codec import decode, encode
from strategies.operator_files.reader import OperatorFileError
from strategies.operators import MemoryCapError, Operator, check_allocation

VALUES = "values.json"
MOST_TEXT = 2**24
"""Bytes of the plain values and the operator's tree."""

MOST_SAID = 1000  # characters of what was wrong


def write_operator(
    operator: Operator, values: Mapping[str, object], path: "str | os.PathLike[str]"
) -> None:
    """Write an operator and plain values as a zip of JSON and ``.npy`` arrays, whole or not at all.

    Raises OperatorFileError if a structure has no form in files.
    """
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
    """Return the operator and the plain values of a file, which may come from anyone.

    Raises OperatorFileError if it is no such file, or does not hold together; MemoryCapError if its
    arrays are larger than the memory cap.
    """
    try:
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            sizes = {one.filename: one.file_size for one in members}
            check_allocation(f"arrays of {path}", (sum(one.file_size for one in members),), 1)
            if len(sizes) < len(members) or sizes.get(f"{VALUES}.npy", MOST_TEXT) >= MOST_TEXT:
                raise OperatorFileError(f"{path} holds no operator, or one of too many parts.")
            arrays = {one.filename.removesuffix(".npy"): _array(archive, one) for one in members}
        values = json.loads(arrays.pop(VALUES).tobytes(), object_pairs_hook=_distinct)
        operator, _ = decode(values.pop("operator"), arrays)
    except (FileNotFoundError, PermissionError, MemoryError, MemoryCapError, OperatorFileError):
        raise
    except (OSError, zipfile.BadZipFile, ValueError, TypeError, KeyError, ArithmeticError,
            AttributeError, RecursionError) as error:  # fmt: skip
        said = str(error)[:MOST_SAID]
        raise OperatorFileError(f"{path} is no operator's file: {said}") from error
    return operator, values


@contextmanager
def _opened(path: "str | os.PathLike[str]") -> Iterator[BinaryIO]:
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


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated.")
    return found
