"""Files: strangers' are read within bounds, in a format that is told; ours are written whole.

A named pipe would be waited for without end, a device has no end, and a file may be larger than
memory. So whatever is read comes through `open_regular`, which asks what it is before it opens
it, and what is read whole through `content_of`, which asks how large it is before it reads. What
is written is on the disk before anyone relies on it.
"""

import codecs
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Literal

from mrf_matrix.base.checks import short_repr

PathLike = str | os.PathLike[str]

MOST_BYTES = 32 * 1024**2
"""Largest file that is read whole, unless its reader gives another limit."""

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)

NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}
"""Folders of some file systems cannot be synchronised, nor can those that may not be read."""

ROOM = 64 * 1024  # bytes that a writable place must have: forests and releases of usual sizes


class UnreadableError(ValueError):
    """A file is of a kind that is not read, or larger than it may be."""


@contextmanager
def open_regular(path: PathLike, most: int | None = None) -> Iterator[BufferedReader]:
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

    Raises UnreadableError, OSError as `open_regular`.
    """
    with open_regular(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def hash_of(path: PathLike) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_kind(path: PathLike, found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    what = next((words for is_kind, words in KINDS if is_kind(found.st_mode)), "no file")
    raise UnreadableError(
        f"{os.fspath(path)} is {what}: expected a regular file. Save what it gives to one first."
    )


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of ``path`` when the block ends without error.

    The content goes to a new file of a random name in the same folder. It is seen onto the disk,
    renamed, and the folder is seen onto the disk as well, so that after a power cut there is either
    the old file or the new one. A block that fails leaves the old file as it was, and nothing else.
    The mode of an old file is kept; a symbolic link stays, and the file that it names is replaced.

    Raises OSError under the name of ``path``, if it cannot be written; ValueError if there is
    something that is no regular file: a folder, a device, a pipe.
    """
    with name_path_in_errors(path):
        target = regular_path(path)
        draft = draft_of(target)
        file = draft.open("xb")
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, draft)
            os.replace(draft, target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)


def check_writable(path: Path) -> None:
    """Refuse a path where no file of `ROOM` bytes can be written now; change nothing there.

    Raises OSError under the name of ``path``, if it cannot be written; ValueError if there is
    something that is no regular file.
    """
    with name_path_in_errors(path):
        draft = draft_of(regular_path(path))
        file = draft.open("xb")
        try:
            with file:
                file.write(bytes(ROOM))
                file.flush()
                os.fsync(file.fileno())
        finally:
            draft.unlink(missing_ok=True)


def draft_of(target: Path) -> Path:
    """Return the name of a new file beside another; nobody else's, whatever is in the folder."""
    return target.with_name(f".{target.name[:40]}.{token_hex(8)}.part")


def regular_path(path: Path) -> Path:
    """Return where a path leads to; refuse what is there and is no regular file."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ValueError(
            f"{path} is no regular file: expected one that may be replaced, or a new name."
        )
    return target


def sync_folder(folder: Path) -> None:
    """See the names in a folder onto the disk, where the system can."""
    if os.name == "nt":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise


@contextmanager
def name_path_in_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None or not _is_ours(error.filename, path):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _is_ours(name: object, path: Path) -> bool:
    """Whether an error names no file, or one of the folder that is written to."""
    return name is None or Path(os.path.realpath(path)).parent == Path(os.fspath(str(name))).parent


# The format of text files, declared and never guessed ---------------------------------------------


TAB_ENDINGS = (".tsv", ".tsv.gz")
SEPARATORS = (",", ";", "\t", "|")
"""Usual separators of the fields of a record."""


@dataclass(frozen=True)
class FileFormat:
    """The format of CSV and TSV files; Parquet files and frames know theirs.

    It is declared, and never guessed from records: what one record means would hang on the others.

    Parameters
    ----------
    separator : str, optional
        The character between fields: a tab in ``.tsv``, else a comma, where none is given.
    decimal : {".", ","}
        The decimal mark of numbers. With a comma ``1,5`` is a number, and ``1.5`` is none.
    encoding : str
        Python's name of the text's encoding: ``"utf-8"``, with a byte order mark or without;
        ``"latin-1"``, ``"cp1252"``, ``"utf-16"``.

    Raises
    ------
    ValueError
        If the separator is no single character, or a letter, digit, quote or blank, which stand in
        fields; the decimal mark is neither; or Python knows no such encoding of text.

    Examples
    --------
    >>> from mrf_matrix import FileFormat
    >>> FileFormat(separator=";", decimal=",", encoding="latin-1")
    FileFormat(separator=';', decimal=',', encoding='latin-1')
    """

    separator: str | None = None
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        mark = self.separator
        if mark is not None and not (
            isinstance(mark, str)
            and len(mark) == 1
            and mark.isascii()
            and not mark.isalnum()
            and mark not in " \"'\r\n.+-_\0"
        ):
            raise ValueError(
                f"separator={short_repr(mark)}; expected one character that parts fields, such as "
                "';', '\\t' or '|'."
            )
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal={short_repr(self.decimal)}; expected '.' or ','.")
        try:
            "a,\n".encode(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise ValueError(
                f"encoding={short_repr(self.encoding)}; expected Python's name of an encoding of "
                f"text: 'utf-8', 'latin-1', 'cp1252' or 'utf-16', say."
            ) from None

    @property
    def is_utf8(self) -> bool:
        """Whether the text is UTF-8, with or without a byte order mark."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")

    @property
    def codec(self) -> str:
        """The encoding to open files with; a byte order mark of UTF-8 is no text."""
        return "utf-8-sig" if self.is_utf8 else self.encoding

    def separator_of(self, path: Path) -> str:
        """Return what parts the fields of a file: where it is not told, by the file's ending."""
        if self.separator is not None:
            return self.separator
        return "\t" if path.name.lower().endswith(TAB_ENDINGS) else ","


PLAIN = FileFormat()
"""CSV with commas and points, or TSV, in UTF-8."""

IN_WORDS = "in file_format=FileFormat(...)"


def checked_format(file_format: object) -> FileFormat:
    if not isinstance(file_format, FileFormat):
        raise TypeError(
            f"file_format is of type {type(file_format).__name__}: expected a FileFormat, for "
            "example FileFormat(separator=';', decimal=',', encoding='latin-1')."
        )
    return file_format


def separator_hint(line: str, separator: str, wanted: Sequence[str] = ()) -> str:
    """Return what to say of a header line, which is public, that another character seems to part.

    `wanted`: names of which that would make columns.
    """

    def count_wanted(mark: str) -> int:
        names = {name.strip(' "') for name in line.strip().split(mark)}
        return sum(one in names for one in wanted)

    others = [one for one in SEPARATORS if one != separator and one in line]
    best = max(others, key=lambda one: (count_wanted(one), line.count(one)), default=None)
    if best is None or (separator in line and count_wanted(best) <= count_wanted(separator)):
        return ""
    return (
        f" Its first line has {best!r} between names: where that parts its fields, give "
        f"separator={best!r} {IN_WORDS}."
    )
