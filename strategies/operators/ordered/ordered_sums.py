"""Sums over intervals of ordered cells, with columns that are counted in closed form."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from strategies.operators.base.arrays import Array
from strategies.operators.base.operator import Norm, Operator


@dataclass(frozen=True, eq=False, repr=False)
class OrderedSums(Operator):
    """0/1 rows over n ordered cells; no two cells are in the same of them."""

    n: int
    is_binary = True
    has_distinct_columns = True

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n={self.n}: expected at least one cell.")
        object.__setattr__(self, "n", int(self.n))

    @property
    @abstractmethod
    def sums_over(self) -> Array:
        """The number of sums that hold each cell, shape (n,)."""

    def column_norms(self, norm: Norm) -> Array:
        """Return the norm of every column: the number of sums that hold the cell, or its root."""
        return self.sums_over if norm == "l1" else np.sqrt(self.sums_over)
