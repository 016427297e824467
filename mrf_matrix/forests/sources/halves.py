"""Cells of few attributes whose codes are cut in two: few cells, of as many records as can be."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import branch_pool, forest_from_levels, subset_patterns
from mrf_matrix.forests.forest import Forest

MOST_CODES = 1 << 16
"""Codes of an attribute that is cut: sides are written out, half a megabyte at most."""


@dataclass(frozen=True)
class Halves:
    """A tree that asks the same of all records: on which side each of a few codes lies.

    Attributes
    ----------
    attributes : tuple of int
        Positions in the domain, rising.
    upper : tuple of tuples of bool
        For each code of each attribute, whether it lies on the upper side.

    Examples
    --------
    >>> halves = Halves((0, 2), ((False, True), (False, False, True)))
    >>> halves.cells(np.array([[0, 0], [0, 2], [1, 2]]))
    array([0, 1, 3])
    """

    attributes: tuple[int, ...]
    upper: tuple[tuple[bool, ...], ...]

    @property
    def n_cells(self) -> int:
        """Number of cells, two to the number of attributes."""
        return 1 << len(self.attributes)

    def cells(self, codes: AnyInts) -> Longs:
        """Return the cell that each record lies in, the first attribute's side the highest bit.

        `codes` (b, m): of the m attributes.
        """
        found = np.zeros(len(codes), dtype=np.int64)
        for upper, column in zip(self.upper, codes.T, strict=True):
            found = 2 * found + np.asarray(upper)[column]
        return found

    def tree(self, domain: Domain) -> Forest:
        """Return the tree that asks these questions in turn: its leaves are the cells."""
        tables = [np.array(upper, dtype=np.int32) for upper in self.upper]
        pool, starts = subset_patterns(branch_pool(domain.sizes), tables)
        counts = [1 << level for level in range(len(tables))]
        attributes = [np.full(n, i) for n, i in zip(counts, self.attributes, strict=True)]
        patterns = [np.full(n, start) for n, start in zip(counts, starts, strict=True)]
        leaves = np.full(self.n_cells, -1)
        return forest_from_levels(
            domain,
            [*attributes, leaves],
            [*patterns, np.zeros_like(leaves)],
            pool,
            source="halves of few attributes",
        )

    def __repr__(self) -> str:
        cut = ", ".join(
            f"{sum(upper)} of {len(upper)} codes of attribute {i} above"
            for i, upper in zip(self.attributes, self.upper, strict=True)
        )
        return f"Halves({cut})"

    def counts(self, codes: AnyInts, counts: Longs) -> Longs:
        """Return the sums of counts in each cell, shape (n_cells, k).

        `codes` (n, m): cells of the m attributes; `counts` (n, k).
        """
        found = np.zeros((self.n_cells, counts.shape[1]), dtype=np.int64)
        np.add.at(found, self.cells(codes), counts)
        return found


def random_halves(
    domain: Domain, n_cut: int, count: int, structure: np.random.Generator
) -> tuple[Halves, ...]:
    """Draw `n_cut` attributes so many times, and cut each; from the public domain alone.

    Ordered codes are cut in the middle, others at random into as many on either side; an odd code
    falls on a random side. What is drawn again is there once.
    """
    return tuple(dict.fromkeys(_drawn(domain, n_cut, count, structure)))


def _drawn(
    domain: Domain, n_cut: int, count: int, structure: np.random.Generator
) -> Iterator[Halves]:
    usable = usable_attributes(domain)
    for _ in range(count):
        cut = tuple(sorted(structure.choice(usable, n_cut, replace=False).tolist()))
        yield Halves(cut, tuple(_upper(domain.sizes[i], domain.ordered[i], structure) for i in cut))


def usable_attributes(domain: Domain) -> list[int]:
    """Return the positions of attributes that can be cut: of two codes or more, not too many."""
    return [i for i, size in enumerate(domain.sizes) if 1 < size <= MOST_CODES]


def _upper(size: int, ordered: bool, structure: np.random.Generator) -> tuple[bool, ...]:
    half = size // 2 + int(structure.integers(1 + size % 2))
    codes = np.arange(size) if ordered else structure.permutation(size)
    return tuple((codes >= half).tolist())
