"""A tree of cuts whose cells are labelled: what is released, and all that is."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Bools, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import branch_pool, forest_from_levels, subset_patterns
from mrf_matrix.forests.forest import Forest
from mrf_matrix.forests.sources.cuts import Cut


@dataclass(frozen=True, eq=False)
class LabelTree:
    """A tree of the same depth everywhere, every node of which cuts one attribute in two.

    Attributes
    ----------
    cuts : tuple of Cut
        Of all nodes, level by level: those below node i are 2i + 1, where codes lie on the lower
        side, and 2i + 2.
    labels : ndarray of int64, shape (n_cells,)
        The classes of the cells, from the lowest sides to the uppermost.
    """

    cuts: tuple[Cut, ...]
    labels: Longs

    @property
    def n_cells(self) -> int:
        """Number of cells, one more than there are nodes."""
        return len(self.cuts) + 1

    @property
    def depth(self) -> int:
        """Number of cuts that a record is asked for."""
        return self.n_cells.bit_length() - 1

    def cells(self, codes: AnyInts) -> Longs:
        """Return the cell of each record. `codes` (b, d): of all attributes of the domain."""
        attributes = np.array([cut.attribute for cut in self.cuts])
        starts = np.cumsum([0, *(len(cut.sides) for cut in self.cuts)])
        sides = np.concatenate([cut.upper for cut in self.cuts])
        rows, nodes = np.arange(len(codes)), np.zeros(len(codes), dtype=np.int64)
        for _ in range(self.depth):
            above = sides[starts[nodes] + codes[rows, attributes[nodes]]]
            nodes = 2 * nodes + 1 + above
        return nodes - len(self.cuts)

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """Positions of the attributes that are cut, rising."""
        return tuple(sorted({cut.attribute for cut in self.cuts}))

    @cached_property
    def grid(self) -> tuple[tuple[Longs, ...], Longs]:
        """The tree as one table over its attributes.

        Returns
        -------
        places : tuple of ndarray
            For each code of each attribute, which row of the table it belongs to: codes on the same
            side of every cut share one.
        labels : ndarray
            The class of each cell of the table, at most two to the number of cuts.
        """
        places, firsts = [], []
        for i in self.attributes:
            sides = np.array([cut.upper for cut in self.cuts if cut.attribute == i])
            _, first, place = np.unique(sides, axis=1, return_index=True, return_inverse=True)
            places.append(place.ravel())
            firsts.append(first)
        rows = np.stack([one.ravel() for one in np.meshgrid(*firsts, indexing="ij")], axis=1)
        codes = np.zeros((len(rows), self.attributes[-1] + 1), dtype=np.int64)
        codes[:, list(self.attributes)] = rows
        shape = tuple(len(first) for first in firsts)
        return tuple(places), self.labels[self.cells(codes)].reshape(shape)

    def forest(self, domain: Domain) -> tuple[Forest, list[int]]:
        """Return the tree over its own attributes, for people, and the labels of its leaves.

        Cuts that leave no code on one side of what was cut before, and those below which both
        sides are the same, are left out. `domain`: the whole.
        """
        own, places = domain.select(self.attributes), {a: i for i, a in enumerate(self.attributes)}
        levels: list[list[Branch]] = [[self._branch(0, {})]]
        while any(not isinstance(one, int) for one in levels[-1]):
            inner = [one for one in levels[-1] if not isinstance(one, int)]
            levels.append([child for _, *children in inner for child in children])
        cuts = [[None if isinstance(one, int) else one[0] for one in level] for level in levels]
        tables = [cut.upper.astype(np.int32) for level in cuts for cut in level if cut is not None]
        pool, starts = subset_patterns(branch_pool(own.sizes), tables)
        patterns = iter(starts.tolist())
        forest = forest_from_levels(
            own,
            [
                np.array([-1 if cut is None else places[cut.attribute] for cut in row])
                for row in cuts
            ],
            [np.array([0 if cut is None else next(patterns) for cut in row]) for row in cuts],
            pool,
            source="a tree of labels",
        )
        return forest, list(_labels(levels[0][0]))

    def _branch(self, node: int, left: dict[int, Bools]) -> "Branch":
        """Return what lies below a node, of the codes that are left of attributes above."""
        if node >= len(self.cuts):
            return int(self.labels[node - len(self.cuts)])
        cut = self.cuts[node]
        here = left.get(cut.attribute, np.ones(len(cut.sides), dtype=np.bool_))
        below, above = here & ~cut.upper, here & cut.upper
        if not below.any() or not above.any():
            return self._branch(2 * node + 1 + bool(above.any()), left)
        one = self._branch(2 * node + 1, left | {cut.attribute: below})
        other = self._branch(2 * node + 2, left | {cut.attribute: above})
        return one if one == other else (cut, one, other)


Branch = int | tuple[Cut, "Branch", "Branch"]


def _labels(branch: Branch) -> Iterator[int]:
    """Yield the labels below, from left to right."""
    if isinstance(branch, int):
        yield branch
    else:
        for below in branch[1:]:
            yield from _labels(below)
