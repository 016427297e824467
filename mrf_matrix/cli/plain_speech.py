"""What is printed takes any encoding; what errors quote is short, and acts on no terminal."""

import codecs
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

import click

from mrf_matrix.base import escaped
from mrf_matrix.base.shown import cut

UNSPOKEN = "mrf_matrix.json"
"""The rule of characters that an encoding lacks: they are written as JSON writes them."""


def speak_any_encoding() -> None:
    r"""Let standard output and error take every character, whatever their encoding.

    What the encoding lacks is written as ``\u03b5``: readable, and the same value in JSON.
    """
    codecs.register_error(UNSPOKEN, json_escapes)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=UNSPOKEN)


def json_escapes(error: UnicodeError) -> tuple[str, int]:
    """Return the characters that could not be encoded, as JSON writes them, and where they end."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def spelled(text: str) -> str:
    """Return a text as standard error can print it."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return text.encode(encoding, UNSPOKEN).decode(encoding)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let what errors quote from files and arguments be short, and not act on the terminal."""
    try:
        yield
    except click.ClickException as error:
        vars(error).update(message=spelled(cut(escaped(error.message, keep="\n"))))
        raise
