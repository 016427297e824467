"""Groups of codes by prefix: a diagnosis of two hundred codes as twenty public chapters."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from mrf_matrix.domain.errors import DomainError

Groups = tuple[tuple[str, tuple[str, ...]], ...]
"""Each group's label, and the prefixes and ranges of prefixes that belong to it."""


def checked_groups(name: str, groups: object) -> Groups:
    """Return groups as labels with their prefixes; refuse none, or prefixes of two groups.

    `groups`: a mapping of labels to prefixes, or a list of prefixes that are their own labels.
    """
    pairs: Iterable[object]
    if isinstance(groups, Mapping):
        pairs = groups.items()
    elif isinstance(groups, Sequence) and not isinstance(groups, str | bytes):
        pairs = [(one, one) if isinstance(one, str) else one for one in groups]
    else:
        raise _unfit(name)
    found = []
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], str):
            raise _unfit(name)
        listed = (pair[1],) if isinstance(pair[1], str) else pair[1]
        prefixes = tuple(listed) if isinstance(listed, Iterable) else ()
        if not prefixes or not all(isinstance(one, str) and one.strip() for one in prefixes):
            raise _unfit(name)
        for one in prefixes:
            _check_range(name, one.strip())
        found.append((pair[0], tuple(one.strip() for one in prefixes)))
    for (low, high, _), (following, _, _) in pairwise(intervals(found)):
        if following[: len(high)] <= high:
            raise DomainError(
                f"Attribute {name!r}: codes that begin with {following!r} are in the group of "
                f"{low!r} to {high!r} as well; expected every code in one group only."
            )
    return tuple(found)


def _check_range(name: str, prefix: str) -> None:
    """Refuse what is written as a range and is none: ``1-99``, ``E14-E10``."""
    low, dash, high = prefix.replace("\u2013", "-").partition("-")
    if not dash or not low or not high or "-" in high:
        return
    alike = low[:1].isalpha() == high[:1].isalpha() and high[-1].isdigit() and low[-1].isdigit()
    if len(low) > len(high) and not (low[:1].isalpha() and high[:1].isalpha()):
        return  # one code, such as 1234-5
    if alike and (len(low) != len(high) or low > high):
        raise DomainError(
            f"Attribute {name!r}: {prefix!r} is no range of codes; expected two ends of one "
            f"length, the smaller first, such as 'E10-E14' or '01-99'."
        )


def _unfit(name: str) -> DomainError:
    return DomainError(
        f"Attribute {name!r}: groups expects labels with prefixes of codes, for example "
        "{'diabetes': ['E10-E14'], 'heart': ['I20-I25', 'I50']}."
    )


def intervals(groups: Iterable[tuple[str, Sequence[str]]]) -> list[tuple[str, str, int]]:
    """Return first prefix, last prefix and group of every range, in order.

    ``E10-E14`` is a range, for its ends are equally long; ``1234-5`` is one prefix, and what looks
    like a range and is none was refused.
    """
    found = []
    for group, (_, prefixes) in enumerate(groups):
        for prefix in prefixes:
            low, dash, high = prefix.replace("\u2013", "-").partition("-")
            whole = dash and len(low) == len(high) and low <= high
            found.append((low, high, group) if whole else (prefix, prefix, group))
    return sorted(found)


class GroupOfCode:
    """Finds the group of a code: its label, or the only range that its first characters are in.

    >>> group = GroupOfCode((("diabetes", ("E10-E14",)), ("heart", ("I20-I25", "I50"))))
    >>> group("E11.9"), group("I50"), group("heart"), group("J45")
    (0, 1, 1, -1)
    """

    def __init__(self, groups: Groups) -> None:
        self._labels = {label: group for group, (label, _) in enumerate(groups)}
        self._ranges = intervals(groups)
        self._lows = [low for low, _, _ in self._ranges]

    def __call__(self, value: object) -> int:
        """Return the number of a value's group, -1 if it is in none."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        code = str(value).strip()
        if code in self._labels:
            return self._labels[code]
        place = bisect_right(self._lows, code) - 1
        if place < 0:
            return -1
        _, high, group = self._ranges[place]
        return group if code[: len(high)] <= high else -1
