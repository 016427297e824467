"""Random trees drawn from the public domain alone, and public cuts of attributes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np

from mrf_matrix.base.arrays import Bools, Ints
from mrf_matrix.base.checks import check_integer, name_some, one_word, short_repr
from mrf_matrix.base.provenance import FOREST
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import (
    Boxes,
    check_growth,
    forest_from_levels,
    threshold_pattern,
)
from mrf_matrix.forests.forest import Forest, RandomState

_SMALLER = "lower n_trees or max_depth, give fewer attributes, or coarsen the domain"


@dataclass(frozen=True)
class RandomTrees:
    """Random decision trees, grown without looking at any record.

    Every node draws its attribute uniformly among those it can still split, independently of
    all other nodes.

    - ``splits="multiway"`` (ID3 style, the trees of the M-RF paper): one branch a code, so an
      attribute is never used again on a path.
    - ``splits="binary"``: a threshold drawn uniformly between the codes that remain on the path
      (codes below it go left); an attribute can be used again while it keeps two codes.

    Attributes of size 1 are never drawn. A node at ``max_depth``, or one with nothing left to
    split, is a leaf.

    Parameters
    ----------
    n_trees : int, default=128
        Number of trees.
    max_depth : int, default=4
        Most splits on a path, 0 for trees of a single leaf. With multi-way splits every path has
        exactly this many, or as many as there are attributes to split.
    splits : {"multiway", "binary"}, default="multiway"
        Kind of splits.
    attributes : sequence of str or int, optional
        Names or indices of the attributes that may be split; all by default.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or of the wrong type.

    References
    ----------
    Tajima, Wu, Houmansadr: Improving Private Random Forest Prediction Using Matrix
    Representation (2025), ``BuildTree``; Fan et al., Is random model better? On its accuracy and
    efficiency (2003).

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> car = Domain.from_sizes([4, 4, 4, 3, 3, 3])
    >>> RandomTrees(n_trees=2, max_depth=1, splits="binary").grow(car, random_state=0)
    Forest(2 trees, 4 leaves, depth 1, over 6 attributes, random binary trees)
    """

    n_trees: int = 128
    max_depth: int = 4
    splits: Literal["multiway", "binary"] = "multiway"
    attributes: Sequence[str | int] | None = None

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("max_depth", self.max_depth, 0)
        one_word("splits", self.splits, ("multiway", "binary"))
        object.__setattr__(self, "attributes", attribute_choice(self.attributes))

    def grow(self, domain: Domain, random_state: RandomState = None) -> Forest:
        """Draw a forest over a public domain.

        Parameters
        ----------
        domain : Domain
            The public domain.
        random_state : int, numpy Generator or None, default=None
            Seed of the structure; an integer gives the same forest in every process.

        Returns
        -------
        Forest
            Grown without data: taken as public.

        Raises
        ------
        ValueError
            If `attributes` does not fit the domain, or the forest would be too large.

        Notes
        -----
        All nodes of all trees at one depth are drawn together. The largest temporary array is
        (nodes at depth ``max_depth - 1``) x attributes: booleans for multi-way splits, two of
        int32 for binary ones.
        """
        check_growth(self.n_trees, _SMALLER)
        generator = np.random.default_rng(random_state)
        usable = splittable_attributes(domain, self.attributes)
        if self.splits == "multiway":
            levels = self._multiway(domain, usable, generator)
            return forest_from_levels(
                domain, levels, provenance=FOREST, source="random multi-way trees"
            )
        attribute, pattern = self._binary(domain, usable, generator)
        return forest_from_levels(
            domain, attribute, pattern, provenance=FOREST, source="random binary trees"
        )

    def _multiway(
        self, domain: Domain, usable: Bools, generator: np.random.Generator
    ) -> list[Ints]:
        sizes = np.asarray(domain.sizes, dtype=np.int64)
        available = np.tile(usable, (self.n_trees, 1))
        attributes, total = [], self.n_trees
        for _ in range(min(self.max_depth, int(usable.sum()))):
            chosen = draw_available(available, generator)
            attributes.append(chosen)
            fan = sizes[chosen]
            total += int(fan.sum())
            check_growth(total, _SMALLER)
            available[np.arange(len(chosen)), chosen] = False
            available = np.repeat(available, fan, axis=0)
        attributes.append(np.full(len(available), -1, dtype=np.int32))
        return attributes

    def _binary(
        self, domain: Domain, usable: Bools, generator: np.random.Generator
    ) -> tuple[list[Ints], list[Ints]]:
        boxes = Boxes.whole(domain.sizes, self.n_trees)
        attributes, patterns, total = [], [], self.n_trees
        for _ in range(self.max_depth):
            chosen = draw_available((boxes.high - boxes.low >= 2) & usable, generator)
            rows = np.flatnonzero(chosen >= 0)
            i = chosen[rows]
            cut = generator.integers(boxes.low[rows, i] + 1, boxes.high[rows, i])
            pattern = np.zeros(len(chosen), dtype=np.int32)
            pattern[rows] = threshold_pattern(domain.sizes, cut)
            attributes.append(chosen)
            patterns.append(pattern)
            total += 2 * len(rows)
            check_growth(total, _SMALLER)
            boxes = boxes.halves(rows, i, cut)
        attributes.append(np.full(len(boxes.low), -1, dtype=np.int32))
        patterns.append(np.zeros(len(boxes.low), dtype=np.int32))
        return attributes, patterns


def attribute_choice(attributes: Sequence[str | int] | None) -> tuple[str | int, ...] | None:
    """Return names or indices of attributes as a tuple; None stays None.

    Raises TypeError if a single name is given in place of a sequence.
    """
    if attributes is None:
        return None
    if isinstance(attributes, str):
        raise TypeError(
            f"attributes={short_repr(attributes)}: expected a sequence of names or indices, "
            f"for example [{attributes!r}]."
        )
    return tuple(attributes)


def splittable_attributes(domain: Domain, attributes: Sequence[str | int] | None = None) -> Bools:
    """Return which attributes a tree may split: those asked for that have at least two codes.

    Raises ValueError if an attribute is unknown, named twice, or none can be split.
    """
    if attributes is None:
        chosen = np.ones(domain.n_attributes, dtype=np.bool_)
    else:
        index = attribute_indices(domain, attributes, "attributes")
        if len(set(index)) < len(index):
            raise ValueError(f"attributes={short_repr(attributes)} names an attribute twice.")
        chosen = np.zeros(domain.n_attributes, dtype=np.bool_)
        chosen[index] = True
    return chosen & (np.asarray(domain.sizes, dtype=object) >= 2).astype(np.bool_)


def draw_available(available: Bools, generator: np.random.Generator) -> Ints:
    """Draw for every row one of its True columns uniformly; -1 where there is none.

    `available` (nodes, attributes).

    >>> draw_available(np.array([[False, True], [False, False]]), np.random.default_rng(0))
    array([ 1, -1], dtype=int32)
    """
    rank = np.cumsum(available, axis=1, dtype=np.int32)
    count = rank[:, -1]
    drawn = generator.integers(0, np.maximum(count, 1))
    chosen = np.argmax(rank > drawn[:, np.newaxis], axis=1)
    return np.where(count > 0, chosen, -1).astype(np.int32)


def attribute_indices(domain: Domain, attributes: Sequence[str | int], argument: str) -> list[int]:
    """Return the indices of attributes given by name or index.

    Raises ValueError if one is unknown; TypeError if one is neither, or a single name is given in
    place of a sequence. `argument` is what the caller calls them.
    """
    if isinstance(attributes, str):
        raise TypeError(f"{argument}={attributes!r}: expected a sequence, [{attributes!r}].")
    names, found = list(domain.names), []
    for one in attributes:
        if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
            raise TypeError(f"{argument} holds {one!r}: expected names or indices.")
        if one not in names if isinstance(one, str) else not 0 <= one < len(names):
            raise ValueError(
                f"{argument} holds {one!r}: expected one of {name_some(names)}, or an index from "
                f"0 to {len(names) - 1}."
            )
        found.append(names.index(one) if isinstance(one, str) else int(one))
    return found


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
    return tuple(islice(_round_robin(sources), most))


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


def _round_robin(sources: list[Iterator[Cut]]) -> Iterator[Cut]:
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
    sides = (
        _ordered_sides(size)
        if domain.attributes[i].is_ordered
        else _unordered_sides(size, structure)
    )
    seen: set[Cut] = set()
    for upper in islice(sides, 4 * MOST_OF_ONE):
        cut = Cut.of(i, upper ^ upper[0])
        if cut not in seen and len(seen) < MOST_OF_ONE:
            seen.add(cut)
            yield cut


def _ordered_sides(size: int) -> Iterator[Bools]:
    """Yield thresholds: the middle, then the middles of both parts, and so on."""
    parts = [(0, size)]
    while parts:
        low, high = parts.pop(0)
        middle = (low + high + 1) // 2
        if low < middle < high:
            yield np.arange(size) >= middle
            parts += [(middle, high), (low, middle)]


def _unordered_sides(size: int, structure: np.random.Generator) -> Iterator[Bools]:
    """Yield a random half, each code against the rest, and random halves without end."""
    yield structure.permutation(size) < size // 2
    for code in structure.permutation(size)[:MOST_OF_ONE]:
        yield np.arange(size) == code
    while True:
        yield structure.permutation(size) < size // 2
