"""Tables with a matrix along each attribute, whose answers are taken back along one axis at a time.

Attribute i has coordinates: with ``[z_i, Z_i]`` such that ``1ᵀz = 1`` and ``1ᵀZ = 0``, a row w of
an attribute has the total ``w z`` and the residual ``w Z``. Where ``AᵀA`` is diagonal in them, with
the number λ_U on the set U of attributes of which the residual is taken, a row ``⊗ w_i`` has the
error ``Σ_U 1/λ_U Π_U |w_i Z_i|² Π_{not U} (w_i z_i)²``, and no array is longer than a table.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from math import prod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    Real,
    as_columns,
    cell_codes,
    check_allocation,
)
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.recovery import (
    SQUARED,
    RowSpaceError,
    check_rows_contained,
    format_rows,
)
from strategies.operators.explicit import Dense
from strategies.operators.kronecker import Kronecker, blocks_over, column_squares
from strategies.operators.masks.anova import Residuals, answers_from, sum_over_cells
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.operators.masks.packed_masks import khatri_rao, unique_rows
from strategies.operators.tables.weighted_tables import WeightedTables, format_sets

PARALLEL = 1e-13  # squared length, beside 1, of what is left of a row of one value

Parts = dict[tuple[int, ...], Array]
"""The information of each set's answers on coordinates: one axis for each attribute of the set."""


@dataclass(frozen=True, eq=False)
class Side:
    """One attribute in coordinates, with its residual alone measured."""

    inverse: Array  # [z, Z] over the codes, (n, 1 + r)
    spanned: tuple[Array, Array] | None
    """L (n, k) and R (k, n): coordinates span ``(w L) R`` of a row; None where that is all rows."""
    scale: float  # ``B [z, Z]`` is ``[0, scale I]`` up to rows that depend on others
    first = 1
    """The first coordinate that is measured: 0 where the total is."""

    def check_spanned(self, rows: Operator) -> None:
        """Refuse rows of which coordinates leave something."""
        if self.spanned is not None:
            left, right = self.spanned
            rest = rows.to_dense() - rows.matmat(left) @ right
            check_rows_contained((rest**2).sum(axis=1), rows.row_squares())

    @property
    def rank(self) -> int:
        return int(self.inverse.shape[1])

    def project_answers(self, table: Array, axis: int) -> Array:
        """Return ``(B [z, Z])ᵀ`` times answers along an axis, the coordinates measured."""
        return self.scale * table


def apply_along(matrix: Array, tensor: Array, axis: int) -> Array:
    """Multiply one axis of an array by a matrix."""
    return np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)


def exact_entries(array: Real) -> Real:
    """Return absolute entries whose sums of squares are exact: as Python integers if need be."""
    sizes = np.abs(array)
    if sizes.dtype.kind == "f" or int(sizes.max(initial=0)) ** 2 * max(len(sizes), 1) < 2**63:
        return sizes
    return sizes.astype(object)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class FramedTables(WeightedTables):
    """``θ_S`` times ``⊗ (B_i for i in S, the row of ones elsewhere)``, for each attribute set S."""

    factors: tuple[Dense, ...]

    def __init__(
        self,
        factors: Sequence[ArrayLike | Dense],
        attribute_sets: Sequence[Sequence[int]],
        weights: Sequence[float],
    ) -> None:
        parts = tuple(one if isinstance(one, Dense) else Dense(one) for one in factors)  # type: ignore[arg-type]
        object.__setattr__(self, "factors", parts)
        super().__init__([part.shape[1] for part in parts], attribute_sets, weights)

    def with_weights(self, weights: Sequence[float]) -> Self:
        return type(self)(self.factors, self.attribute_sets, weights)

    def factor(self, i: int) -> Dense:
        return self.factors[i]

    @property
    def rows(self) -> tuple[int, ...]:
        count = [self.factor(i).shape[0] for i in range(len(self.domain_sizes))]
        return tuple(prod(count[i] for i in chosen) for chosen in self.attribute_sets)

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

    def factor_norm(self, i: int, norm: Norm) -> float:
        largest = self._code_norms[norm][i].max()
        return float(largest) if isinstance(largest, np.floating) else int(largest)

    @property
    def is_integral(self) -> bool:
        """Whether every factor has the type of integers."""
        return all(part.array.dtype.kind == "i" for part in self.factors)

    # Norms ----------------------------------------------------------------------------------

    @cached_property
    def _code_norms(self) -> dict[Norm, tuple[Real, ...]]:
        """L1 norms and squared L2 norms of every factor's columns, exact where it is integer."""
        sizes = [exact_entries(part.array) for part in self.factors]
        squares = [one * one for one in sizes]
        return {
            "l1": tuple(one.sum(axis=0) for one in sizes),
            "l2": tuple(one.sum(axis=0) for one in squares),
        }

    def column_norms(self, norm: Norm) -> Array:
        check_allocation("column norms", self.shape[1:])
        power, tables = 1 if norm == "l1" else 2, []
        for chosen, weight in zip(self.attribute_sets, self.weights, strict=True):
            sides = [self._code_norms[norm][i] for i in chosen]
            own = reduce(np.multiply.outer, sides, np.ones(())).astype(np.float64)
            tables.append((chosen, float(weight) ** power * own))
        sums = sum_over_cells(self.domain_sizes, tables, 1)[:, 0]
        return sums if norm == "l1" else np.sqrt(sums)

    def uniform_column_norm(self, norm: Norm) -> float | None:
        used = {i for chosen in self.attribute_sets for i in chosen}
        even = all(np.ptp(self._code_norms[norm][i]) == 0 for i in used)
        return self.sensitivity(norm) if even else None

    def rounded(self, scale: int) -> Operator:
        return super().rounded(scale) if self.is_integral else Operator.rounded(self, scale)

    def integer_sensitivity(self, norm: Norm) -> int:
        if not self.is_integral:
            raise ValueError("factors hold no integers: expected rounded ones.")
        return super().integer_sensitivity(norm)

    def largest_entry(self) -> int:
        """Return the largest absolute entry of integer weights and factors, exactly."""
        largest = [int(np.abs(part.array).max(initial=0)) for part in self.factors]
        pairs = zip(self.integer_weights(), self.attribute_sets, strict=True)
        return max(weight * prod(largest[i] for i in chosen) for weight, chosen in pairs)

    # Coordinates ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def sides(self) -> "tuple[Side, ...] | None":
        """The coordinates of every attribute; None where there are none."""

    @property
    def frame_inverses(self) -> tuple[Array, ...] | None:
        """``[z_i, Z_i]`` (n_i, 1 + r_i) of every attribute; None where there are no coordinates."""
        return None if self.sides is None else tuple(side.inverse for side in self.sides)

    def side(self, i: int) -> "Side":
        assert self.sides is not None
        return self.sides[i]

    @abstractmethod
    def components_below(self, used: Sequence[int]) -> tuple[Bools, Array]:
        """Return the sets U of some attributes that are measured, (u, d), and λ_U of each."""

    def inverse_values(self, chosen: Sequence[int]) -> Array:
        """Return 1/λ_U at every coordinate of a table, 0 where nothing is measured."""
        sets, values = self.components_below(chosen)
        inverse = np.zeros(2 ** len(chosen))
        inverse[sets[:, chosen] @ (2 ** np.arange(len(chosen))[::-1])] = 1.0 / values
        inverse = inverse.reshape([2] * len(chosen))
        for axis, i in enumerate(chosen):
            inverse = np.repeat(inverse, [1, self.side(i).rank - 1], axis=axis)
        return inverse

    def set_parts(self, answers: Array) -> Parts:
        """Return ``θ_S ⊗ (B_i [z_i, Z_i])ᵀ y_S`` for every table that is measured, and the total.

        Without the coordinate of the total along attributes where it is not measured.
        """
        columns = as_columns(answers)
        parts: Parts = {(): np.zeros(columns.shape[1])}
        tables = zip(self.attribute_sets, self.weights, self.split(columns), strict=True)
        for chosen, weight, part in tables:
            if not weight:
                continue
            table = weight * part.reshape(*(len(self.factors[i]) for i in chosen), columns.shape[1])
            for axis, i in enumerate(chosen):
                table = self.side(i).project_answers(table, axis)
            parts[chosen] = table
        return parts

    def _coefficients(self, chosen: Sequence[int], parts: Parts) -> Array:
        """Return the estimated coordinates of a table, axes of 1 + r_i for i in it, and k."""
        k = next(iter(parts.values())).shape[-1]
        ranks = [self.side(i).rank for i in chosen]
        check_allocation("answers below a table", (*ranks, max(k, 1)))
        table = np.zeros((*ranks, k))
        for own, part in parts.items():
            if any(self.side(i).first for i in own if i not in chosen):
                continue  # no total of it is measured
            seen = part[tuple(slice(None) if i in chosen else 0 for i in own)]
            place = (slice(self.side(i).first, None) if i in own else 0 for i in chosen)
            table[tuple(place)] += seen
        return np.asarray(table * self.inverse_values(chosen)[..., None])

    def spans_attribute(self, i: int) -> bool:
        """Tell whether an attribute's frame spans all rows over its codes."""
        return self.sides is not None and self.sides[i].spanned is None

    def _solve(self, answers: Array) -> Array:
        if not self.has_cheap_inverse:
            return super()._solve(answers)
        n, k = self.shape[1], answers.shape[1]
        check_allocation("the estimate of every cell", (n, max(k, 1)))
        every = list(range(len(self.factors)))
        return self.table(every, self.frame_inverses or (), self.set_parts(answers)).reshape(n, k)

    def table(self, chosen: Sequence[int], sides: Sequence[Array], parts: Parts) -> Array:
        """Return an estimated table with a matrix (·, 1 + r_i) along each axis."""
        table = self._coefficients(chosen, parts)
        for axis, side in enumerate(sides):
            table = apply_along(side, table, axis)
        return table

    # Errors ---------------------------------------------------------------------------------

    def row_errors(self, workload: Operator) -> Array | None:
        """Return ``||(W A⁺)_r||²`` for stacked Kronecker products and for rows of masks."""
        blocks = self._blocks(workload)
        if blocks is not None:
            return np.concatenate([self._block_errors(block, weight) for weight, block in blocks])
        rows = self._mask_rows(workload)
        if rows is None:
            return super().row_errors(workload)
        errors = self._mask_errors(rows)
        return errors if rows.mix is None else np.asarray(rows.mix.multiply(rows.mix) @ errors)

    def error_trace(self, workload: Operator) -> float | None:
        blocks = self._blocks(workload)
        if blocks is None:
            return super().error_trace(workload)
        known: dict[tuple[int, int], tuple[float, float]] = {}
        for _, block in blocks:
            for i, factor in enumerate(block.factors):
                if (i, id(factor)) not in known:
                    known[i, id(factor)] = self._factor_sums(i, factor)
        total = 0.0
        for weight, block in blocks:
            sums = [known[i, id(factor)] for i, factor in enumerate(block.factors)]
            used = {i for i, (_, residual) in enumerate(sums) if residual}
            sets, values = self.components_below(sorted(used))
            if len(sets) < 2 ** len(used):  # a row may be lost: each is asked for
                total += float(self._block_errors(block, weight).sum())
                continue
            alone, residual = np.array(sums).T
            total += weight**2 * float(
                (np.where(sets, residual, alone).prod(axis=1) / values).sum()
            )
        return total

    def has_rule_for(self, workload: Operator) -> bool:
        known = self._blocks(workload) is not None or self._mask_rows(workload) is not None
        return known and self.error_trace(workload) is not None

    def _estimate(self, workload: Operator, answers: Array) -> Array | None:
        if not self.has_rule_for(workload):
            return super()._estimate(workload, answers)
        parts, blocks = self.set_parts(answers), self._blocks(workload)
        if blocks is None:
            return answers_from(workload, self._residuals(parts), self.domain_sizes)
        tables = [self._block_answers(block, weight, parts) for weight, block in blocks]
        return np.concatenate(tables)

    def _blocks(self, workload: Operator) -> list[tuple[float, Kronecker]] | None:
        return blocks_over(workload, self.domain_sizes) if self.sides else None

    def _mask_rows(self, workload: Operator) -> MaskRows | None:
        """Return rows of masks over these attributes, each a multiple of one; else None."""
        rows = mask_rows(workload)
        if rows is None or rows.sizes != self.domain_sizes or self.sides is None:
            return None
        single = rows.mix is None or np.diff(rows.mix.indptr).max(initial=0) <= 1
        return rows if single else None

    def coordinates(self, i: int, factor: Operator) -> Array:
        """Return ``[w z, w Z]`` of the rows of a factor, refusing those outside the frame."""
        side = self.side(i)
        side.check_spanned(factor)
        return factor.matmat(side.inverse)

    def _squares(self, i: int, factor: Operator) -> tuple[Array, Array]:
        """Return ``(w z)²`` and ``|w Z|²`` of the rows of a factor."""
        coordinates = self.coordinates(i, factor)
        totals, rest = coordinates[:, 0] ** 2, coordinates[:, 1:]
        residuals = np.einsum("ij,ij->i", rest, rest)
        return totals, np.where(residuals > PARALLEL * totals, residuals, 0.0)

    def _factor_sums(self, i: int, factor: Operator) -> tuple[float, float]:
        """Return the sums of both over the rows, by the Gram where those are many."""
        side = self.side(i)
        if side.spanned is not None:
            totals, residuals = self._squares(i, factor)
            return float(totals.sum()), float(residuals.sum())
        sums = column_squares(factor, side.inverse)
        residual = float(sums[1:].sum())
        return float(sums[0]), residual if residual > PARALLEL * sums[0] else 0.0

    def _block_errors(self, block: Kronecker, weight: float) -> Array:
        check_allocation("errors of rows", (block.shape[0], 3))
        if not weight:
            return np.zeros(block.shape[0])
        pairs = [self._squares(i, factor) for i, factor in enumerate(block.factors)]
        return weight**2 * self._sum_components(pairs, np.multiply.outer, np.ones(())).ravel()

    def _mask_errors(self, rows: MaskRows) -> Array:
        pairs = []
        for i, mask in enumerate(rows.masks):
            first, number = unique_rows(mask)
            totals, residuals = self._squares(i, Dense(mask[first].astype(np.int64)))
            pairs.append((totals[number], residuals[number]))
        return self._sum_components(pairs, np.multiply, np.ones(len(rows.masks[0])))

    def _sum_components(
        self, pairs: list[tuple[Array, Array]], times: Callable[..., Array], one: Array
    ) -> Array:
        """Return ``Σ_U 1/λ_U Π_U residual Π_{not U} total``, refusing rows that lie outside."""
        used = {i for i, (_, residuals) in enumerate(pairs) if residuals.any()}
        whole = reduce(times, [a + residuals for a, residuals in pairs], one)
        inside, errors = np.zeros_like(whole), np.zeros_like(whole)
        for own, value in zip(*self.components_below(sorted(used)), strict=True):
            part = reduce(times, [pair[int(own[i])] for i, pair in enumerate(pairs)], one)
            inside += part
            errors += part / value
        lost = np.flatnonzero(whole - inside > SQUARED**2 * whole)
        if len(lost):
            raise RowSpaceError(
                f"{len(lost)} of the workload's rows ({format_rows(lost)}) lie outside the row "
                f"space of the {self.plural} on {format_sets(self.attribute_sets)}. Add every set "
                f"of attributes below those that such rows restrict."
            )
        return errors

    def _block_answers(self, block: Kronecker, weight: float, parts: Parts) -> Array:
        if not weight:
            return np.zeros((block.shape[0], next(iter(parts.values())).shape[-1]))
        coordinates = [self.coordinates(i, factor) for i, factor in enumerate(block.factors)]
        squares = [self._squares(i, factor)[1] for i, factor in enumerate(block.factors)]
        axes = [i for i, rest in enumerate(squares) if rest.any() or len(rest) > 1]
        table = self.table(axes, [coordinates[i] for i in axes], parts)
        single = weight * prod(coordinates[i][0, 0] for i in range(len(squares)) if i not in axes)
        answers: Array = single * table.reshape(block.shape[0], table.shape[-1])
        return answers

    def _residuals(self, parts: Parts) -> Residuals:
        """Return the orthogonal components of ``n A⁺ @ answers`` on all sets below those measured.

        A marginal of the estimate comes from the sets below it: ``1ᵀZ = 0``, ``1ᵀz = 1``.
        """
        below = {s for own in parts for k in range(len(own) + 1) for s in combinations(own, k)}
        centred = [len(one) * (one - one.mean(axis=0)) for one in self.frame_inverses or ()]
        result: Residuals = {}
        for chosen in sorted(below):
            table = self.table(list(chosen), [centred[i] for i in chosen], parts)
            key = tuple(i in chosen for i in range(len(centred)))
            result[key] = table.reshape(-1, table.shape[-1])
        return result
