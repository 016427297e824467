"""Files that are written whole or not at all, and are on the disk before anyone relies on them."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}
"""Folders of some file systems cannot be synchronised, nor can those that may not be read."""

ROOM = 64 * 1024  # bytes that a writable place must have: forests and releases of usual sizes


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
    with named(path):
        target = regular(path)
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


def check_writable(path: Path, room: int = ROOM) -> None:
    """Refuse a path where no file of ``room`` bytes can be written now; change nothing there.

    Raises OSError under the name of ``path``, if it cannot be written; ValueError if there is
    something that is no regular file.
    """
    with named(path):
        draft = draft_of(regular(path))
        file = draft.open("xb")
        try:
            with file:
                file.write(bytes(room))
                file.flush()
                os.fsync(file.fileno())
        finally:
            draft.unlink(missing_ok=True)


def draft_of(target: Path) -> Path:
    """Return the name of a new file beside another; nobody else's, whatever is in the folder."""
    return target.with_name(f".{target.name[:40]}.{token_hex(8)}.part")


def regular(path: Path) -> Path:
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
def named(path: Path) -> Iterator[None]:
    """Let errors of the disk name the file that was asked for, not the draft beside it."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not _is_ours(error.filename, path):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _is_ours(name: object, path: Path) -> bool:
    """Whether an error names no file, or one of the folder that is written to."""
    return name is None or Path(os.path.realpath(path)).parent == Path(os.fspath(str(name))).parent
