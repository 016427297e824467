"""Every cell measured: once, in groups of cells, or with its own weight and p sums beside."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from strategies.operators.base.arrays import (
    Array,
    Integers,
    Longs,
    Real,
    as_dense,
    as_shape,
    check_allocation,
    checked_sizes,
    fits,
    real_array,
    real_sparse,
)
from strategies.operators.base.operator import Norm, Operator, cached_per_value
from strategies.operators.base.recovery import BAND, check_rows_contained, row_bands
from strategies.operators.explicit import Sparse, as_operator
from strategies.operators.masks.anova import (
    LINE,
    Energies,
    line_energies,
    positive_energies,
    product_energies,
    structure_energies,
)
from strategies.operators.ordered_sums import AllRanges, OrderedGram, ordered_gram
from strategies.operators.ranges import Ranges, sums_to_cuts
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


FEWEST_SPARSE = 300  # rows beside the cells from which their systems may be kept sparse
SPARSE = 0.03  # share of nonzeros up to which they are
CANCELLED = 1e-6  # share of a sum that a difference is trusted to


@dataclass(frozen=True, eq=False, repr=False)
class PIdentity(Operator):
    """``A = [diag(d); C]`` with C of few rows, mostly zeros: a p-Identity strategy.

    With ``B = C diag(1/d)`` and ``S = I + B Bᵀ`` (p x p),
    ``A⁺ = diag(1/d) [I - BᵀS⁻¹B, BᵀS⁻¹]``: it has full column rank, and is solved with in time
    proportional to the entries of C.

    Parameters
    ----------
    diagonal : array-like of shape (n,)
        d, without zeros. Integers stay exact.
    rows : scipy sparse array of shape (p, n)
        C, at least one row.

    Examples
    --------
    >>> matrix = PIdentity(np.ones(2), sparse.csr_array([[1.0, 1.0]]))
    >>> matrix.least_squares(np.array([1.0, 2.0, 3.0])).round(6)
    array([1., 2.])
    """

    diagonal: Real
    rows: sparse.csr_array
    sizes: tuple[int, ...] | None = None
    _own_numbers = ("diagonal", "rows")
    prefers_sparse = True
    has_cheap_inverse = True

    def __post_init__(self) -> None:
        diagonal = real_array("diagonal", self.diagonal, 1)
        if not np.all(diagonal):
            raise ValueError("diagonal has zeros: expected every cell to be measured.")
        rows = real_sparse("rows", self.rows)
        if rows.shape[1] != len(diagonal) or rows.shape[0] < 1:
            raise ValueError(
                f"rows has shape {rows.shape}: expected at least one row over the "
                f"{len(diagonal)} cells of the diagonal."
            )
        object.__setattr__(self, "diagonal", diagonal)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, len(diagonal)))

    @property
    def shape(self) -> tuple[int, int]:
        p, n = self.rows.shape
        return int(n + p), int(n)

    @property
    def entries(self) -> int:
        return len(self.diagonal) + int(self.rows.nnz)

    def _matmat(self, right: Array) -> Array:
        return np.concatenate([self.diagonal[:, None] * right, self.rows @ right])

    def _rmatmat(self, left: Array) -> Array:
        n = len(self.diagonal)
        return np.asarray(self.diagonal[:, None] * left[:n] + self.rows.T @ left[n:])

    def to_sparse(self) -> sparse.csr_array:
        return sparse.csr_array(sparse.vstack([_diagonal(self.diagonal), self.rows]))

    def rounded(self, scale: int) -> Operator:
        """Return ``round(scale * A[i, j])``, of this form while no cell is rounded to zero."""
        whole = super().rounded(scale)
        n = len(self.diagonal)
        form = whole.to_sparse()
        diagonal = form[:n].diagonal()
        if not np.all(diagonal):
            return whole
        return PIdentity(diagonal, sparse.csr_array(form[n:]), self.sizes)

    def flip(self) -> "PIdentity":
        """Return the strategy over the cells in reversed order."""
        return PIdentity(self.diagonal[::-1], sparse.csr_array(self.rows[:, ::-1]), self.sizes)

    @cached_property
    def _scaled_rows(self) -> sparse.csr_array:
        """``B = C diag(1/d)``."""
        return sparse.csr_array(self.rows @ _diagonal(1.0 / self.diagonal))

    def _without_rows(self, right: Array) -> Array:
        """Return ``S⁻¹ B @ right``."""
        return solver_of(self)(self._scaled_rows @ right)

    def _solve(self, answers: Array) -> Array:
        n = len(self.diagonal)
        joint = answers[:n] + self._scaled_rows.T @ answers[n:]
        cells = joint - self._scaled_rows.T @ self._without_rows(joint)
        return np.asarray(cells / self.diagonal[:, None])

    def _estimate(self, workload: Operator, answers: Array) -> Array:
        return workload.matmat(self._solve(answers))  # every workload is determined

    def errors_of(self, rows: Array) -> Array:
        """Return ``||w A⁺||²`` of explicit rows w, shape (b, n): sums of squares only."""
        scaled = rows / self.diagonal
        beside = self._without_rows(scaled.T).T
        found = np.concatenate([scaled - beside @ self._scaled_rows, beside], axis=1)
        return np.asarray(np.einsum("ij,ij->i", found, found))

    def row_errors(self, workload: Operator) -> Array:
        """Return ``||(W A⁺)_r||²`` of every row, a band of rows at a time.

        A range is the difference of two prefix sums, and so are its coordinates.
        """
        if isinstance(workload, AllRanges):
            check_allocation("ends of all ranges", (workload.shape[0], 4))
            first, last = np.triu_indices(workload.n)
            workload = Ranges(workload.n, first, last + 1, np.ones(len(first)))
        if isinstance(workload, Ranges) and fits((workload.n, self.rows.shape[0]), 32):
            return self.range_errors(workload)
        return np.concatenate([self.errors_of(band) for band in row_bands(workload)])

    def range_errors(self, ranges: Ranges) -> Array:
        """Return the errors of ranges: ``||w/d||² - (w/d)ᵀ Bᵀ S⁻¹ B (w/d)``, by sums up to cuts.

        Where that cancels, by sums of squares.
        """
        own = sums_to_cuts(1.0 / np.square(self.diagonal.astype(np.float64))[:, None])
        beside = sums_to_cuts(as_dense(self._scaled_rows @ _diagonal(1.0 / self.diagonal)).T)
        solved = np.ascontiguousarray(solver_of(self)(beside.T).T)
        whole = (own[ranges.stops] - own[ranges.starts])[:, 0] * ranges.squares
        found = np.asarray(whole - ranges.squared_differences(beside, solved))
        lost = np.flatnonzero(found < CANCELLED * whole)
        if len(lost):
            few = ranges.take(lost)
            found[lost] = np.concatenate([self.errors_of(band) for band in row_bands(few)])
        return found

    def error_trace(self, workload: Operator) -> float:
        """Return ``||W A⁺||_F²``, over ordered cells by n rows with the same Gram."""
        gram = ordered_gram(workload)
        if gram is None:
            return float(self.row_errors(workload).sum())
        return self.ordered_trace(gram)

    def ordered_trace(self, gram: OrderedGram) -> float:
        """Return ``tr(G (AᵀA)⁻¹)``, a sum of squares over the n rows of a factor F of G.

        ``B diag(1/d) Fᵀ`` by sums of B's rows from every cell on.
        """
        p, n = self.rows.shape
        roots = np.sqrt(gram.steps)[:, None]
        scaled = gram.high / self.diagonal
        onward = as_dense(self._scaled_rows @ _diagonal(scaled))
        np.cumsum(onward[:, ::-1], axis=1, out=onward[:, ::-1])
        beside = np.ascontiguousarray(solver_of(self)(onward * roots[:, 0]).T)
        dense = None if self.rows.nnz <= SPARSE * p * n else as_dense(self._scaled_rows)
        total, step = float(np.vdot(beside, beside)), max(1, BAND // (16 * n))
        for rows in (slice(s, min(s + step, n)) for s in range(0, n, step)):
            band = beside[rows] @ (self._scaled_rows if dense is None else dense)
            cells = np.arange(rows.start, rows.stop)[:, None]
            band -= roots[rows] * np.where(np.arange(n) >= cells, scaled, 0.0)
            total += float(np.vdot(band, band))
        return total


@cached_per_value
def solver_of(matrix: PIdentity) -> Callable[[Array], Array]:
    """Return what solves with ``S = I + B Bᵀ``, factored once for as long as the matrix lives.

    S is at least as well conditioned as A. Rows that are nested, or meet few others, have a factor
    with as few entries.
    """
    bent = matrix._scaled_rows
    return system_solver(sparse.csc_array(sparse.eye_array(bent.shape[0]) + bent @ bent.T))


def system_solver(system: sparse.csc_array) -> Callable[[Array], Array]:
    """Factor a positive definite system (p, p), with few entries or dense."""
    p = system.shape[0]
    if p >= FEWEST_SPARSE and system.nnz <= SPARSE * p * p:
        factor = sparse.linalg.splu(
            system,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        return lambda right: np.asarray(factor.solve(right))
    check_allocation("systems of PIdentity", (p, p))
    lower = linalg.cho_factor(as_dense(system), lower=True)
    return lambda right: np.asarray(linalg.cho_solve(lower, right))


structure_energies.register(PIdentity, line_energies)


def with_rows(diagonal: Array, rows: sparse.csr_array) -> Operator:
    """Return ``[diag(d); C]`` without its empty rows; the Identity where all are empty."""
    kept = np.diff(rows.indptr) > 0
    if not kept.any():
        return Identity(len(diagonal))
    return PIdentity(diagonal, sparse.csr_array(rows[kept]))


def _diagonal(values: Real) -> sparse.csr_array:
    places = np.arange(len(values) + 1)
    return sparse.csr_array((values, places[:-1], places), shape=(len(values),) * 2)
