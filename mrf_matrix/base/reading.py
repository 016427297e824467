"""Files of strangers: regular ones, of bounded size, and nothing else is ever opened for reading.

A named pipe would be waited for without end, a device has no end, and a file may be larger than
memory. So whatever is read comes through `opened_regular`, which asks what it is before it opens
it, and what is read whole through `content_of`, which asks how large it is before it reads.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader

PathLike = str | os.PathLike[str]

MOST_BYTES = 32 * 1024**2
"""Of a file that is read whole, where its reader says nothing else."""

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class UnreadableError(ValueError):
    """A file is of a kind that is not read, or larger than it may be."""


@contextmanager
def opened_regular(path: PathLike, most: int | None = None) -> Iterator[BufferedReader]:
    """Give a regular file to read; a pipe, a device, a socket and a folder are refused.

    `most`: bytes that it may have at most; None for records, which are read a part at a time.

    Raises UnreadableError if it is of another kind or too large; OSError if it cannot be opened.
    """
    _check_kind(path, os.stat(path))
    waits_for_nobody = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, os.O_RDONLY | waits_for_nobody), "rb") as file:
        found = os.fstat(file.fileno())
        _check_kind(path, found)  # it may have been replaced
        if most is not None and found.st_size > most:
            raise UnreadableError(
                f"{os.fspath(path)} has more than {most} bytes, namely {found.st_size}: expected "
                f"a smaller file."
            )
        yield file


def content_of(path: PathLike, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file, as long as it says it is, and at most so many bytes.

    Raises UnreadableError, OSError as `opened_regular`.
    """
    with opened_regular(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def hash_of(path: PathLike) -> str:
    """Return the SHA-256 of a regular file, read a part at a time."""
    with opened_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_kind(path: PathLike, found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    what = next((words for is_kind, words in KINDS if is_kind(found.st_mode)), "no file")
    raise UnreadableError(
        f"{os.fspath(path)} is {what}: expected a regular file. Save what it gives to one first."
    )
