"""Cells of two attributes whose codes are cut in two: few cells, of as many records as can be."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Bools, Longs
from mrf_matrix.domain import Domain

N_CELLS = 4


@dataclass(frozen=True)
class Halves:
    """A tree of depth two that asks the same of all records: on which side each of two codes lies.

    Attributes
    ----------
    attributes : tuple of two int
        Positions in the domain, rising.
    upper : tuple of two tuples of bool
        For each code of either attribute, whether it lies on the upper side.

    Examples
    --------
    >>> halves = Halves((0, 2), ((False, True), (False, False, True)))
    >>> halves.cells(np.array([[0, 0], [0, 2], [1, 2]]))
    array([0, 1, 3])
    """

    attributes: tuple[int, int]
    upper: tuple[tuple[bool, ...], tuple[bool, ...]]

    def cells(self, codes: AnyInts) -> Longs:
        """Return the cell that each record lies in, from 0 to 3.

        `codes` (b, 2): of the two attributes.
        """
        first, second = (
            np.asarray(upper)[column] for upper, column in zip(self.upper, codes.T, strict=True)
        )
        return np.asarray(2 * first + second, dtype=np.int64)

    def counts(self, codes: AnyInts, counts: Longs) -> Longs:
        """Return the sums of counts in each of the four cells, shape (4, k).

        `codes` (m, 2): cells of the two attributes; `counts` (m, k).
        """
        found = np.zeros((N_CELLS, counts.shape[1]), dtype=np.int64)
        np.add.at(found, self.cells(codes), counts)
        return found


def random_halves(domain: Domain, count: int, structure: np.random.Generator) -> tuple[Halves, ...]:
    """Draw two attributes so many times, and cut each; from the public domain alone.

    Ordered codes are cut in the middle, others at random into as many on either side; an odd code
    falls on a random side. What is drawn again is there once.

    Raises ValueError if less than two attributes have two codes.
    """
    usable = [i for i, size in enumerate(domain.sizes) if size > 1]
    if len(usable) < 2:
        raise ValueError(
            f"n_features={len(usable)} attributes of the domain have two codes or more: expected "
            f"two at least."
        )
    return tuple(dict.fromkeys(_drawn(domain, usable, count, structure)))


def _drawn(
    domain: Domain, usable: list[int], count: int, structure: np.random.Generator
) -> Iterator[Halves]:
    for _ in range(count):
        first, second = sorted(structure.choice(usable, 2, replace=False).tolist())
        sides = [_upper(domain.sizes[i], domain.ordered[i], structure) for i in (first, second)]
        yield Halves((first, second), (tuple(sides[0].tolist()), tuple(sides[1].tolist())))


def _upper(size: int, ordered: bool, structure: np.random.Generator) -> Bools:
    half = size // 2 + int(structure.integers(1 + size % 2))
    codes = np.arange(size) if ordered else structure.permutation(size)
    return np.asarray(codes >= half)
