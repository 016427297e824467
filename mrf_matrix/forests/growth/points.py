"""Which records build a tree's structure, and which label its leaves."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.shown import shown

Drawn = tuple[tuple[Longs, Longs], tuple[Longs, Longs]]
"""(tree, record) of the structure points, and of the estimation points; sorted by both."""


class Points(Protocol):
    """How the records of each tree are drawn."""

    @property
    def separate(self) -> bool:
        """Whether structure and estimation points are disjoint."""
        ...

    def draw(self, n_records: int, n_trees: int, generator: np.random.Generator) -> Drawn:
        """Return the structure and the estimation points of all trees."""
        ...


@dataclass(frozen=True)
class Partition:
    """Structure or estimation point, by an independent coin for every record and tree.

    Parameters
    ----------
    rate : float, default=1
        Expected number of structure points per estimation point (the paper's partition rate).
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float):
            raise TypeError(f"partition_rate={shown(self.rate)}: expected a positive number.")
        if not 0 < self.rate < float("inf"):
            raise ValueError(f"partition_rate={self.rate}: expected a positive number.")

    @property
    def separate(self) -> bool:
        """True."""
        return True

    @property
    def share(self) -> float:
        """Probability of a structure point."""
        return self.rate / (1 + self.rate)

    def draw(self, n_records: int, n_trees: int, generator: np.random.Generator) -> Drawn:
        """Throw the coins; memory 9 bytes a record and tree."""
        structure = generator.random((n_trees, n_records), dtype=np.float32) < self.share
        return np.nonzero(structure), np.nonzero(~structure)  # type: ignore[return-value]


@dataclass(frozen=True)
class Bootstrap:
    """As many draws with replacement as there are records, for both purposes (Breiman, 2001)."""

    @property
    def separate(self) -> bool:
        """False."""
        return False

    def draw(self, n_records: int, n_trees: int, generator: np.random.Generator) -> Drawn:
        """Draw and sort; memory 8 bytes a record and tree."""
        drawn = np.sort(generator.integers(n_records, size=(n_trees, n_records)), axis=1)
        points = np.repeat(np.arange(n_trees), n_records), drawn.ravel()
        return points, points


@dataclass(frozen=True)
class Everything:
    """Every record, for both purposes."""

    @property
    def separate(self) -> bool:
        """False."""
        return False

    def draw(self, n_records: int, n_trees: int, generator: np.random.Generator) -> Drawn:
        """Return all records for every tree."""
        points = (np.repeat(np.arange(n_trees), n_records), np.tile(np.arange(n_records), n_trees))
        return points, points
