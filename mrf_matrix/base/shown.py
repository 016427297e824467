"""What a message shows: a public value, short and on one line; a private one by its kind alone."""

import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from reprlib import Repr
from typing import NoReturn

MOST = 100
MOST_SAID = 3000  # characters of a whole message
PLAIN = (str, bytes, int, float, complex, Fraction, Decimal, type(None), range, type)
OURS = ("strategies", "mrf_matrix")
"""Packages whose objects write themselves without their arrays."""

INSIDE = (*(f"{name}." for name in OURS), "contextlib")


class _Short(Repr):
    """Shortened as `reprlib` does; foreign objects, which may hold records, by their type."""

    def repr_instance(self, x: object, level: int) -> str:
        if isinstance(x, PLAIN) or type(x).__module__.partition(".")[0] in OURS:
            return repr(x)
        item = getattr(x, "item", None) if getattr(x, "shape", None) == () else None
        return repr(x) if item is not None else f"<{type(x).__name__}>"


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = MOST


def shown(value: object) -> str:
    """Return what a message shows of a public value: its repr, cut in the middle if it is long.

    Frames, arrays and other objects that may hold records are shown by their type. A repr that
    raises is too.

    `value`: A parameter that somebody gave; never a record's value.

    >>> shown("auto"), shown([1, 2]), len(shown("x" * 100_000)) <= 100
    ("'auto'", '[1, 2]', True)
    """
    try:
        text = " ".join(_SHORT.repr(value).split())
    except Exception:  # whatever a stranger's repr does, the message comes first
        text = f"<{type(value).__name__}>"
    half = (MOST - 3) // 2
    return text if len(text) <= MOST else f"{text[:half]}...{text[-half:]}"


class PrivateDataError(TypeError):
    """Records, or counts of them, were about to leave the process."""


class PrivateValue:
    """What holds records or counts of them: it shows its kind alone, and never leaves the process.

    A dataclass of this kind is declared with ``repr=False``.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"

    def __reduce__(self) -> NoReturn:
        raise PrivateDataError(
            f"{type(self).__name__} holds raw private counts or records: it is not pickled, copied "
            f"or sent to another process. Release it with measure(...), and share the Release."
        )


def cut(text: str, most: int = MOST_SAID) -> str:
    """Return a message of bounded length, cut in its middle: strangers decide what it quotes.

    >>> cut("x" * 10_000, most=9)
    'xxxx [...] xxxx'
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} [...] {text[-half:]}"


def warn_caller(message: str, kind: type[Warning]) -> None:
    """Warn of the line that called us, whichever door it came in by."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)
