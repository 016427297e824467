"""The format of text files, declared and never guessed: separator, decimal mark, encoding."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mrf_matrix.base.checks import short_repr

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
