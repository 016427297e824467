"""Public cuts of attributes in two, and a tree of them with a label for each cell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import prod

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Bools, Longs
from mrf_matrix.base.provenance import NOTHING, Provenance, join
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import subset_patterns
from mrf_matrix.forests.forest import Forest, forest_from_levels
from mrf_matrix.forests.nodes import branch_pool

MOST_CODES = 1 << 16
"""Codes of an attribute that is cut: sides are written out, 64 KB each."""

MOST_OF_ONE = 15
"""Cuts of one attribute at most."""


@dataclass(frozen=True)
class Cut:
    """The codes of one attribute in two.

    >>> Cut.of(3, np.array([False, True, True]))
    Cut(codes 1, 2 of 3 of attribute 3 above)
    """

    attribute: int  # its position in the domain
    sides: bytes  # for each code 1 if it lies on the upper side, else 0

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
    is random which. `most`: 1 or more; `structure`: draws what is random.

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


@dataclass(frozen=True, eq=False)
class CellTable:
    """Cells over the rows of a few attributes."""

    attributes: tuple[int, ...]  # their positions in the domain
    places: tuple[Longs, ...]  # for each code of each attribute, its row in the table
    numbers: Longs  # the cell in each place of the table, an axis for each attribute

    @property
    def table(self) -> "CellTable":
        return self

    @cached_property
    def shares(self) -> Array:
        """The share of all combinations of codes in each place of the table."""
        found: Array = np.ones(())
        for place in self.places:
            found = np.multiply.outer(found, np.bincount(place) / len(place))
        return found

    @cached_property
    def cell_shares(self) -> Array:
        return np.bincount(self.numbers.ravel(), self.shares.ravel()).astype(np.float64)

    def cells(self, codes: AnyInts) -> Longs:
        """Return the cell of each record. `codes` (b, d): of all attributes of the domain."""
        places = (place[codes[:, i]] for i, place in zip(self.attributes, self.places, strict=True))
        return np.asarray(self.numbers[tuple(places)])


MOST_PLACES = 1 << 16
"""Most places of a table that is written out: more than tables of blocks have cells."""


@dataclass(frozen=True, eq=False, repr=False)
class LabelTree:
    """A tree of the same depth everywhere, every node of which cuts one attribute in two."""

    # of all nodes, level by level: those below node i are 2i + 1, where codes lie on the lower
    # side, and 2i + 2
    cuts: tuple[Cut, ...]
    labels: Longs  # (n_cells,): classes of the cells, from the lowest sides to the uppermost
    # (n_cells, k): noisy records of the cells by class, where they are released too
    counts: Longs | None = None
    # of cuts and labels: the charge that they were drawn under
    provenance: Provenance = NOTHING

    @property
    def n_cells(self) -> int:
        return len(self.cuts) + 1

    @property
    def depth(self) -> int:
        return self.n_cells.bit_length() - 1

    def cells(self, codes: AnyInts, of: Sequence[int] | None = None) -> Longs:
        """Return the cell of each record.

        `codes` (b, d): of all attributes of the domain; or of some, whose positions are `of`,
        rising.
        """
        attributes = np.array([cut.attribute for cut in self.cuts])
        if of is not None:
            attributes = np.searchsorted(of, attributes)
        starts = np.cumsum([0, *(len(cut.sides) for cut in self.cuts)])
        sides = np.concatenate([cut.upper for cut in self.cuts])
        rows, nodes = np.arange(len(codes)), np.zeros(len(codes), dtype=np.int64)
        for _ in range(self.depth):
            above = sides[starts[nodes] + codes[rows, attributes[nodes]]]
            nodes = 2 * nodes + 1 + above
        return nodes - len(self.cuts)

    def extend(self, trees: Sequence["LabelTree"]) -> "LabelTree":
        """Return this tree with others in place of its cells, of one depth, and their labels."""
        levels = range(trees[0].depth)
        below = [cut for level in levels for tree in trees for cut in tree._level(level)]
        labels = np.concatenate([tree.labels for tree in trees])
        known = join([self.provenance, *(tree.provenance for tree in trees)])
        return LabelTree((*self.cuts, *below), labels, provenance=known)

    def _level(self, level: int) -> tuple[Cut, ...]:
        """Return the cuts of all nodes so many levels below the root."""
        return self.cuts[(1 << level) - 1 : (2 << level) - 1]

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """Positions of the attributes that cells depend on, rising; else the first that is cut.

        Without counts, cells of the same label are the same.
        """
        told = {cut.attribute for level in self._levels for cut in _cuts(level)}
        return tuple(sorted(told or {self.cuts[0].attribute}))

    @cached_property
    def table(self) -> CellTable | None:
        """The tree as one table over its attributes; None where that is too large.

        Codes on the same side of every cut share a row. Of cells that are the same it names the
        first.
        """
        places, firsts = [], []
        told = [cut for level in self._levels for cut in _cuts(level)] or [self.cuts[0]]
        for i in self.attributes:
            sides = np.array([cut.upper for cut in told if cut.attribute == i])
            _, first, place = np.unique(sides, axis=1, return_index=True, return_inverse=True)
            places.append(place.ravel())
            firsts.append(first)
        shape = tuple(len(first) for first in firsts)
        if prod(shape) > MOST_PLACES:
            return None
        own = sorted({cut.attribute for cut in self.cuts})  # the domain may have many more
        codes = np.zeros((*shape, len(own)), dtype=np.int64)
        for i, rows in zip(self.attributes, np.ix_(*firsts), strict=True):
            codes[..., own.index(i)] = rows
        cells = self._representatives[self.cells(codes.reshape(-1, len(own)), own)]
        return CellTable(self.attributes, tuple(places), cells.reshape(shape))

    @cached_property
    def cell_shares(self) -> Array:
        parts: list[tuple[float, dict[int, Bools]]] = [(1.0, {})]
        for level in range(self.depth):
            parts = [
                one
                for node, part in zip(self._level(level), parts, strict=True)
                for one in _halves(node, *part)
            ]
        return np.array([share for share, _ in parts])

    @cached_property
    def boxes(self) -> tuple[tuple[int, dict[int, Bools]], ...]:
        """The leaves of what is drawn, from left to right: cells, and the codes that they hold.

        Codes are told of all attributes that cells depend on.
        """
        sizes = {cut.attribute: len(cut.sides) for cut in self.cuts}
        whole = {i: np.ones(sizes[i], dtype=np.bool_) for i in self.attributes}
        return tuple(_boxes(self._pruned_tree, whole))

    def forest(self, domain: Domain) -> tuple[Forest, list[int]]:
        """Return the tree over its own attributes, for people, and the cells that its leaves are.

        Cuts that leave no code on one side of what was cut before, and those below which both
        sides are the same, are left out. `domain`: the whole.
        """
        own, places = domain.select(self.attributes), {a: i for i, a in enumerate(self.attributes)}
        levels = self._levels
        tables = [cut.upper.astype(np.int32) for level in levels for cut in _cuts(level)]
        pool, starts = subset_patterns(branch_pool(own.sizes), tables)
        patterns = iter(starts.tolist())
        attributes = [
            [-1 if isinstance(one, int) else places[one.cut.attribute] for one in level]
            for level in levels
        ]
        forest = forest_from_levels(
            own,
            [np.array(level) for level in attributes],
            [np.array([0 if i < 0 else next(patterns) for i in level]) for level in attributes],
            pool,
            provenance=self.provenance,
            source="a tree of labels",
        )
        return forest, [cell for cell, _ in self.boxes]

    @cached_property
    def _representatives(self) -> Longs:
        """The first cell that is the same as each cell."""
        if self.counts is not None:
            return np.arange(self.n_cells)
        _, first, label = np.unique(self.labels, return_index=True, return_inverse=True)
        return np.asarray(first[label], dtype=np.int64)

    @cached_property
    def _pruned_tree(self) -> "int | Branch":
        """The tree without cuts that no label or count depends on."""
        return self._branch(0, {})

    @cached_property
    def _levels(self) -> list[list["int | Branch"]]:
        levels = [[self._pruned_tree]]
        while inner := [one for one in levels[-1] if isinstance(one, Branch)]:
            levels.append([child for one in inner for child in (one.below, one.above)])
        return levels

    def _branch(self, node: int, left: dict[int, Bools]) -> "int | Branch":
        """Return what lies below a node, of the codes that are left of attributes above."""
        if node >= len(self.cuts):
            return int(self._representatives[node - len(self.cuts)])
        cut = self.cuts[node]
        here = left.get(cut.attribute, np.ones(len(cut.sides), dtype=np.bool_))
        below, above = here & ~cut.upper, here & cut.upper
        if not below.any() or not above.any():
            return self._branch(2 * node + 1 + bool(above.any()), left)
        one = self._branch(2 * node + 1, left | {cut.attribute: below})
        other = self._branch(2 * node + 2, left | {cut.attribute: above})
        return one if one == other else Branch(cut, one, other)

    def __repr__(self) -> str:
        return f"LabelTree({self.n_cells} cells of attributes {list(self.attributes)})"


@dataclass(frozen=True)
class Branch:
    """A cut, and what lies on either side: a branch, or a cell."""

    cut: Cut
    below: "int | Branch"
    above: "int | Branch"


def _halves(
    cut: Cut, share: float, left: dict[int, Bools]
) -> Iterator[tuple[float, dict[int, Bools]]]:
    """Yield the part of all codes on either side of a cut, and which are left of its attributes."""
    here = left.get(cut.attribute, np.ones(len(cut.sides), dtype=np.bool_))
    for side in (here & ~cut.upper, here & cut.upper):
        part = float(side.sum() / max(here.sum(), 1))
        yield share * part, left | {cut.attribute: side}


def _cuts(level: list[int | Branch]) -> Iterator[Cut]:
    return (one.cut for one in level if isinstance(one, Branch))


def _boxes(branch: int | Branch, held: dict[int, Bools]) -> Iterator[tuple[int, dict[int, Bools]]]:
    """Yield the cells below, from left to right, and the codes that are left of each attribute."""
    if isinstance(branch, int):
        yield branch, held
        return
    here, upper = held[branch.cut.attribute], branch.cut.upper
    yield from _boxes(branch.below, held | {branch.cut.attribute: here & ~upper})
    yield from _boxes(branch.above, held | {branch.cut.attribute: here & upper})
