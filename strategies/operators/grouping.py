"""Cells merged into groups: one row a group, one 1 in every column."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Longs, Numbers
from strategies.operators.base.explicit_forms import as_shape
from strategies.operators.base.operator import Operator
from strategies.operators.base.pseudo_inverse import check_rows_contained
from strategies.operators.base.validation import checked_sizes, real_array
from strategies.operators.explicit import Sparse, as_operator
from strategies.operators.identity import SingleEntries
from strategies.operators.masks.energies import line_energies, structure_energies


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
        """Groups and cells."""
        return as_shape(len(self.counts), len(self.labels))

    def rows_of(self, cells: Longs) -> Longs:
        """Return the cells' groups."""
        return self.labels[cells]

    def _matmat(self, right: Array) -> Array:
        return np.asarray(self.to_sparse() @ right)

    def _rmatmat(self, left: Array) -> Array:
        return left[self.labels]

    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix in CSR form."""
        return self.columns(np.arange(self.shape[1]))

    def row_gram(self) -> Array:
        """Return the diagonal matrix of group sizes."""
        return np.diag(self.counts.astype(np.float64))

    def row_squares(self) -> Array:
        """Return the group sizes."""
        return self.counts.astype(np.float64)

    def least_squares(self, answers: Numbers) -> Array:
        """Return each group's answer spread evenly over its cells."""
        return ((self.checked_answers(answers).T / self.counts).T)[self.labels]

    def row_errors(self, workload: Operator) -> Array:
        """Return the squared norms of the workload's rows over the groups."""
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
