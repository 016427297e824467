"""A zip of one JSON member and arrays, read with suspicion.

Nothing is unpacked before its declared size, type and name are known to be as expected, and
nothing in it is ever executed: no pickles, no format parser but JSON. NumPy opens the same file
as an ``.npz``.

Arrays are ``.npy`` bytes, written and compared, never parsed: the type and shape of an array are
known before it is read, and with them its whole header. So the header is compared byte for byte,
and no parser ever sees what a stranger wrote.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import BinaryIO

import numpy as np

from mrf_matrix.base import whole_file
from mrf_matrix.base.arrays import Values
from mrf_matrix.base.fields import JsonObject, one_line, parse_json

MAX_JSON = 8 * 1024**2
MAX_MEMBERS = 10_000
MAX_DIRECTORY = 1024**2
MAX_BYTES = 128 * 1024**2
DATE = (1980, 1, 1, 0, 0, 0)  # the same content makes the same file, whenever it is written

_END = Struct("<4s4H2LH")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    StructError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    OverflowError,
    IndexError,
    KeyError,
)


HEADER_BYTES = 128


class ContainerError(ValueError):
    """A file that is not what it should be, is damaged, or is larger than it may be."""


class ReleaseFileError(ContainerError):
    """A file that is no release, is damaged, too large, or claims what cannot be."""


class ModelFileError(ContainerError):
    """A file that is no model, is damaged, too large, or claims what cannot be."""


def write_container(path: Path, kind: str, data: JsonObject, arrays: Mapping[str, Values]) -> None:
    """Write JSON and arrays whole or not at all; ``kind`` names the JSON member."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    content = text.encode("utf-8")
    members = {f"{kind}.json": content}
    members |= {f"{name}.npy": bytes_of(array) for name, array in arrays.items()}
    if len(content) > MAX_JSON or len(members) > MAX_MEMBERS:
        raise ContainerError(
            f"the {kind} has {len(members)} members and {len(content)} bytes of JSON: expected at "
            f"most {MAX_MEMBERS} and {MAX_JSON}, what is read back."
        )
    with whole_file(path) as whole, zipfile.ZipFile(whole, "w") as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name, DATE), content, zipfile.ZIP_DEFLATED)


def largest_file(max_bytes: int) -> int:
    """Return the bytes that a file of arrays of so many bytes has at most, packed or not."""
    return max_bytes + MAX_JSON + MAX_DIRECTORY + MAX_MEMBERS * HEADER_BYTES * 2


class Container:
    """An opened file: its JSON, and its arrays on request.

    `kind`: what the file should be, "model" say; its JSON member is ``model.json``. `max_bytes`:
    most bytes of all arrays together, unpacked.

    Raises ContainerError if the file is no container, or declares more than the caps.
    """

    def __init__(self, file: BinaryIO, kind: str, max_bytes: int) -> None:
        self._json, self._prefix = f"{kind}.json", ""
        try:
            check_directory(file)
            self._zip = zipfile.ZipFile(file)
            self._infos = self._checked_members(max_bytes)
            self.data: object = parse_json(self._content(self._json))
        except ContainerError:
            raise
        except (*_BROKEN, RecursionError) as error:
            raise ContainerError(f"it is no {kind} file, or damaged: {one_line(error)}") from error

    def _checked_members(self, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
        infos: dict[str, zipfile.ZipInfo] = {}
        total = 0
        for info in self._zip.infolist():
            if info.filename in infos or info.compress_type not in _METHODS or info.flag_bits & 1:
                raise ContainerError(
                    f"member {info.filename[:50]!r} is repeated, encrypted or of an unknown "
                    f"compression."
                )
            infos[info.filename] = info
            total += info.file_size
        if min((info.header_offset for info in infos.values()), default=0):
            raise ContainerError("it begins with something else: expected such a file alone.")
        if self._json not in infos or infos[self._json].file_size > MAX_JSON:
            raise ContainerError(f"expected a member {self._json!r} of at most {MAX_JSON} bytes.")
        if total - infos[self._json].file_size > max_bytes:
            raise ContainerError(
                f"it unpacks to {total} bytes: expected at most max_bytes={max_bytes}. Raise "
                f"max_bytes if you trust the file."
            )
        return infos

    def _content(self, name: str) -> bytes:
        info = self._infos[name]
        with self._zip.open(info) as member:
            content = member.read(info.file_size)
            if len(content) != info.file_size or member.read(1):
                raise ContainerError(f"member {name!r} is not as long as it declares.")
        return content

    def array(self, name: str, dtype: str, shape: tuple[int, ...]) -> Values:
        """Return an array that must have this name, type and shape.

        Raises ContainerError if it has not.
        """
        member = f"{self._prefix}{name}.npy"
        info = self._infos.get(member)
        items = int(np.dtype(dtype).itemsize)
        for length in shape:
            items *= length
        if info is None or info.file_size != HEADER_BYTES + items:
            raise ContainerError(
                f"array {name!r} is missing or does not have the size that shape {shape} needs."
            )
        try:
            return array_of(self._content(member), dtype, shape)
        except ContainerError:
            raise
        except _BROKEN as error:
            raise ContainerError(f"array {name!r} is damaged: {one_line(error)}") from error

    def part(self, data: object, prefix: str = "") -> "Container":
        """Return a part of the JSON, a file within the file, and the arrays of this prefix."""
        part = copy(self)
        part.data = data
        part._prefix = self._prefix + prefix
        return part

    @property
    def names(self) -> set[str]:
        """Names of all arrays, without the prefix of this part."""
        names = (name for name in self._infos if name != self._json)
        own = (name for name in names if name.startswith(self._prefix))
        return {name.removeprefix(self._prefix).removesuffix(".npy") for name in own}


def check_directory(file: BinaryIO) -> None:
    """Refuse a zip whose list of members is too long to be read, before it is read."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _END.size - 20)
    file.seek(start)
    tail = file.read()
    file.seek(0)
    if len(tail) < _END.size or tail[-_END.size :][:4] != b"PK\x05\x06":
        raise ContainerError("it does not end like such a file: truncated, or of another kind.")
    _, _, _, here, members, directory, _, comment = _END.unpack(tail[-_END.size :])
    if comment or b"PK\x06\x07" in tail[: -_END.size]:
        raise ContainerError("it has a comment or a 64-bit directory, which no such file has.")
    if here != members or members > MAX_MEMBERS or directory > MAX_DIRECTORY:
        raise ContainerError(
            f"it lists {members} members in {directory} bytes: expected at most {MAX_MEMBERS} in "
            f"{MAX_DIRECTORY}."
        )


def header_of(dtype: str, shape: tuple[int, ...]) -> bytes:
    r"""Return the header of an array, in version 1.0 of NumPy's format, padded to 128 bytes.

    >>> header_of("<i4", (3,))[:9]
    b'\x93NUMPY\x01\x00v'
    """
    words = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    length = HEADER_BYTES - 10
    if len(words) >= length:
        raise ValueError(f"shape {shape} has too many dimensions for a file of ours.")
    text = words.ljust(length - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.encode("latin-1")


def bytes_of(array: Values) -> bytes:
    plain = np.ascontiguousarray(array)
    return header_of(plain.dtype.str, plain.shape) + plain.tobytes()


def array_of(content: bytes, dtype: str, shape: tuple[int, ...]) -> Values:
    """Return the array of a ``.npy`` file that must have this type and shape.

    Raises ValueError if header or length are not exactly what `bytes_of` writes for them.

    >>> array_of(bytes_of(np.arange(3, dtype="<i4")), "<i4", (3,))
    array([0, 1, 2], dtype=int32)
    """
    header = header_of(dtype, shape)
    if content[:HEADER_BYTES] != header:
        raise ValueError(f"its header does not say {dtype} of shape {shape}")
    return np.frombuffer(content, dtype=dtype, offset=HEADER_BYTES).reshape(shape)
