"""Structures on top of each other, answered together, or each for a part of a workload."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Integers, Longs, check_allocation, cut, fits
from strategies.operators.base.operator import Norm, Operator, cross_gram, rows_product
from strategies.operators.masks.components import MaskRows, mask_rows, stacked_rows
from strategies.operators.masks.energies import Energies, structure_energies, summed_energies
from strategies.operators.masks.residuals import Residuals, answers_from


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
        same_columns(blocks)
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

    def split(self, rows: Array) -> list[Array]:
        """Cut an array with one entry a row into the blocks' parts."""
        return cut(rows, (block.shape[0] for block in self.blocks))

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


def same_columns(operators: Sequence[Operator]) -> int:
    counts = {operator.shape[1] for operator in operators}
    if len(counts) != 1:
        raise ValueError(f"operators have {sorted(counts)} columns: expected one common number.")
    return counts.pop()


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
