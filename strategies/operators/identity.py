"""0/1 matrices with one 1 in every column, and the identity, where every cell is a row."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Integers, Longs, Numbers
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.validation import checked_sizes
from strategies.operators.masks.energies import LINE, Energies, product_energies, structure_energies
from strategies.operators.wrappers import Scaled


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


@dataclass(frozen=True, eq=False, repr=False)
class Identity(SingleEntries):
    """The n x n identity, for any n.

    Parameters
    ----------
    n : int
        Number of cells.
    sizes : tuple of int, optional
        Attribute sizes of the product domain whose cells are the columns.
    """

    n: int
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n={self.n}: expected at least one cell.")
        object.__setattr__(self, "n", int(self.n))
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, self.n))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n, self.n

    def rows_of(self, cells: Longs) -> Longs:
        """Return the cells themselves."""
        return cells

    @property
    def T(self) -> Operator:
        """The identity itself."""
        return self

    def _matmat(self, right: Array) -> Array:
        return right

    def _rmatmat(self, left: Array) -> Array:
        return left

    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix in CSR form, refused above the memory cap."""
        check_allocation("sparse Identity", (self.n, 2))
        return sparse.eye_array(self.n, dtype=np.int64, format="csr")

    def least_squares(self, answers: Numbers) -> Array:
        """Return the answers: they are the cells."""
        return self.checked_answers(answers)

    def row_errors(self, workload: Operator) -> Array:
        """Return the squared norms of the workload's rows, since ``W A⁺ = W``."""
        return workload.row_squares()


@structure_energies.register
def identity_energies(workload: Identity) -> Energies | None:
    """Return ``p_U / n`` on every component: the product of one identity an attribute."""
    if workload.n > MOST_CELLS:
        return None
    sizes = workload.sizes or (workload.n,)
    return product_energies([line_identity(size) for size in sizes])


def line_identity(size: int) -> Energies:
    """Return the energies of the identity over one attribute."""
    values = np.array([1.0, size - 1.0]) / size
    return Energies((size,), LINE[: 1 + (size > 1)], values[: 1 + (size > 1)], True)


MOST_CELLS = 2**1000  # cells whose number a double can hold
