"""A partition as one table over few attributes: codes share rows, and rows make cells."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs


@dataclass(frozen=True, eq=False)
class CellTable:
    """Cells over the rows of a few attributes.

    Attributes
    ----------
    attributes : tuple of int
        Their positions in the domain.
    places : tuple of ndarrays of int64
        For each code of each attribute, its row in the table.
    numbers : ndarray of int64
        The cell in each place of the table, an axis for each attribute.
    """

    attributes: tuple[int, ...]
    places: tuple[Longs, ...]
    numbers: Longs

    @property
    def table(self) -> "CellTable":
        """The table itself."""
        return self

    @cached_property
    def shares(self) -> Array:
        """The part of all combinations of codes in each place of the table."""
        found: Array = np.ones(())
        for place in self.places:
            found = np.multiply.outer(found, np.bincount(place) / len(place))
        return found

    @cached_property
    def even(self) -> Array:
        """The part of all combinations of codes in each cell."""
        return np.bincount(self.numbers.ravel(), self.shares.ravel()).astype(np.float64)

    def cells(self, codes: AnyInts) -> Longs:
        """Return the cell of each record. `codes` (b, d): of all attributes of the domain."""
        places = (place[codes[:, i]] for i, place in zip(self.attributes, self.places, strict=True))
        return np.asarray(self.numbers[tuple(places)])
