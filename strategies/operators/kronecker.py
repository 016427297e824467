"""Kronecker products of one structure an attribute or group of attributes, and weighted ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce, singledispatch
from math import prod
from typing import Any

import numpy as np
from scipy import linalg, sparse

from strategies.operators.base.arrays import Array, Integers, Real, cell_codes, check_allocation
from strategies.operators.base.operator import Norm, Operator, check_range, cross_gram, rows_product
from strategies.operators.base.qr import has_full_rank, qr_triangle
from strategies.operators.base.recovery import error_trace, row_errors
from strategies.operators.explicit import Dense
from strategies.operators.masks.anova import Energies, product_energies, structure_energies
from strategies.operators.masks.packed_masks import khatri_rao, unique_rows
from strategies.operators.product import RowScaled
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.wrappers import Scaled, Stack

NEAR = 1e-9  # relative error that doubles may have where they complete exact sums modulo 2**64
SAME = 1e-12  # relative distance at which weights of rows count as products


@dataclass(frozen=True, eq=False, repr=False)
class Kronecker(Operator):
    """``A_1 ⊗ A_2 ⊗ ...`` over a product domain.

    Parameters
    ----------
    factors : sequence of Operator
        One for each attribute (or block of attributes, where a factor has sizes of its own).

    Notes
    -----
    Norms, Grams and pseudo-inverses of a Kronecker product are the Kronecker products of the
    factors' own: the largest column norm is the product of the largest.
    """

    factors: tuple[Operator, ...]
    has_cheap_inverse = True  # factor by factor

    def __init__(self, factors: Sequence[Operator]) -> None:
        if not factors:
            raise ValueError("factors is empty: expected at least one operator.")
        object.__setattr__(self, "factors", tuple(factors))
        sizes = [factor.sizes or (factor.shape[1],) for factor in factors]
        object.__setattr__(self, "sizes", tuple(size for part in sizes for size in part))

    @property
    def shape(self) -> tuple[int, int]:
        rows = prod(factor.shape[0] for factor in self.factors)
        return rows, prod(factor.shape[1] for factor in self.factors)

    @property
    def prefers_sparse(self) -> bool:
        return all(factor.prefers_sparse for factor in self.factors)

    @property
    def entries(self) -> int:
        if not self.prefers_sparse:
            return super().entries
        return prod(factor.entries for factor in self.factors)

    @property
    def is_binary(self) -> bool:
        return all(factor.is_binary for factor in self.factors)

    @property
    def T(self) -> Operator:
        return Kronecker([factor.T for factor in self.factors])

    def to_unit(self) -> tuple[Operator, int]:
        parts, powers = zip(*(factor.to_unit() for factor in self.factors), strict=True)
        return (Kronecker(parts), sum(powers)) if any(powers) else (self, 0)

    def _matmat(self, right: Array) -> Array:
        return apply_along_axes([factor._matmat for factor in self.factors], self._columns, right)

    def _rmatmat(self, left: Array) -> Array:
        return apply_along_axes([factor._rmatmat for factor in self.factors], self._rows, left)

    @property
    def _rows(self) -> tuple[int, ...]:
        return tuple(factor.shape[0] for factor in self.factors)

    @property
    def _columns(self) -> tuple[int, ...]:
        return tuple(factor.shape[1] for factor in self.factors)

    def to_dense(self) -> Array:
        check_allocation("dense Kronecker", self.shape)
        return kronecker_product([factor.to_dense() for factor in self.factors])

    def to_sparse(self) -> sparse.csr_array:
        forms = [factor.to_sparse() for factor in self.factors]
        check_allocation("sparse Kronecker", (prod(int(form.nnz) for form in forms), 2))
        return reduce(lambda left, right: sparse.csr_array(sparse.kron(left, right)), forms)

    def columns(self, cells: Integers) -> sparse.csr_array:
        codes = cell_codes(cells, self.sizes or ())
        widths = [len(factor.sizes) if factor.sizes else 1 for factor in self.factors]
        parts = np.split(codes, np.cumsum(widths)[:-1], axis=1)
        pairs = zip(self.factors, parts, strict=True)
        forms = [one.columns(part if one.sizes else part[:, 0]) for one, part in pairs]
        return sparse.csr_array(khatri_rao([sparse.csc_array(form) for form in forms]))

    def gram_dense(self) -> Array:
        check_allocation("gram of Kronecker", (self.shape[1],) * 2)
        return kronecker_product([factor.gram_dense() for factor in self.factors])

    def row_gram(self) -> Array:
        check_allocation("row gram of Kronecker", (self.shape[0],) * 2)
        return kronecker_product([factor.row_gram() for factor in self.factors])

    def row_squares(self) -> Array:
        check_allocation("row norms of Kronecker", (self.shape[0],))
        return kronecker_product([factor.row_squares() for factor in self.factors])

    def column_norms(self, norm: Norm) -> Array:
        check_allocation("column norms of Kronecker", (self.shape[1],))
        return kronecker_product([factor.column_norms(norm) for factor in self.factors])

    def uniform_column_norm(self, norm: Norm) -> float | None:
        norms = [factor.uniform_column_norm(norm) for factor in self.factors]
        known = [part for part in norms if part is not None]
        return prod(known) if len(known) == len(norms) else None

    def sensitivity(self, norm: Norm) -> float:
        return prod(factor.sensitivity(norm) for factor in self.factors)

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        return all(factor.sensitivity_is_exact(norm) for factor in self.factors)

    def rounded(self, scale: int) -> Operator:
        if self.is_binary:
            return Scaled(scale, self)
        return super().rounded(scale)

    def integer_sensitivity(self, norm: Norm) -> int:
        return prod(factor.integer_sensitivity(norm) for factor in self.factors)

    def _solve(self, answers: Array) -> Array:
        check_allocation("the estimate of every cell", (self.shape[1], max(answers.shape[1], 1)))
        return apply_along_axes([factor._solve for factor in self.factors], self._rows, answers)

    def row_errors(self, workload: Operator) -> Array | None:
        if isinstance(workload, Kronecker) and self._columns == workload._columns:
            pairs = zip(self.factors, workload.factors, strict=True)
            return kronecker_product([row_errors(part, factor) for factor, part in pairs])
        if not isinstance(workload, RowKronecker) or self._columns != workload.sizes:
            return None
        errors = np.ones(workload.shape[0])
        for i, factor in enumerate(self.factors):
            masks = workload.masks(i)
            first, number = unique_rows(masks)
            errors *= row_errors(Dense(masks[first].astype(np.int64)), factor)[number]
        return errors

    def error_trace(self, workload: Operator) -> float | None:
        blocks = kronecker_blocks(workload)
        if blocks is None or any(self._columns != block._columns for _, block in blocks):
            return super().error_trace(workload)
        return sum(
            weight**2
            * prod(
                error_trace(part, factor)
                for factor, part in zip(self.factors, block.factors, strict=True)
            )
            for weight, block in blocks
        )


@singledispatch
def kronecker_blocks(workload: Operator) -> list[tuple[float, Kronecker]] | None:
    """Read a workload as weighted Kronecker products on top of each other, None where it is not."""
    return None


def blocks_over(
    workload: Operator, widths: tuple[int, ...]
) -> list[tuple[float, Kronecker]] | None:
    """Return the products that a workload stacks, over attributes of given sizes; else None."""
    blocks = kronecker_blocks(workload)
    if not blocks or sum(block.shape[0] for _, block in blocks) != workload.shape[0]:
        return None
    return blocks if all(block._columns == widths for _, block in blocks) else None


@kronecker_blocks.register
def own_block(workload: Kronecker) -> list[tuple[float, Kronecker]]:
    """Return the product itself, no block where a factor is all zeros."""
    return [(1.0, workload)] if all(f.row_squares().any() for f in workload.factors) else []


@kronecker_blocks.register
def scaled_blocks(workload: Scaled) -> list[tuple[float, Kronecker]] | None:
    inner = kronecker_blocks(workload.inner)
    return inner and [(workload.weight * weight, block) for weight, block in inner]


@kronecker_blocks.register
def stacked_blocks(workload: Stack) -> list[tuple[float, Kronecker]] | None:
    found = [kronecker_blocks(block) for block in workload.blocks]
    parts = [part for part in found if part is not None]
    return [one for part in parts for one in part] if len(parts) == len(found) else None


@kronecker_blocks.register
def weighted_blocks(workload: RowScaled) -> list[tuple[float, Kronecker]] | None:
    """Return products of weighted rows, where the weights of each product's rows are products.

    None where they are not, or a row has none and so needs no answer.
    """
    inner = kronecker_blocks(workload.inner)
    if not inner or sum(block.shape[0] for _, block in inner) != workload.shape[0]:
        return None
    ends = np.cumsum([block.shape[0] for _, block in inner])[:-1]
    found = []
    parts = np.split(workload.weights.astype(np.float64), ends)
    for (weight, block), rows in zip(inner, parts, strict=True):
        sides = product_sides(rows.reshape(block._rows))
        if sides is None:
            return None
        factors = [
            factor if (side == side[0]).all() else RowScaled(side / side[0], factor)
            for side, factor in zip(sides, block.factors, strict=True)
        ]
        found.append((weight * float(rows[0]), Kronecker(factors)))
    return found


def product_sides(table: Array) -> list[Array] | None:
    """Return a vector along each axis whose outer product is a table, None where it is none.

    Each has the table's first entry.
    """
    if not table.all():
        return None
    first = table[(0,) * table.ndim]
    sides = [
        table[(0,) * i + (slice(None),) + (0,) * (table.ndim - 1 - i)] for i in range(table.ndim)
    ]
    product = reduce(np.multiply.outer, [side / first for side in sides]) * first
    return sides if np.allclose(table, product, rtol=SAME, atol=0.0) else None


def kronecker_product(parts: Sequence[Array]) -> Array:
    """Return the Kronecker product of arrays, the last one fastest."""
    product = parts[0]
    for part in parts[1:]:
        product = np.asarray(np.kron(product, part), dtype=np.float64)
    return product


def apply_along_axes(
    actions: Sequence[Callable[[Array], Array]], sizes: Sequence[int], block: Array
) -> Array:
    """Apply one action to each axis of a (prod(sizes), j) array laid out in C order."""
    width = block.shape[1]
    tensor = block.reshape(*sizes, width)
    for axis, action in enumerate(actions):
        moved = np.moveaxis(tensor, axis, 0)
        result = action(moved.reshape(moved.shape[0], prod(moved.shape[1:])))
        tensor = np.moveaxis(result.reshape(result.shape[0], *moved.shape[1:]), 0, axis)
    return tensor.reshape(prod(tensor.shape[:-1]), width)


@dataclass(frozen=True, eq=False, repr=False)
class WeightedKronecker(RowScaled):
    """``diag(w) (T_1 ⊗ T_2 ⊗ ...)`` with invertible ``T_i``.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Finite, none of them 0. Integers keep the entries of integer factors exact.
    inner : Kronecker
        Of `Dense` factors, square and of full rank.

    Notes
    -----
    With ``B_i = T_i⁻¹`` a product ``⊗ W_i`` has ``W A⁺ = (⊗ W_i B_i) diag(1/w)``, so errors and
    answers take one axis after the other. Sums over columns are ``(⊗ |T_i|^p)ᵀ |w|^p``.

    Raises ValueError if a factor is none of those, or a weight is 0.

    Examples
    --------
    >>> frames = Kronecker([Dense([[1, 1], [1, -1]]), Dense([[1, 0], [0, 1]])])
    >>> WeightedKronecker([1, 2, 3, 4], frames).to_dense().sum(axis=1).tolist()
    [2.0, 4.0, 0.0, 0.0]
    >>> WeightedKronecker([1, 2, 3, 4], frames).integer_sensitivity("l2")
    20
    """

    inner: Kronecker
    has_cheap_inverse = True

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = self.inner.factors if isinstance(self.inner, Kronecker) else ()
        square = all(isinstance(one, Dense) and one.shape[0] == one.shape[1] for one in parts)
        full = square and all(has_full_rank(qr_triangle(one.to_dense())) for one in parts)
        if not parts or not full:
            raise ValueError(
                f"inner is {self.inner!r}: expected a Kronecker product of Dense factors, square "
                f"and of full rank."
            )
        if not np.all(self.weights):
            raise ValueError("weights holds 0: expected a weight for every row.")

    @cached_property
    def inverses(self) -> tuple[Array, ...]:
        """``B_i`` of every factor."""
        return tuple(linalg.inv(one.to_dense()) for one in self._frames)

    @property
    def _frames(self) -> tuple[Dense, ...]:
        return tuple(one for one in self.inner.factors if isinstance(one, Dense))

    @property
    def _sides(self) -> tuple[int, ...]:
        return tuple(one.shape[0] for one in self._frames)

    # Norms ----------------------------------------------------------------------------------

    def column_norms(self, norm: Norm) -> Array:
        check_allocation("column norms", self.shape[:1])
        sums = self._power_sums(norm, np.float64).astype(np.float64)
        return sums if norm == "l1" else np.sqrt(sums)

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return the exact sensitivity of integer weights and factors, as a Python integer.

        Unsigned sums are exact modulo 2**64, and doubles tell the multiple: they are off by far
        less than 2**63 where sums are below 2**100.

        Raises OverflowError where they are not.
        """
        near = self._power_sums(norm, np.float64)
        check_range(float(near.max()) / 2.0**38)
        largest = near >= near.max() * (1.0 - NEAR)
        rests = self._power_sums(norm, np.uint64)[largest]
        pairs = zip(near[largest].tolist(), rests.tolist(), strict=True)
        return int(max(rest + 2**64 * round((value - rest) / 2**64) for value, rest in pairs))

    def _power_sums(self, norm: Norm, kind: type[np.number]) -> Real:
        """Return the sums of absolute entries ("l1") or of their squares of every column."""
        parts: list[Any] = [self.weights, *(one.array for one in self._frames)]
        sizes = [abs(one).astype(kind) for one in parts]
        weights, *sides = sizes if norm == "l1" else [one * one for one in sizes]
        actions = [side.T.__matmul__ for side in sides]
        return apply_along_axes(actions, self._sides, weights[:, None])[:, 0]

    # Inverses -------------------------------------------------------------------------------

    def _solve(self, answers: Array) -> Array:
        actions = [one.__matmul__ for one in self.inverses]
        return apply_along_axes(actions, self._sides, answers / self.weights[:, None])

    def row_errors(self, workload: Operator) -> Array | None:
        """Return ``||(W A⁺)_r||²`` for stacked Kronecker products over the same attributes."""
        blocks = blocks_over(workload, self._sides)
        if blocks is None:
            return super().row_errors(workload)
        variances = (1.0 / self.weights.astype(np.float64) ** 2)[:, None]
        found = []
        for weight, block in blocks:
            check_allocation("errors of rows", (block.shape[0],))
            sides = [f.matmat(b) ** 2 for f, b in zip(block.factors, self.inverses, strict=True)]
            errors = apply_along_axes([one.__matmul__ for one in sides], self._sides, variances)
            found.append(weight**2 * errors[:, 0])
        return np.concatenate(found)

    def error_trace(self, workload: Operator) -> float | None:
        """Return ``||W A⁺||_F²`` from sums of squares of the columns of ``W_i B_i``."""
        blocks = blocks_over(workload, self._sides)
        if blocks is None:
            return super().error_trace(workload)
        variances = (1.0 / self.weights.astype(np.float64) ** 2).reshape(self._sides)
        squares: dict[tuple[int, int], Array] = {}
        total = 0.0
        for weight, block in blocks:
            for i, factor in enumerate(block.factors):
                if (i, id(factor)) not in squares:
                    squares[i, id(factor)] = column_squares(factor, self.inverses[i])
            sides = [squares[i, id(factor)] for i, factor in enumerate(block.factors)]
            total += weight**2 * float((reduce(np.multiply.outer, sides) * variances).sum())
        return total

    def has_rule_for(self, workload: Operator) -> bool:
        return blocks_over(workload, self._sides) is not None or super().has_rule_for(workload)


def column_squares(factor: Operator, inverse: Array) -> Array:
    """Return the sums of squares of the columns of ``W B``, by the Gram where rows are many."""
    if factor.shape[0] <= 2 * factor.shape[1]:
        return np.asarray((factor.matmat(inverse) ** 2).sum(axis=0))
    return np.asarray(np.einsum("ij,ij->j", factor.gram_dense() @ inverse, inverse))


@rows_product.register
def kronecker_rows_product(outer: Kronecker, other: Operator) -> Array | None:
    columns = tuple(factor.shape[1] for factor in outer.factors)
    if isinstance(other, Kronecker):
        if columns != tuple(factor.shape[1] for factor in other.factors):
            return None
        pairs = zip(outer.factors, other.factors, strict=True)
        return kronecker_product([cross_gram(one, two) for one, two in pairs])
    if not isinstance(other, RowKronecker) or columns != other.sizes:
        return None
    result = np.ones((1, other.shape[0]))
    for i, factor in enumerate(outer.factors):
        part = factor.matmat(other.masks(i).T)
        result = (result[:, None, :] * part[None, :, :]).reshape(
            len(result) * len(part), other.shape[0]
        )
    return result


@structure_energies.register
def kronecker_energies(workload: Kronecker) -> Energies | None:
    return product_energies([structure_energies(factor) for factor in workload.factors])
