"""The product of two structures, and a structure whose rows are each times a number."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Integers,
    Longs,
    Real,
    as_dense,
    check_allocation,
    fits,
    real_array,
)
from strategies.operators.base.operator import (
    Norm,
    Operator,
    check_range,
    cross_gram,
    product,
    rows_product,
)
from strategies.operators.base.qr import least_squares
from strategies.operators.base.recovery import takes_long
from strategies.operators.explicit import Dense
from strategies.operators.identity import Grouping, over_groups
from strategies.operators.masks.anova import masks_energies, structure_energies
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.operators.masks.heaviest_cell import Heaviest, heaviest_cell
from strategies.operators.masks.mask_products import combined_squares
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.wrappers import Weighted


@dataclass(frozen=True, eq=False, repr=False)
class Product(Operator):
    """``left @ right``, never multiplied out unless an explicit form is asked for.

    With a `Grouping` on the right, it is a strategy over merged cells seen from all cells: its
    columns are the left matrix's columns, repeated, so norms, rounding and errors are the left
    matrix's own. With paths on the right and an explicit matrix on the left, it is a strategy of
    combinations of paths over a domain of any size: its L2 sensitivity is found over all cells, or
    bounded (`strategies.operators.masks.heaviest_cell`).
    """

    left: Operator
    right: Operator

    def __post_init__(self) -> None:
        if self.left.shape[1] != self.right.shape[0]:
            raise ValueError(
                f"left has {self.left.shape[1]} columns and right has {self.right.shape[0]} "
                f"rows: expected the same number."
            )
        object.__setattr__(self, "sizes", self.right.sizes)

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[1]

    @cached_property
    def heaviest(self) -> Heaviest | None:
        """The largest squared norm of a column of combined paths, None for other products."""
        if not (isinstance(self.left, Dense) and isinstance(self.right, RowKronecker)):
            return None
        return heaviest_cell(self.left.array, self.right.all_masks(), self.right.groups)

    @property
    def prefers_sparse(self) -> bool:
        return self.left.prefers_sparse and self.right.prefers_sparse

    def to_unit(self) -> tuple[Operator, int]:
        (left, one), (right, other) = self.left.to_unit(), self.right.to_unit()
        return (Product(left, right), one + other) if one or other else (self, 0)

    def take_rows(self, rows: Longs) -> Operator:
        return Product(self.left.take_rows(rows), self.right)

    @property
    def T(self) -> Operator:
        return Product(self.right.T, self.left.T)

    def _matmat(self, right: Array) -> Array:
        return self.left._matmat(self.right._matmat(right))

    def _rmatmat(self, left: Array) -> Array:
        return self.right._rmatmat(self.left._rmatmat(left))

    def to_dense(self) -> Array:
        check_allocation("dense Product", self.shape)
        if isinstance(self.right, Grouping):
            return self.left.to_dense()[:, self.right.labels]
        if self.right.prefers_sparse and not self.left.prefers_sparse:
            return self.right._rmatmat(self.left.to_dense().T).T
        if self.left.prefers_sparse and not self.right.prefers_sparse:
            return self.left._matmat(self.right.to_dense())
        return super().to_dense()

    def to_sparse(self) -> sparse.csr_array:
        if not self.prefers_sparse:
            return super().to_sparse()
        return sparse.csr_array(self.left.to_sparse() @ self.right.to_sparse())

    def columns(self, cells: Integers) -> sparse.csr_array:
        return sparse.csr_array(self.left.to_sparse() @ self.right.columns(cells))

    def row_gram(self) -> Array:
        """Return ``A @ A.T``; through the right factor's row gram where n is out of reach."""
        paths = isinstance(self.right, RowKronecker) and not self.left.prefers_sparse
        if fits(self.shape) and not paths:
            return super().row_gram()
        left = self.left.compact()
        inner = self.right.row_gram_matmat(as_dense(left.T))
        return np.asarray(left @ inner)

    def row_gram_matmat(self, right: Array) -> Array:
        return self.left._matmat(self.right.row_gram_matmat(self.left._rmatmat(right)))

    def row_squares(self) -> Array:
        if fits(self.shape):
            return super().row_squares()
        if isinstance(self.right, RowKronecker) and self.left.prefers_sparse:
            return combined_squares(self.left.to_sparse(), self.right.masks, self.right.sizes)
        return np.diagonal(self.row_gram()).copy()

    def column_norms(self, norm: Norm) -> Array:
        """Return the norm of every column; sums of entries without multiplying out, where >= 0."""
        if isinstance(self.right, Grouping):
            return self.left.column_norms(norm)[self.right.labels]
        if norm == "l1" and self.is_nonnegative:
            return self.rmatmat(np.ones(self.shape[0]))
        return super().column_norms(norm)

    @property
    def is_nonnegative(self) -> bool:
        """Whether 0/1 rows are combined with numbers that are not negative."""
        if not (self.right.is_binary and self.left.prefers_sparse):
            return False
        return bool(self.left.to_sparse().data.min(initial=0) >= 0)

    @property
    def has_counts(self) -> bool:
        """Whether 0/1 rows are combined with integers that are not negative."""
        return self.is_nonnegative and self.left.to_sparse().dtype.kind in "iu"

    def uniform_column_norm(self, norm: Norm) -> float | None:
        return self.left.uniform_column_norm(norm) if isinstance(self.right, Grouping) else None

    def sensitivity(self, norm: Norm) -> float:
        if isinstance(self.right, Grouping):
            return self.left.sensitivity(norm)
        if norm == "l2" and self.heaviest is not None:
            return sqrt(self.heaviest.square)  # of any size: an integer may be beyond 64 bits
        return super().sensitivity(norm)

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        """As the left matrix over a grouping; whether all cells of combined paths were met."""
        if isinstance(self.right, Grouping):
            return self.left.sensitivity_is_exact(norm)
        return norm == "l1" or self.heaviest is None or self.heaviest.is_exact

    def rounded(self, scale: int) -> Operator:
        if isinstance(self.right, Grouping):
            return Product(self.left.rounded(scale), self.right)
        return super().rounded(scale)

    def integer_column_sums(self, norm: Norm) -> Longs:
        if isinstance(self.right, Grouping):
            return self.left.integer_column_sums(norm)[self.right.labels]
        if norm == "l1" and self.has_counts:
            sums = self.rmatmat(np.ones(self.shape[0]))
            if sums.max(initial=0.0) <= 2.0**52:  # no partial sum is above: all are exact
                return np.rint(sums).astype(np.int64)
        return super().integer_column_sums(norm)

    def integer_sensitivity(self, norm: Norm) -> int:
        if isinstance(self.right, Grouping):
            return self.left.integer_sensitivity(norm)
        if norm == "l2" and self.heaviest is not None:
            return int(self.heaviest.square)
        return super().integer_sensitivity(norm)

    def _solve(self, answers: Array) -> Array:
        """Over a grouping of counts c: ``A⁺ = Gᵀ C^{-1/2} (B C^{1/2})⁺`` for ``A = B G``."""
        if not isinstance(self.right, Grouping):
            return super()._solve(answers)
        root = np.sqrt(self.right.counts)
        solution = least_squares(self.left.to_dense() * root, answers)
        return np.asarray((solution / root[:, None])[self.right.labels])

    def stands_alone(self, workload: Operator) -> bool:
        inner = self.right
        if not (isinstance(workload, Product) and isinstance(inner, RowKronecker)):
            return False
        if not takes_long(self, inner.gram_seconds(self.shape[0])):
            return False
        if workload is self:
            return True
        other = workload.right
        if workload.shape != self.shape:
            return False
        if not (isinstance(other, RowKronecker) and np.array_equal(other.bits, inner.bits)):
            return False
        return bool(abs(workload.left.to_sparse() - self.left.to_sparse()).sum() == 0)

    def error_trace(self, workload: Operator) -> float | None:
        if not isinstance(self.right, Grouping):
            return super().error_trace(workload)
        return self.left.error_trace(over_groups(workload, self.right))

    def row_errors(self, workload: Operator) -> Array | None:
        if not isinstance(self.right, Grouping):
            return super().row_errors(workload)
        return self.left.row_errors(over_groups(workload, self.right))


product.register(Operator, Product)


@rows_product.register
def product_rows_product(outer: Product, other: Operator) -> Array:
    return outer.left.matmat(cross_gram(outer.right, other))


@mask_rows.register
def product_mask_rows(workload: Product) -> MaskRows | None:
    inner = mask_rows(workload.right)
    return None if inner is None else inner.mix_rows(workload.left.to_sparse())


@dataclass(frozen=True, eq=False, repr=False)
class RowScaled(Weighted):
    """``diag(weights) @ A``: every row measured with its own weight.

    Parameters
    ----------
    weights : array-like of shape (m,)
        Finite. Integers keep the entries of an integer structure exact.
    inner : Operator
    """

    weights: Real
    inner: Operator

    def __post_init__(self) -> None:
        weights = real_array("weights", self.weights, 1)
        if len(weights) != self.inner.shape[0]:
            raise ValueError(
                f"weights has {len(weights)} entries: expected one for each of the "
                f"{self.inner.shape[0]} rows."
            )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "sizes", self.inner.sizes)

    @property
    def row_weights(self) -> Real:
        return self.weights

    def _weigh(self, weights: Array, inner: Operator) -> Operator:
        return replace(self, weights=weights, inner=inner)  # one made of it keeps its rules

    def take_rows(self, rows: Longs) -> Operator:
        return RowScaled(self.weights[rows], self.inner.take_rows(rows))

    def _scale(self, form: sparse.csr_array) -> sparse.csr_array:
        return sparse.csr_array(sparse.diags_array(self.weights, dtype=self.weights.dtype) @ form)

    def column_norms(self, norm: Norm) -> Array:
        sums = self._added_norms(norm)
        if sums is None:
            return super().column_norms(norm)
        return sums if norm == "l1" else np.sqrt(sums)

    def _added_norms(self, norm: Norm) -> Array | None:
        """Return sums over columns from the transpose alone where entries are only added.

        Those of a 0/1 structure are, and in the L1 norm those of a product without signs.
        """
        positive = isinstance(self.inner, Product) and self.inner.is_nonnegative
        if not (self.inner.is_binary or (norm == "l1" and positive)):
            return None
        sizes = np.abs(self.weights.astype(np.float64))
        return self.inner.rmatmat(sizes if norm == "l1" else sizes**2)

    def sensitivity(self, norm: Norm) -> float:
        bound = self._group_bound(norm)
        if bound is None:
            return super().sensitivity(norm)
        return float(bound) if norm == "l1" else float(np.sqrt(bound))

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        """Tell whether n is within reach, or every cell meets the same weights."""
        return self._is_even or self._group_bound(norm) is None

    def integer_sensitivity(self, norm: Norm) -> int:
        bound = self._group_bound(norm)
        return super().integer_sensitivity(norm) if bound is None else int(bound)

    def integer_column_sums(self, norm: Norm) -> Longs:
        """Return exact column sums, from the transpose alone as `column_norms` are.

        Sums of integers that are not negative never fall, so where the largest came out below
        2**52 every partial sum was exact in a double.
        """
        whole = not isinstance(self.inner, Product) or self.inner.has_counts
        sums = self._added_norms(norm) if whole and self.weights.dtype.kind in "iu" else None
        if sums is None or sums.max(initial=0.0) > 2.0**52:
            return super().integer_column_sums(norm)
        return np.rint(sums).astype(np.int64)

    @cached_property
    def _is_even(self) -> bool:
        """Whether groups partition the domain, of one weight each: the bound is exact then."""
        inner = self.inner
        if not isinstance(inner, RowKronecker) or not inner.is_partition or inner.groups is None:
            return False
        weights = np.abs(self.weights)
        least = np.full(int(inner.groups.max()) + 1, np.inf)
        np.minimum.at(least, inner.groups, weights)
        return bool((weights == least[inner.groups]).all())

    def _group_bound(self, norm: Norm) -> float | int | None:
        """Sum over groups of disjoint rows of the largest weight: every column meets one each.

        An exact integer where the weights are integers. Squares enter the L2 norm alone.
        """
        inner = self.inner
        if not isinstance(inner, RowKronecker) or (inner.is_enumerable and not self._is_even):
            return None
        if self.weights.dtype.kind == "i":
            most = float(np.abs(self.weights.astype(np.float64)).max(initial=0.0))
            check_range(most ** (1 if norm == "l1" else 2) * len(self.weights))
        powers = np.abs(self.weights) if norm == "l1" else self.weights**2
        if inner.groups is None:
            return as_number(powers.sum())
        largest = np.zeros(int(inner.groups.max(initial=-1)) + 1, dtype=powers.dtype)
        np.maximum.at(largest, inner.groups, powers)
        return as_number(largest.sum())

    def rounded(self, scale: int) -> Operator:
        if self.inner.is_binary:
            return RowScaled(np.rint(self.weights * scale).astype(np.int64), self.inner)
        return super().rounded(scale)


def as_number(value: np.number) -> float | int:
    """Return NumPy's number as Python's of its kind: integers stay exact."""
    return int(value) if np.issubdtype(value.dtype, np.integer) else float(value)


structure_energies.register(RowScaled, masks_energies)
