"""What goes wrong between records and a public domain, in words that show no record."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from mrf_matrix.base.shown import cut, shown

SHOWN = 5  # values that a message, or `DomainError.values`, names at most

SEE_VALUES = "The values at fault are in the error's attribute values, which no message shows."


class DomainError(ValueError):
    """A domain is ill-formed, or records do not fit it.

    Messages end up in logs, so none shows a value of a record, its place, or how many there are.

    Attributes
    ----------
    values : tuple
        For the eyes of the records' owner: a few distinct values at fault. They are as private as
        the records, and are neither in the error's text nor in its pickle.

    Examples
    --------
    >>> from mrf_matrix import Attribute, Domain
    >>> try:
    ...     Domain([Attribute("sex", categories=["F", "M"])]).encode({"sex": ["F", "x"]})
    ... except DomainError as error:
    ...     print("x" in str(error).split(), error.values)
    False ('x',)
    """

    values: tuple[object, ...]

    def __init__(self, message: str, *, values: Iterable[object] = ()) -> None:
        super().__init__(cut(message))
        self.values = few_values(values)

    def __reduce__(self) -> tuple[type["DomainError"], tuple[str]]:
        return type(self), (str(self),)


class PrivacyLeakWarning(UserWarning):
    """Something public was taken from private records, so no privacy guarantee holds."""


def few_values(values: Iterable[object]) -> tuple[object, ...]:
    """Return the first few distinct values, in their order."""
    listed = list(values)
    try:
        return tuple(islice(dict.fromkeys(listed), SHOWN))
    except TypeError:  # lists and other values without a hash
        return tuple(listed[:SHOWN])


def name_few(values: Iterable[object]) -> str:
    """List the most frequent of some public values, ``'a' (3 times), 'b'``."""
    counts = Counter(map(shown, values)).most_common()
    names = [f"{text} ({n} times)" if n > 1 else text for text, n in counts[:SHOWN]]
    rest = len(counts) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")


def name_some(values: Iterable[object]) -> str:
    """List the first of some public names or categories, in their order."""
    head = list(islice(values, 2 * SHOWN + 1))
    names = ", ".join(map(shown, head[: 2 * SHOWN]))
    return names + (", ..." if len(head) > 2 * SHOWN else "")
