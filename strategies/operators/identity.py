"""0/1 matrices with one 1 in every column: the identity, and cells merged into groups."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Integers,
    Longs,
    as_shape,
    check_allocation,
    checked_sizes,
    real_array,
)
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.recovery import check_rows_contained
from strategies.operators.explicit import Sparse, as_operator
from strategies.operators.masks.energies import (
    LINE,
    Energies,
    line_energies,
    positive_energies,
    product_energies,
    structure_energies,
)
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
        return self.shape[1]

    def columns(self, cells: Integers) -> sparse.csr_array:
        rows = self.rows_of(self.flat_cells(cells))
        entries = (np.ones(len(rows), dtype=np.int64), (rows, np.arange(len(rows))))
        return sparse.csr_array(entries, shape=(self.shape[0], len(rows)))

    def uniform_column_norm(self, norm: Norm) -> float:
        return 1.0

    def integer_sensitivity(self, norm: Norm) -> int:
        return 1

    def rounded(self, scale: int) -> Operator:
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
        return self.n, self.n

    def rows_of(self, cells: Longs) -> Longs:
        return cells

    @property
    def T(self) -> Operator:
        return self

    def _matmat(self, right: Array) -> Array:
        return right

    def _rmatmat(self, left: Array) -> Array:
        return left

    def to_sparse(self) -> sparse.csr_array:
        check_allocation("sparse Identity", (self.n, 2))
        return sparse.eye_array(self.n, dtype=np.int64, format="csr")

    def _solve(self, answers: Array) -> Array:
        return answers

    def row_errors(self, workload: Operator) -> Array:
        """Return the squared norms of the workload's rows, since ``W A⁺ = W``."""
        return workload.row_squares()


@structure_energies.register
def identity_energies(workload: Identity) -> Energies | None:
    if workload.n > MOST_CELLS:
        return None
    sizes = workload.sizes or (workload.n,)
    values = [np.array([1.0, size - 1.0]) / size for size in sizes]
    pairs = zip(sizes, values, strict=True)
    return product_energies([positive_energies((n,), LINE, one, True) for n, one in pairs])


MOST_CELLS = 2**1000  # cells whose number a double can hold


@dataclass(frozen=True, eq=False, repr=False)
class Grouping(SingleEntries):
    """The 0/1 matrix whose row r sums the cells of group r.

    Parameters
    ----------
    labels : array-like of int, shape (n,)
        Group of every cell; groups are numbered 0, 1, ... without gaps.
    sizes : tuple of int, optional
        Attribute sizes of the product domain whose cells are the columns.

    Examples
    --------
    >>> Grouping([0, 1, 0]).to_dense()
    array([[1., 0., 1.],
           [0., 1., 0.]])
    """

    labels: Longs
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        labels = real_array("labels", self.labels, 1)
        if labels.dtype.kind != "i" or not len(labels) or labels.min() < 0:
            raise ValueError("labels: expected a group number from 0 for every cell.")
        object.__setattr__(self, "labels", labels)
        if not self.counts.all():
            empty = int(np.flatnonzero(self.counts == 0)[0])
            raise ValueError(f"labels: group {empty} has no cell, expected groups without gaps.")
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, len(labels)))

    @cached_property
    def counts(self) -> Longs:
        """Cells of every group."""
        return np.bincount(self.labels)

    @cached_property
    def representatives(self) -> Longs:
        """The first cell of every group."""
        return np.unique(self.labels, return_index=True)[1]

    @property
    def shape(self) -> tuple[int, int]:
        return as_shape(len(self.counts), len(self.labels))

    def rows_of(self, cells: Longs) -> Longs:
        return self.labels[cells]

    def _matmat(self, right: Array) -> Array:
        return np.asarray(self.to_sparse() @ right)

    def _rmatmat(self, left: Array) -> Array:
        return left[self.labels]

    def to_sparse(self) -> sparse.csr_array:
        return self.columns(np.arange(self.shape[1]))

    def row_gram(self) -> Array:
        return np.diag(self.counts.astype(np.float64))

    def row_squares(self) -> Array:
        return self.counts.astype(np.float64)

    def _solve(self, answers: Array) -> Array:
        return np.asarray((answers / self.counts[:, None])[self.labels])

    def row_errors(self, workload: Operator) -> Array:
        return over_groups(workload, self).row_squares()


def over_groups(workload: Operator, grouping: Grouping) -> Operator:
    """Return W' with ``W = W' G``, one column a group.

    Parameters
    ----------
    workload : Operator of shape (q, n)
    grouping : Grouping of shape (g, n)

    Raises
    ------
    RowSpaceError
        If the workload tells cells of one group apart, so that ``W G⁺ G`` is not W.
    """
    if workload.shape[1] != grouping.shape[1]:
        raise ValueError(
            f"workload has {workload.shape[1]} columns: expected the {grouping.shape[1]} cells "
            f"of the grouping."
        )
    if grouping.shape[0] == grouping.shape[1]:
        order = np.argsort(grouping.labels)
        return Sparse(workload.columns(order))
    form = workload.compact()
    columns = form[:, grouping.representatives]
    difference = form - columns[:, grouping.labels]
    outside, total = ((part * part).sum(axis=1) for part in (difference, form))
    check_rows_contained(np.asarray(outside), np.asarray(total))
    return as_operator(columns, "workload")


structure_energies.register(Grouping, line_energies)
