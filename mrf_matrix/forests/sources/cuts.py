"""Public cuts: the codes of one attribute in two, as many of them as are asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from mrf_matrix.base.arrays import Bools
from mrf_matrix.domain import Domain

MOST_CODES = 1 << 16
"""Codes of an attribute that is cut: sides are written out, 64 KB each."""

MOST_OF_ONE = 15
"""Cuts of one attribute at most."""


@dataclass(frozen=True)
class Cut:
    """The codes of one attribute in two.

    Attributes
    ----------
    attribute : int
        Its position in the domain.
    sides : bytes
        For each code 1 if it lies on the upper side, else 0.

    Examples
    --------
    >>> Cut.of(3, np.array([False, True, True]))
    Cut(codes 1, 2 of 3 of attribute 3 above)
    """

    attribute: int
    sides: bytes

    @classmethod
    def of(cls, attribute: int, upper: Bools) -> "Cut":
        """Return the cut of an attribute. `upper` (size,): whether each code lies above."""
        return cls(attribute, np.ascontiguousarray(upper, dtype=np.bool_).tobytes())

    @property
    def upper(self) -> Bools:
        """Whether each code lies on the upper side, shape (size,)."""
        return np.frombuffer(self.sides, dtype=np.bool_)

    def __repr__(self) -> str:
        above = np.flatnonzero(self.upper)
        codes = ", ".join(map(str, above[:4].tolist())) + (", ..." if len(above) > 4 else "")
        return f"Cut(codes {codes} of {len(self.sides)} of attribute {self.attribute} above)"


def public_cuts(domain: Domain, most: int, structure: np.random.Generator) -> tuple[Cut, ...]:
    """Return different cuts, `most` of them at most; from the public domain alone.

    Ordered codes are cut in the middle first, then each part in its middle, and so on. Others are
    cut at random into as many on either side, then each code against the rest, then at random
    again. Every attribute has its first cut before one has its second; if there are too many, it
    is random which.

    Parameters
    ----------
    domain : Domain
    most : int
        1 or more.
    structure : numpy.random.Generator
        Draws what is random.

    Examples
    --------
    >>> domain = Domain.from_sizes([8])
    >>> [int(one.upper.sum()) for one in public_cuts(domain, 3, np.random.default_rng(0))]
    [4, 2, 6]
    """
    usable = usable_attributes(domain)
    order = structure.permutation(usable).tolist()
    sources = [_cuts_of(domain, i, structure) for i in order[:most]]  # each has a cut or more
    return tuple(islice(_in_turn(sources), most))


def number_of_cuts(domain: Domain) -> int:
    """Return how many different public cuts there are at most; random ones may be fewer.

    >>> from mrf_matrix.domain import Attribute
    >>> ordered, named = Domain.from_sizes([8, 3]), Domain([Attribute("x", categories=list("abc"))])
    >>> number_of_cuts(ordered), number_of_cuts(named)
    (9, 3)
    """
    found = 0
    for i in usable_attributes(domain):
        size = domain.sizes[i]
        halves = size - 1 if domain.attributes[i].is_ordered else (1 << min(size - 1, 10)) - 1
        found += min(halves, MOST_OF_ONE)
    return found


def usable_attributes(domain: Domain) -> list[int]:
    """Return the positions of attributes that can be cut: of two codes or more, not too many."""
    return [i for i, size in enumerate(domain.sizes) if 1 < size <= MOST_CODES]


def _in_turn(sources: list[Iterator[Cut]]) -> Iterator[Cut]:
    """Yield one cut of every source, then another one, until there are none."""
    while sources:
        left = []
        for source in sources:
            if (cut := next(source, None)) is not None:
                yield cut
                left.append(source)
        sources = left


def _cuts_of(domain: Domain, i: int, structure: np.random.Generator) -> Iterator[Cut]:
    """Yield different cuts of an attribute, the first code always below."""
    size = domain.sizes[i]
    sides = _ordered(size) if domain.attributes[i].is_ordered else _unordered(size, structure)
    seen: set[Cut] = set()
    for upper in islice(sides, 4 * MOST_OF_ONE):
        cut = Cut.of(i, upper ^ upper[0])
        if cut not in seen and len(seen) < MOST_OF_ONE:
            seen.add(cut)
            yield cut


def _ordered(size: int) -> Iterator[Bools]:
    """Yield thresholds: the middle, then the middles of both parts, and so on."""
    parts = [(0, size)]
    while parts:
        low, high = parts.pop(0)
        middle = (low + high + 1) // 2
        if low < middle < high:
            yield np.arange(size) >= middle
            parts += [(middle, high), (low, middle)]


def _unordered(size: int, structure: np.random.Generator) -> Iterator[Bools]:
    """Yield a random half, each code against the rest, and random halves without end."""
    yield structure.permutation(size) < size // 2
    for code in structure.permutation(size)[:MOST_OF_ONE]:
        yield np.arange(size) == code
    while True:
        yield structure.permutation(size) < size // 2
