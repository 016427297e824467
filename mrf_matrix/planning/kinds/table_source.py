"""What a kind of plan takes its private table from, wherever the data are."""

from typing import Protocol

import numpy as np

from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import CellCounts, LeafCounts
from strategies.operators import Operator

Features = tuple[int, ...]


class TableSource(Protocol):
    """Private data that can be counted."""

    @property
    def n_classes(self) -> int:
        """Number of classes k."""

    def cells(self, features: Features) -> CellCounts | LeafCounts:
        """Return the counts over the cells of some attributes."""

    def disjoint_leaves(self, ensemble: Ensemble, coins: np.random.Generator) -> CellCounts:
        """Return the counts of leaves when each record counts in one tree, drawn by its coin."""

    def check(self, measured: Operator) -> None:
        """Refuse, before budget is spent, a strategy that these tables have no answers to."""
