"""What goes wrong between records and a public domain, in words."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice

SHOWN = 5
"""Offending values that a message names at most: messages may end up in logs."""


class DomainError(ValueError):
    """A domain is ill-formed, or records do not fit it.

    Messages name a few offending values; treat them like the records themselves.
    """


class PrivacyLeakWarning(UserWarning):
    """Something public was taken from private records, so no privacy guarantee holds."""


def name_few(values: Iterable[object]) -> str:
    """List the most frequent of some values with their counts, ``'a' (3 times), 'b'``."""
    counts = Counter(repr(value) for value in values).most_common()
    shown = [f"{text} ({n} times)" if n > 1 else text for text, n in counts[:SHOWN]]
    rest = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def name_some(values: Iterable[object]) -> str:
    """List the first of some names or categories, in their order."""
    head = list(islice(values, 2 * SHOWN + 1))
    shown = ", ".join(repr(value) for value in head[: 2 * SHOWN])
    return shown + (", ..." if len(head) > 2 * SHOWN else "")
