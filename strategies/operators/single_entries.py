"""0/1 matrices with one 1 in every column: each cell lies in one row."""

from abc import abstractmethod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Integers, Longs
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.scaled import Scaled


class SingleEntries(Operator):
    """A matrix known by the row in which every column has its 1."""

    prefers_sparse = True
    is_binary = True
    has_cheap_inverse = True  # cells of one row share its answer

    @abstractmethod
    def rows_of(self, cells: Longs) -> Longs:
        """Return the row of every cell, given by flat numbers."""

    @property
    def entries(self) -> int:
        """One a cell."""
        return self.shape[1]

    def columns(self, cells: Integers) -> sparse.csr_array:
        """Return the columns at the given cells: one 1 each."""
        rows = self.rows_of(self.flat_cells(cells))
        entries = (np.ones(len(rows), dtype=np.int64), (rows, np.arange(len(rows))))
        return sparse.csr_array(entries, shape=(self.shape[0], len(rows)))

    def uniform_column_norm(self, norm: Norm) -> float:
        """Return 1."""
        return 1.0

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return 1."""
        return 1

    def rounded(self, scale: int) -> Operator:
        """Return ``scale`` times the matrix."""
        return Scaled(scale, self)
