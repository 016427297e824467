"""Weighted tables over attribute sets: one matrix along each attribute of a set, sums elsewhere.

Strategies that are diagonal on the components have ``AᵀA = Σ_U λ_U E_U`` over attribute sets U.
Pseudo-inverses and errors then need one number for each set, and nothing of length n is built.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import Self

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    Numbers,
    attribute_set,
    attribute_sizes,
    cell_codes,
    check_allocation,
    cut_rows,
    divide,
    exponent,
    set_weights,
)
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.recovery import SQUARED, RowSpaceError, format_rows
from strategies.operators.identity import Identity
from strategies.operators.kronecker import Kronecker
from strategies.operators.masks.components import (
    Components,
    MaskRows,
    components,
    components_of,
    mask_rows,
)
from strategies.operators.masks.energies import structure_energies
from strategies.operators.masks.packed_masks import khatri_rao
from strategies.operators.masks.residuals import Residuals, answers_from, sum_over_cells
from strategies.operators.wrappers import Scaled


class Tables(Operator):
    """Blocks of rows, each over the cells of some attributes and summed over all others."""

    @property
    def domain_sizes(self) -> tuple[int, ...]:
        """Sizes of the attributes (never None here)."""
        assert self.sizes is not None
        return self.sizes

    @abstractmethod
    def table_blocks(self) -> Iterable[tuple[tuple[int, ...], Operator]]:
        """Return every block's attributes, and its rows over the cells of their table."""

    def _matmat(self, right: Array) -> Array:
        tensor, k = right.reshape(*self.domain_sizes, right.shape[1]), right.shape[1]
        parts = []
        for chosen, block in self.table_blocks():
            rest = tuple(i for i in range(len(self.domain_sizes)) if i not in chosen)
            parts.append(block.matmat(tensor.sum(axis=rest).reshape(block.shape[1], k)))
        return np.concatenate(parts)

    def _rmatmat(self, left: Array) -> Array:
        parts = zip(self.table_blocks(), self.split(left), strict=True)
        tables = ((chosen, block.rmatmat(part)) for (chosen, block), part in parts)
        return sum_over_cells(self.domain_sizes, tables, left.shape[1])

    def split(self, answers: Array) -> list[Array]:
        """Cut an array with one entry a row into the blocks' parts."""
        return cut_rows(answers, (block.shape[0] for _, block in self.table_blocks()))


@dataclass(frozen=True, eq=False, repr=False, init=False)
class WeightedTables(Tables):
    """Tables of one kind: the same matrix along an attribute in every set, the sum elsewhere."""

    attribute_sets: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]
    singular, plural = "table", "tables"
    """Their names in messages."""

    def __init__(
        self,
        sizes: Sequence[int],
        attribute_sets: Sequence[Sequence[int]],
        weights: Sequence[float],
    ) -> None:
        object.__setattr__(self, "sizes", attribute_sizes(sizes))
        sets = tuple(attribute_set(chosen, len(sizes)) for chosen in attribute_sets)
        if len(set(sets)) != len(sets) or not sets:
            raise ValueError(
                f"attribute_sets={list(attribute_sets)!r}: expected at least one set, each once."
            )
        object.__setattr__(self, "attribute_sets", sets)
        object.__setattr__(self, "weights", set_weights(weights, len(sets)))

    def with_weights(self, weights: Sequence[float]) -> Self:
        """Return the same tables with other weights."""
        return type(self)(self.domain_sizes, self.attribute_sets, weights)

    def to_unit(self) -> tuple[Operator, int]:
        power = exponent(self.weights)
        weights = divide(self.weights, power)
        return (self.with_weights(weights.tolist()), power) if power else (self, 0)

    @cached_property
    def set_table(self) -> Bools:
        """The attribute sets as rows of a 0/1 table, shape (number of sets, d)."""
        table = np.zeros((len(self.attribute_sets), len(self.domain_sizes)), dtype=bool)
        for row, chosen in zip(table, self.attribute_sets, strict=True):
            row[list(chosen)] = True
        return table

    @abstractmethod
    def factor(self, i: int) -> Operator:
        """Return what is measured of attribute i in a set."""

    def table_blocks(self) -> Iterable[tuple[tuple[int, ...], Operator]]:
        return zip(self.attribute_sets, self._set_rows, strict=True)

    @cached_property
    def _set_rows(self) -> tuple[Operator, ...]:
        factors = [self.factor(i) for i in range(len(self.domain_sizes))]
        return tuple(
            Scaled(weight, Kronecker([factors[i] for i in chosen]) if chosen else Identity(1))
            for chosen, weight in zip(self.attribute_sets, self.weights, strict=True)
        )

    def factor_norm(self, i: int, norm: Norm) -> float:
        """Return its largest column norm, L1 or squared L2, exact where it is of integers."""
        return 1

    # Action ---------------------------------------------------------------------------------

    @property
    def rows(self) -> tuple[int, ...]:
        """Number of rows of each table, as exact integers."""
        count = [self.factor(i).shape[0] for i in range(len(self.domain_sizes))]
        return tuple(prod(count[i] for i in chosen) for chosen in self.attribute_sets)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.rows), prod(self.domain_sizes)

    def columns(self, cells: Integers) -> sparse.csr_array:
        codes = cell_codes(cells, self.domain_sizes)
        check_allocation(f"columns of {self.plural}", (len(codes), sum(self.rows), 2))
        used = {i for chosen in self.attribute_sets for i in chosen}
        parts = {i: sparse.csc_array(self.factor(i).columns(codes[:, i])) for i in used}
        ones = sparse.csc_array(np.ones((1, len(codes)), dtype=np.int64))
        blocks = [
            weight * khatri_rao([parts[i] for i in chosen] or [ones])
            for chosen, weight in zip(self.attribute_sets, self.weights, strict=True)
        ]
        return sparse.csr_array(sparse.vstack(blocks))

    def to_sparse(self) -> sparse.csr_array:
        check_allocation(f"sparse {self.plural}", (self.entries, 2))
        check_allocation("codes of every cell", (self.shape[1], len(self.domain_sizes)))
        return self.columns(np.arange(self.shape[1]))

    # Norms ----------------------------------------------------------------------------------

    def set_norms(self, norm: Norm) -> list[float]:
        """Return the largest column norm, L1 or squared L2, of each set at weight one."""
        single = [self.factor_norm(i, norm) for i in range(len(self.domain_sizes))]
        return [prod(single[i] for i in chosen) for chosen in self.attribute_sets]

    def sensitivity(self, norm: Norm) -> float:
        """Return the largest column norm: every attribute has a worst code, the same in each set.

        A set's norm is a product of numbers that are not negative, one for each attribute's code,
        so the sum of all is largest where every attribute takes the code of its own largest.
        """
        norms = np.asarray([float(one) for one in self.set_norms(norm)])
        weights = np.asarray(self.weights, dtype=np.float64)
        return float((weights * norms).sum() if norm == "l1" else np.sqrt(weights**2 @ norms))

    def row_squares(self) -> Array:
        n, squares = self.shape[1], []
        single = [self.factor(i).row_squares() for i in range(len(self.domain_sizes))]
        for chosen, weight in zip(self.attribute_sets, self.weights, strict=True):
            rest = float(n // prod(self.domain_sizes[i] for i in chosen))
            lengths = reduce(np.multiply.outer, [single[i] for i in chosen], np.ones(()))
            squares.append(float(weight) ** 2 * rest * lengths.ravel())
        return np.concatenate(squares)

    def rounded(self, scale: int) -> Operator:
        """Return the tables with integer weights ``round(scale * θ)``.

        A weight that rounds to zero keeps its rows, all zero, so that answers keep their places.
        """
        return self.with_weights([round(weight * scale) for weight in self.weights])

    def integer_sensitivity(self, norm: Norm) -> int:
        power = 1 if norm == "l1" else 2
        pairs = zip(self.integer_weights(), self.set_norms(norm), strict=True)
        return int(sum(weight**power * size for weight, size in pairs))

    def integer_weights(self) -> list[int]:
        """Return the weights as Python integers, or refuse."""
        if not all(isinstance(weight, int) for weight in self.weights):
            raise ValueError(
                f"weights={self.weights!r}: expected integers. Round the {self.plural} first."
            )
        return [int(weight) for weight in self.weights]


def apply_along(matrix: Array, tensor: Array, axis: int) -> Array:
    """Multiply one axis of an array by a matrix."""
    return np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)


def format_sets(sets: tuple[tuple[int, ...], ...], most: int = 8) -> str:
    """Write attribute sets for people, the first few of them."""
    return ", ".join(map(str, sets[:most])) + (", ..." if len(sets) > most else "")


class ProductTables(WeightedTables):
    """Weighted tables that do not mix components, with columns that all have the same norm."""

    @property
    def is_diagonal(self) -> bool:
        """Whether components are not mixed; where they are, no rule here holds."""
        return True

    @property
    def has_cheap_inverse(self) -> bool:
        """One pass over the domain and the tables."""
        return self.is_diagonal

    @abstractmethod
    def eigenvalues(self, sets: Bools) -> Array:
        """Return ``λ_U / n`` for attribute sets (u, d)."""

    @abstractmethod
    def residuals(self, answers: Numbers) -> Residuals:
        """Return the components of ``n A⁺ @ answers``, each as a table over its own attributes."""

    def uniform_column_norm(self, norm: Norm) -> float | None:
        return self.sensitivity(norm) if self.is_diagonal else super().uniform_column_norm(norm)

    def column_norms(self, norm: Norm) -> Array:
        if not self.is_diagonal:
            return super().column_norms(norm)
        check_allocation("column norms", self.shape[1:])
        return np.full(self.shape[1], self.sensitivity(norm))

    def _solve(self, answers: Array) -> Array:
        """Return ``A⁺ @ answers = Σ_U E_U Aᵀ answers / λ_U``, refused above the memory cap."""
        if not self.is_diagonal:
            return super()._solve(answers)
        n, k = self.shape[1], answers.shape[1]
        check_allocation("the estimate of every cell", (n, max(k, 1)))
        parts = self.residuals(answers).items()
        tables = ((np.flatnonzero(key).tolist(), part) for key, part in parts)
        return sum_over_cells(self.domain_sizes, tables, k) / n

    def _estimate(self, workload: Operator, answers: Array) -> Array | None:
        result = None
        if self._components_of(workload):
            result = answers_from(workload, self.residuals(answers), self.domain_sizes)
        return super()._estimate(workload, answers) if result is None else result

    def _components_of(self, workload: Operator) -> bool:
        """Tell whether rows are known by components, refusing them outside the row space.

        Row by row where rows of masks are known, else together.
        """
        if not self.is_diagonal or self._has_masks(workload):
            return self.is_diagonal
        known = structure_energies(workload)
        if known is None or known.sizes != self.domain_sizes:
            return False
        self._check_energies(known.sets, known.values)
        return True

    def has_rule_for(self, workload: Operator) -> bool:
        return (self.is_diagonal and self._has_masks(workload)) or super().has_rule_for(workload)

    def _has_masks(self, workload: Operator) -> bool:
        """Tell whether rows are masks, refusing those outside the row space by their attributes."""
        rows = mask_rows(workload)
        if rows is None or rows.sizes != self.domain_sizes:
            return False
        self._check_masks(rows)
        return True

    def _check_masks(self, rows: MaskRows) -> None:
        self._check_spanned(components(rows))

    def error_trace(self, workload: Operator) -> float | None:
        """Return ``||W A⁺||_F² = Σ_U tr(WᵀW E_U) / λ_U``, without the workload's rows."""
        known = structure_energies(workload) if self.is_diagonal else None
        if known is None or known.sizes != self.domain_sizes:
            return super().error_trace(workload)
        values = self._check_energies(known.sets, known.values)
        inside = values > 0
        return float(np.sum(known.values[inside] / values[inside]))

    def _check_energies(self, sets: Bools, energies: Array) -> Array:
        values = self.eigenvalues(sets)
        if float(energies[values <= 0].sum()) > SQUARED**2 * float(energies.sum()):
            raise RowSpaceError(
                f"the workload lies outside the row space of {self!r} on "
                f"{format_sets(self.attribute_sets)}. Add a table that contains every attribute "
                f"its rows restrict."
            )
        return values

    def row_errors(self, workload: Operator) -> Array | None:
        """Return ``||(W A⁺)_r||² = Σ_U ||w_r E_U||² / λ_U`` for rows of masks."""
        rows = mask_rows(workload) if self.is_diagonal else None
        if rows is None or rows.sizes != self.domain_sizes:
            return super().row_errors(workload)
        return self.errors_of(components_of(workload, rows))

    def errors_of(self, parts: Components) -> Array:
        values = self._check_spanned(parts)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
        return np.asarray(parts.energies @ inverse, dtype=np.float64)

    def _check_spanned(self, parts: Components) -> Array:
        """Return the eigenvalues on the components, refusing a row outside the row space."""
        values = self.eigenvalues(parts.sets)
        total = np.asarray(parts.energies.sum(axis=1)).ravel()
        outside = np.asarray(parts.energies @ (values <= 0).astype(np.float64)).ravel()
        lost = np.flatnonzero(outside > SQUARED**2 * total)
        if len(lost):
            raise RowSpaceError(
                f"{len(lost)} of the workload's {len(total)} rows ({format_rows(lost)}) lie "
                f"outside the row space of the {self.plural} on "
                f"{format_sets(self.attribute_sets)}. Add a {self.singular} that contains every "
                f"attribute those rows restrict."
            )
        return values
