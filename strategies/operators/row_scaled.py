"""A structure whose rows are each times a number of their own."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Longs, Real
from strategies.operators.base.explicit_forms import check_range
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.validation import real_array
from strategies.operators.masks.energies import masks_energies, structure_energies
from strategies.operators.product import Product
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.wrappers import Weighted


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
        """The weights."""
        return self.weights

    def _scale(self, form: sparse.csr_array) -> sparse.csr_array:
        return sparse.csr_array(sparse.diags_array(self.weights, dtype=self.weights.dtype) @ form)

    def column_norms(self, norm: Norm) -> Array:
        """Return the norm of every column, from the transpose alone where entries are only added.

        Those of a 0/1 structure are, and in the L1 norm those of a product without signs.
        """
        added = norm == "l1" and isinstance(self.inner, Product) and self.inner.is_nonnegative
        if not (self.inner.is_binary or added):
            return super().column_norms(norm)
        powers = np.abs(self.weights) if norm == "l1" else self.weights.astype(float) ** 2
        sums = self.inner.rmatmat(powers)
        return sums if norm == "l1" else np.sqrt(sums)

    def sensitivity(self, norm: Norm) -> float:
        """Return the largest column norm, or a bound above it where n is out of reach."""
        bound = self._group_bound(norm)
        if bound is None:
            return super().sensitivity(norm)
        return float(bound) if norm == "l1" else float(np.sqrt(bound))

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        """Tell whether n is within reach, or every cell meets the same weights."""
        return self._is_even or self._group_bound(norm) is None

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return the exact integer sensitivity, or a bound above it where n is out of reach."""
        bound = self._group_bound(norm)
        return super().integer_sensitivity(norm) if bound is None else int(bound)

    def integer_column_sums(self, norm: Norm) -> Longs:
        """Return exact column sums, from the transpose alone as `column_norms` are.

        Sums of integers that are not negative never fall, so where the largest came out below
        2**52 every partial sum was exact in a double.
        """
        added = norm == "l1" and isinstance(self.inner, Product) and self.inner.has_counts
        if (self.inner.is_binary or added) and self.weights.dtype.kind in "iu":
            powers = np.abs(self.weights).astype(np.float64) ** (1 if norm == "l1" else 2)
            if powers.max(initial=0.0) <= 2.0**52:
                sums = self.inner.rmatmat(powers)
                if sums.max(initial=0.0) <= 2.0**52:
                    return np.rint(sums).astype(np.int64)
        return super().integer_column_sums(norm)

    @cached_property
    def _is_even(self) -> bool:
        """Whether groups partition the domain and weigh alike within: the bound is exact then."""
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
        """Return the operator with entries ``round(scale * A[i, j])``."""
        if self.inner.is_binary:
            return RowScaled(np.rint(self.weights * scale).astype(np.int64), self.inner)
        return super().rounded(scale)


def as_number(value: np.number) -> float | int:
    """Return a NumPy number as Python's of its kind, so that integers stay exact."""
    return int(value) if np.issubdtype(value.dtype, np.integer) else float(value)


structure_energies.register(RowScaled, masks_energies)
