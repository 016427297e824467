"""Structures made of others: times a number, with rows times numbers, transposed, stacked."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Integers,
    Longs,
    Real,
    check_allocation,
    cut_rows,
    divide,
    exponent,
    fits,
    real_array,
)
from strategies.operators.base.operator import (
    Norm,
    Operator,
    check_range,
    cross_gram,
    multiple,
    rows_product,
    transpose,
)
from strategies.operators.masks.anova import (
    Energies,
    Residuals,
    answers_from,
    structure_energies,
    summed_energies,
)
from strategies.operators.masks.components import MaskRows, mask_rows, stacked_rows


class Wrapper(Operator):
    """A structure made of another, whose zeros are where the other's are."""

    inner: Operator

    @property
    def prefers_sparse(self) -> bool:
        return self.inner.prefers_sparse

    @property
    def entries(self) -> int:
        return self.inner.entries


class Weighted(Wrapper):
    """``diag(weights) @ A``: rows of a structure times numbers."""

    @property
    @abstractmethod
    def row_weights(self) -> Real:
        """One weight a row, shape (m,), or one for all of them, shape (1,)."""

    @abstractmethod
    def _scale(self, form: sparse.csr_array) -> sparse.csr_array:
        """Return rows of the inner structure times their weights."""

    @abstractmethod
    def _weigh(self, weights: Array, inner: Operator) -> Operator:
        """Return the structure with other weights and another inner one."""

    def to_unit(self) -> tuple[Operator, int]:
        inner, power = self.inner.to_unit()
        own = exponent(self.row_weights)
        if not (own or power):
            return self, 0
        return self._weigh(divide(self.row_weights, own), inner), own + power

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def weights_and_rows(self) -> tuple[Real, Operator]:
        weights, rows = self.inner.weights_and_rows
        return self.row_weights * weights, rows

    def _matmat(self, right: Array) -> Array:
        return self.row_weights[:, None] * self.inner._matmat(right)

    def _rmatmat(self, left: Array) -> Array:
        return self.inner._rmatmat(self.row_weights[:, None] * left)

    def to_dense(self) -> Array:
        check_allocation(f"dense {type(self).__name__}", self.shape)
        return self.row_weights[:, None] * self.inner.to_dense()

    def to_sparse(self) -> sparse.csr_array:
        return self._scale(self.inner.to_sparse())

    def columns(self, cells: Integers) -> sparse.csr_array:
        return self._scale(self.inner.columns(cells))

    def row_words(self) -> list[str]:
        return self.inner.row_words()

    def row_gram(self) -> Array:
        return self.row_weights[:, None] * self.inner.row_gram() * self.row_weights

    def row_gram_matmat(self, right: Array) -> Array:
        weights = self.row_weights[:, None]
        return weights * self.inner.row_gram_matmat(weights * right)

    def row_squares(self) -> Array:
        return self.row_weights.astype(np.float64) ** 2 * self.inner.row_squares()


@rows_product.register
def weighted_rows_product(outer: Weighted, other: Operator) -> Array:
    return np.asarray(outer.row_weights[:, None] * cross_gram(outer.inner, other))


@mask_rows.register
def weighted_mask_rows(workload: Weighted) -> MaskRows | None:
    inner = mask_rows(workload.inner)
    weights = workload.row_weights
    return None if inner is None else inner.scale(np.broadcast_to(weights, workload.shape[:1]))


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Weighted):
    """``weight * A``.

    Parameters
    ----------
    weight : int or float
        Finite. An integer keeps the entries of an integer structure exact.
    inner : Operator
    """

    weight: float
    inner: Operator

    def __post_init__(self) -> None:
        weight = real_array("weight", self.weight, 0)
        object.__setattr__(self, "weight", weight.item())
        object.__setattr__(self, "sizes", self.inner.sizes)

    def take_rows(self, rows: Longs) -> Operator:
        return Scaled(self.weight, self.inner.take_rows(rows))

    def scaled_by(self, number: SupportsFloat) -> Operator:
        """Return the inner structure with the product of both numbers."""
        return Scaled(self.weight * real_array("number", number, 0).item(), self.inner)

    @property
    def row_weights(self) -> Real:
        return real_array("weight", [self.weight], 1)

    def _weigh(self, weights: Array, inner: Operator) -> Operator:
        return Scaled(weights.item(), inner)

    def _scale(self, form: sparse.csr_array) -> sparse.csr_array:
        return sparse.csr_array(self.weight * form)

    @property
    def has_cheap_inverse(self) -> bool:
        return self.inner.has_cheap_inverse

    def _rmatmat(self, left: Array) -> Array:
        return self.weight * self.inner._rmatmat(left)

    def gram_dense(self) -> Array:
        return self.weight**2 * self.inner.gram_dense()

    def column_norms(self, norm: Norm) -> Array:
        return abs(self.weight) * self.inner.column_norms(norm)

    def uniform_column_norm(self, norm: Norm) -> float | None:
        uniform = self.inner.uniform_column_norm(norm)
        return None if uniform is None else abs(self.weight) * uniform

    def sensitivity(self, norm: Norm) -> float:
        return abs(self.weight) * self.inner.sensitivity(norm)

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        return self.inner.sensitivity_is_exact(norm)

    def rounded(self, scale: int) -> Operator:
        if self.inner.is_binary:
            return Scaled(round(scale * self.weight), self.inner)
        return super().rounded(scale)

    def integer_column_sums(self, norm: Norm) -> Longs:
        sums, factor = self.inner.integer_column_sums(norm), self._integer_factor(norm)
        check_range(factor * float(sums.max(initial=0)))
        return factor * sums

    def integer_sensitivity(self, norm: Norm) -> int:
        return self._integer_factor(norm) * self.inner.integer_sensitivity(norm)

    def _integer_factor(self, norm: Norm) -> int:
        weight = int(self.weight)
        if weight != self.weight:
            raise ValueError(f"weight={self.weight}: expected an integer; call rounded first.")
        return abs(weight) if norm == "l1" else weight**2

    def _solve(self, answers: Array) -> Array:
        return self._inverse_weight * self.inner._solve(answers)

    def error_trace(self, workload: Operator) -> float | None:
        value = self.inner.error_trace(workload)
        return None if value is None else self._inverse_weight**2 * value

    def row_errors(self, workload: Operator) -> Array | None:
        values = self.inner.row_errors(workload)
        return None if values is None else self._inverse_weight**2 * values

    def _estimate(self, workload: Operator, answers: Array) -> Array | None:
        values = self.inner._estimate(workload, answers)
        return None if values is None else self._inverse_weight * values

    def has_rule_for(self, workload: Operator) -> bool:
        return self.weight != 0 and self.inner.has_rule_for(workload)

    @property
    def _inverse_weight(self) -> float:
        if self.weight == 0:
            raise ValueError("weight=0: a strategy of zeros measures nothing.")
        return 1.0 / self.weight


@multiple.register
def scale_matrix(matrix: Operator, number: SupportsFloat) -> Scaled:
    """Return a matrix with a weight."""
    return Scaled(number, matrix)  # type: ignore[arg-type]


@structure_energies.register
def scaled_energies(workload: Scaled) -> Energies | None:
    inner = structure_energies(workload.inner)
    return None if inner is None else inner.scale(float(workload.weight) ** 2)


@answers_from.register
def scaled_answers(workload: Scaled, residuals: Residuals, sizes: tuple[int, ...]) -> Array | None:
    inner = answers_from(workload.inner, residuals, sizes)
    return None if inner is None else workload.weight * inner


@dataclass(frozen=True, eq=False, repr=False)
class Transposed(Wrapper):
    """``A.T``; its columns are the rows of A, so it knows no product domain."""

    inner: Operator

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.inner.shape
        return n, m

    @property
    def is_binary(self) -> bool:
        return self.inner.is_binary

    @property
    def T(self) -> Operator:
        return self.inner

    def _matmat(self, right: Array) -> Array:
        return self.inner._rmatmat(right)

    def _rmatmat(self, left: Array) -> Array:
        return self.inner._matmat(left)

    def to_dense(self) -> Array:
        return self.inner.to_dense().T

    def to_sparse(self) -> sparse.csr_array:
        return sparse.csr_array(self.inner.to_sparse().T)

    def gram_dense(self) -> Array:
        return self.inner.row_gram()

    def row_gram(self) -> Array:
        return self.inner.gram_dense()


transpose.register(Operator, Transposed)


@dataclass(frozen=True, eq=False, repr=False)
class Stack(Operator):
    """The rows of several structures over the same columns.

    Parameters
    ----------
    blocks : sequence of Operator
    """

    blocks: tuple[Operator, ...]

    def __init__(self, blocks: Sequence[Operator]) -> None:
        if not blocks:
            raise ValueError("blocks is empty: expected at least one operator.")
        counts = {block.shape[1] for block in blocks}
        if len(counts) != 1:
            raise ValueError(
                f"operators have {sorted(counts)} columns: expected one common number."
            )
        object.__setattr__(self, "blocks", tuple(blocks))
        known = {block.sizes for block in blocks} - {None}
        object.__setattr__(self, "sizes", known.pop() if len(known) == 1 else None)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(block.shape[0] for block in self.blocks), self.blocks[0].shape[1]

    @property
    def prefers_sparse(self) -> bool:
        return all(block.prefers_sparse for block in self.blocks)

    @property
    def entries(self) -> int:
        if not self.prefers_sparse:
            return super().entries
        return sum(block.entries for block in self.blocks)

    @property
    def is_binary(self) -> bool:
        return all(block.is_binary for block in self.blocks)

    def to_unit(self) -> tuple[Operator, int]:
        parts, powers = zip(*(block.to_unit() for block in self.blocks), strict=True)
        most = max(powers)
        pairs = zip(parts, powers, strict=True)
        scaled = [Scaled(2.0 ** (one - most), part) for part, one in pairs]
        return (type(self)(scaled), most) if any(powers) else (self, 0)

    def split(self, rows: Array) -> list[Array]:
        """Cut an array with one entry a row into the blocks' parts."""
        return cut_rows(rows, (block.shape[0] for block in self.blocks))

    def _matmat(self, right: Array) -> Array:
        return np.concatenate([block._matmat(right) for block in self.blocks])

    def _rmatmat(self, left: Array) -> Array:
        parts = zip(self.blocks, self.split(left), strict=True)
        return np.asarray(sum(block._rmatmat(part) for block, part in parts))

    def to_dense(self) -> Array:
        check_allocation("dense Stack", self.shape)
        return np.concatenate([block.to_dense() for block in self.blocks])

    def to_sparse(self) -> sparse.csr_array:
        return sparse.csr_array(sparse.vstack([block.to_sparse() for block in self.blocks]))

    def columns(self, cells: Integers) -> sparse.csr_array:
        return sparse.csr_array(sparse.vstack([block.columns(cells) for block in self.blocks]))

    def gram_dense(self) -> Array:
        return np.asarray(sum(block.gram_dense() for block in self.blocks))

    def row_gram(self) -> Array:
        return super().row_gram() if fits(self.shape) else cross_gram(self, self)

    def row_squares(self) -> Array:
        return np.concatenate([block.row_squares() for block in self.blocks])

    def column_norms(self, norm: Norm) -> Array:
        norms = [block.column_norms(norm) for block in self.blocks]
        if norm == "l1":
            return np.asarray(sum(norms))
        return np.asarray(np.sqrt(sum(part**2 for part in norms)))

    def uniform_column_norm(self, norm: Norm) -> float | None:
        norms = [block.uniform_column_norm(norm) for block in self.blocks]
        known = [part for part in norms if part is not None]
        return combined_norm(known, norm) if len(known) == len(norms) else None

    def sensitivity(self, norm: Norm) -> float:
        """Return the largest column norm, or the blocks' combined bound where n is out of reach."""
        if self._enumerable(norm):
            return super().sensitivity(norm)
        return combined_norm([block.sensitivity(norm) for block in self.blocks], norm)

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        """Tell whether n is within reach, so that the blocks' bounds need no combining."""
        return self.uniform_column_norm(norm) is not None or self._enumerable(norm)

    def _enumerable(self, norm: Norm) -> bool:
        exact = all(block.sensitivity_is_exact(norm) for block in self.blocks)
        return exact and fits((self.shape[1], 2))

    def rounded(self, scale: int) -> Operator:
        return Stack([block.rounded(scale) for block in self.blocks])

    def integer_column_sums(self, norm: Norm) -> Longs:
        return np.asarray(sum(block.integer_column_sums(norm) for block in self.blocks))

    def integer_sensitivity(self, norm: Norm) -> int:
        if self.uniform_column_norm(norm) is None and self._enumerable(norm):
            return super().integer_sensitivity(norm)
        return sum(block.integer_sensitivity(norm) for block in self.blocks)


def combined_norm(norms: Sequence[float], norm: Norm) -> float:
    return float(np.sum(norms)) if norm == "l1" else float(np.linalg.norm(norms))


@rows_product.register
def stacked_rows_product(outer: Stack, other: Operator) -> Array:
    return np.concatenate([cross_gram(block, other) for block in outer.blocks])


@mask_rows.register
def stacked_mask_rows(workload: Stack) -> MaskRows | None:
    return stacked_rows([mask_rows(block) for block in workload.blocks])


@structure_energies.register
def stacked_energies(workload: Stack) -> Energies | None:
    return summed_energies([structure_energies(block) for block in workload.blocks])


@answers_from.register
def stacked_answers(workload: Stack, residuals: Residuals, sizes: tuple[int, ...]) -> Array | None:
    known = [answers_from(block, residuals, sizes) for block in workload.blocks]
    parts = [part for part in known if part is not None]
    return np.concatenate(parts) if len(parts) == len(known) else None
