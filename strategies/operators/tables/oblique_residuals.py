"""Oblique residuals: what each table adds to the smaller ones, along directions that are free.

Attribute i has a frame: the row of ones and the rows of a matrix ``B_i`` that do not span it. With
``[z_i, Z_i]`` the pseudo-inverse of the frame, ``1ᵀz = 1``, ``B z = 0``, ``1ᵀZ = 0``, a row of an
attribute splits into ``w = (w z) 1ᵀ + (w Z) B``: its total and its residual. Differences of codes
have ``z = 1/n``, residuals orthogonal to the total, and components of their own
(`strategies.operators.tables.code_differences`); elsewhere z is whatever serves best.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from strategies.operators.base.arrays import Array, Numbers, Real, as_columns
from strategies.operators.base.explicit_forms import exact_entries
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.pseudo_inverse import (
    RowSpaceError,
    check_rows_contained,
    numbered,
)
from strategies.operators.base.qr import has_full_rank, least_squares, triangular
from strategies.operators.explicit import Dense
from strategies.operators.kronecker import Kronecker, kronecker_blocks
from strategies.operators.masks.attribute_sets import unique_rows
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.operators.masks.residuals import Residuals, answers_from
from strategies.operators.tables.code_differences import CodeDifferences, differences
from strategies.operators.tables.weighted_tables import along, few

TOLERANCE = 1e-10  # share of a row's squared coordinates that may lie outside the row space
FREE = 1e-16  # squared length, beside 1, of what tells that the ones lie in a factor's row space
PARALLEL = 1e-13  # the same for what is left of a row of one value


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ObliqueResiduals(CodeDifferences):
    """``θ_S`` times ``⊗ (B_i for i in S, the row of ones elsewhere)``, for each attribute set S.

    Parameters
    ----------
    factors : sequence of array-like or Dense, each of shape (m_i, n_i)
        ``B_i`` of every attribute; integers stay exact.
    attribute_sets : sequence of sequences of int
        The sets S, distinct; ``()`` is the total.
    weights : sequence of float or int
        One weight for each set, finite and not negative.

    Notes
    -----
    Rows of different sets are independent where no row space of a ``B_i`` holds the ones. A row
    ``⊗ w_i`` then has the error ``Σ_S 1/θ_S² Π_S |w_i Z_i|² Π_{not S} (w_i z_i)²``, answers are
    taken back along one axis after the other, and ``Σ_S θ_S² Π_S max_c |B_i e_c|²`` is the exact
    squared sensitivity: all sets have the same worst codes.

    Examples
    --------
    >>> A = ObliqueResiduals([[[1, 0]], [[1, -1]]], [(), (0,)], [1, 2])
    >>> A.to_dense()
    array([[1., 1., 1., 1.],
           [2., 2., 0., 0.]])
    >>> A.integer_sensitivity("l2")
    5
    """

    factors: tuple[Dense, ...]
    singular, plural = "oblique residual", "oblique residuals"

    def __init__(
        self,
        factors: Sequence[ArrayLike | Dense],
        attribute_sets: Sequence[Sequence[int]],
        weights: Sequence[float],
    ) -> None:
        parts = tuple(one if isinstance(one, Dense) else Dense(one) for one in factors)  # type: ignore[arg-type]
        object.__setattr__(self, "factors", parts)
        super().__init__([part.shape[1] for part in parts], attribute_sets, weights)

    @classmethod
    def of_codes(
        cls,
        sizes: Sequence[int],
        attribute_sets: Sequence[Sequence[int]],
        weights: Sequence[float],
    ) -> "ObliqueResiduals":
        """Return what each marginal adds to smaller ones (Xiao, He, Zhang and Kifer, 2023).

        >>> ObliqueResiduals.of_codes((2, 2), [(), (0,)], [1, 1]).to_dense()
        array([[ 1.,  1.,  1.,  1.],
               [ 1.,  1., -1., -1.]])
        """
        if any(sizes[i] == 1 for chosen in attribute_sets for i in chosen):
            raise ValueError("attribute_sets: an attribute of one code is in a set, leave it out.")
        for size in set(sizes):
            check_allocation("differences of an attribute's codes", (size, size), 16)
        known = {size: Dense(differences(size)) for size in set(sizes)}
        return cls([known[size] for size in sizes], attribute_sets, weights)

    def with_weights(self, weights: Sequence[float]) -> "ObliqueResiduals":
        """Return the same tables with other weights."""
        return ObliqueResiduals(self.factors, self.attribute_sets, weights)

    def factor(self, i: int) -> Real:
        """Return ``B_i``."""
        return self.factors[i].array

    def factor_rows(self, i: int) -> int:
        """Return the number of its rows."""
        return self.factors[i].shape[0]

    def factor_norm(self, i: int, norm: Norm) -> float:
        """Return its largest column norm, L1 or squared L2, exact where it is of integers."""
        largest = self._code_norms[norm][i].max()
        return float(largest) if isinstance(largest, np.floating) else int(largest)

    def factor_squares(self, i: int) -> Array:
        """Return the squared L2 norms of its rows."""
        return self.factors[i].row_squares()

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
        """Return the norm of every column, shape (n,), refused above the memory cap."""
        check_allocation("column norms", self.shape[1:])
        result = np.zeros(self.domain_sizes)
        power = 1 if norm == "l1" else 2
        for chosen, weight in zip(self.attribute_sets, self.weights, strict=True):
            table = reduce(
                np.multiply.outer, [self._code_norms[norm][i] for i in chosen], np.ones(())
            )
            kept = [size if i in chosen else 1 for i, size in enumerate(self.domain_sizes)]
            result += float(weight) ** power * table.astype(np.float64).reshape(kept)
        return result.ravel() if norm == "l1" else np.sqrt(result.ravel())

    def uniform_column_norm(self, norm: Norm) -> float | None:
        """Return the norm of every column where all columns of every factor are alike."""
        used = {i for chosen in self.attribute_sets for i in chosen}
        even = all(np.ptp(self._code_norms[norm][i]) == 0 for i in used)
        return self.sensitivity(norm) if even else None

    def rounded(self, scale: int) -> Operator:
        """Return integer weights over factors of integers, else every entry rounded."""
        return super().rounded(scale) if self.is_integral else Operator.rounded(self, scale)

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return the exact sensitivity of integer weights and factors, as a Python integer."""
        if not self.is_integral:
            raise ValueError("factors hold no integers: expected rounded ones.")
        return super().integer_sensitivity(norm)

    def largest_entry(self) -> int:
        """Return the largest absolute entry of integer weights and factors, exactly."""
        largest = [int(np.abs(part.array).max(initial=0)) for part in self.factors]
        pairs = zip(self.integer_weights(), self.attribute_sets, strict=True)
        return max(weight * prod(largest[i] for i in chosen) for weight, chosen in pairs)

    # Inverse --------------------------------------------------------------------------------

    @cached_property
    def frame_inverses(self) -> tuple[Array, ...] | None:
        """``[z_i, Z_i]`` (n_i, 1 + m_i) of every attribute, for B_i of largest column norm 1.

        None where the ones lie in the row space of a factor: then rows of sets depend on others.
        """
        inverses = []
        for i in range(len(self.factors)):
            frame = self._frame(i)
            inverse = least_squares(frame, np.eye(len(frame)))
            ones = frame @ inverse[:, 0]
            ones[0] -= 1.0
            if ones @ ones > FREE:
                return None
            inverses.append(inverse)
        return tuple(inverses)

    def _frame(self, i: int) -> Array:
        """Return the ones and ``B_i``, of which nothing is measured where i is in no set."""
        ones = np.ones((1, self.domain_sizes[i]))
        if not any(i in chosen for chosen in self.attribute_sets):
            return np.vstack([ones, np.zeros_like(ones).repeat(self.factor_rows(i), axis=0)])
        return np.vstack([ones, self.factors[i].array / self._scale(i)])

    def _scale(self, i: int) -> float:
        return float(np.sqrt(float(self.factor_norm(i, "l2")))) or 1.0

    @cached_property
    def set_scales(self) -> Array:
        """``θ_S Π_S max_c |B_i e_c|`` of every set: its largest column norm, one a set."""
        scales = [prod(self._scale(i) for i in chosen) for chosen in self.attribute_sets]
        scaled: Array = np.asarray(self.weights, dtype=np.float64) * np.asarray(scales)
        return scaled

    @cached_property
    def _lost_directions(self) -> tuple[Array | None, ...]:
        """What every frame leaves of a row, as a projection; None where it spans all rows."""
        frames = [self._frame(i) for i in range(len(self.factors))]
        return tuple(
            None
            if len(frame) >= frame.shape[1] and has_full_rank(triangular(frame))
            else np.eye(frame.shape[1]) - inverse @ frame
            for frame, inverse in zip(frames, self.frame_inverses or (), strict=True)
        )

    @cached_property
    def has_cheap_inverse(self) -> bool:
        """Whether the frames' inverses along the axes are the pseudo-inverse itself."""
        if self.is_diagonal or self.frame_inverses is None:
            return self.is_diagonal
        spans = all(one is None for one in self._lost_directions)
        if spans and np.count_nonzero(self.weights) == 2 ** len(self.domain_sizes):
            return True  # full column rank
        firsts = (one[:, 0] for one in self.frame_inverses)
        return all(np.allclose(z, 1.0 / len(z), rtol=1e-12, atol=0.0) for z in firsts)

    def spans_attribute(self, i: int) -> bool:
        """Tell whether an attribute's frame spans all rows over its codes."""
        return self.frame_inverses is not None and self._lost_directions[i] is None

    def least_squares(self, answers: Numbers) -> Array:
        """Return ``A⁺ @ answers``, axis by axis where that is the inverse of least norm."""
        if self.is_diagonal:
            return super().least_squares(answers)
        if not self.has_cheap_inverse:
            return Operator.least_squares(self, answers)
        checked = self.checked_answers(answers)
        n, k = self.shape[1], as_columns(checked).shape[1]
        check_allocation("the estimate of every cell", (n, max(k, 1)))
        every = list(range(len(self.factors)))
        cells = self._table(every, self.frame_inverses or (), self._parts(checked)).reshape(n, k)
        return cells[:, 0] if checked.ndim == 1 else cells

    def _parts(self, answers: Array) -> dict[tuple[int, ...], Array]:
        """Return the answers of every set that is measured, over its column norm."""
        columns = as_columns(answers)
        parts = zip(self.attribute_sets, self.set_scales, self.split(columns), strict=True)
        return {
            chosen: (part / scale).reshape(*map(self.factor_rows, chosen), columns.shape[1])
            for chosen, scale, part in parts
            if scale
        }

    def _table(
        self, chosen: list[int], sides: Sequence[Array], parts: dict[tuple[int, ...], Array]
    ) -> Array:
        """Return what the sets below one say, with a matrix (·, 1 + m_i) along each axis."""
        k = next(iter(parts.values())).shape[-1]
        shape = [1 + self.factor_rows(i) for i in chosen]
        check_allocation("answers below a table", (*shape, max(k, 1)))
        table = np.zeros((*shape, k))
        for below, part in parts.items():
            if set(below) <= set(chosen):
                table[tuple(slice(1, None) if i in below else 0 for i in chosen)] = part
        for axis, side in enumerate(sides):
            table = along(side, table, axis)
        return table

    # Errors ---------------------------------------------------------------------------------

    def row_errors(self, workload: Operator) -> Array | None:
        """Return ``||(W A⁺)_r||²`` for stacked Kronecker products and for rows of masks."""
        known = super().row_errors(workload) if self.is_diagonal else None
        if known is not None:
            return known
        blocks = self._blocks(workload)
        if blocks is not None:
            return np.concatenate([self._block_errors(block, weight) for weight, block in blocks])
        rows = self._mask_rows(workload)
        if rows is None:
            return Operator.row_errors(self, workload)
        errors = self._mask_errors(rows)
        return errors if rows.mix is None else np.asarray(rows.mix.multiply(rows.mix) @ errors)

    def error_trace(self, workload: Operator) -> float | None:
        """Return ``||W A⁺||_F²``, for stacked Kronecker products without their rows."""
        blocks = None if self.is_diagonal else self._blocks(workload)
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
            inside = [number for number, own in enumerate(self.attribute_sets) if used >= set(own)]
            inside = [number for number in inside if self.weights[number]]
            if len(inside) < 2 ** len(used):  # a row may be lost: each is asked for
                total += float(self._block_errors(block, weight).sum())
                continue
            for number in inside:
                own, scale = self.attribute_sets[number], self.set_scales[number]
                both = [residual if i in own else a for i, (a, residual) in enumerate(sums)]
                total += prod(both) * (weight / scale) ** 2
        return total

    def has_rule_for(self, workload: Operator) -> bool:
        """Tell whether rows split along attributes, refusing those outside the row space."""
        if self.is_diagonal and super().has_rule_for(workload):
            return True
        known = self._blocks(workload) is not None or self._mask_rows(workload) is not None
        return known and self.error_trace(workload) is not None

    def estimate(self, workload: Operator, answers: Array) -> Array | None:
        """Return ``W A⁺ @ answers`` in numbers of the tables' cells, None without a rule."""
        checked = self.checked_answers(answers)
        if self.is_diagonal:
            known = super().estimate(workload, checked)
            if known is not None:
                return known
        if not self.has_rule_for(workload):
            return Operator.estimate(self, workload, checked)
        parts, blocks = self._parts(checked), self._blocks(workload)
        if blocks is None:
            result = answers_from(workload, self._residuals(parts), self.domain_sizes)
        else:
            tables = [self._block_answers(block, weight, parts) for weight, block in blocks]
            result = np.concatenate(tables)
        return result[:, 0] if result is not None and checked.ndim == 1 else result

    def _blocks(self, workload: Operator) -> list[tuple[float, Kronecker]] | None:
        """Return the workload's products over these attributes, None where it is no such stack."""
        blocks = kronecker_blocks(workload)
        if not blocks or sum(block.shape[0] for _, block in blocks) != workload.shape[0]:
            return None
        widths = {tuple(factor.shape[1] for factor in block.factors) for _, block in blocks}
        return blocks if widths == {self.domain_sizes} and self.frame_inverses else None

    def _mask_rows(self, workload: Operator) -> MaskRows | None:
        """Return rows of masks over these attributes, each a multiple of one; else None."""
        rows = mask_rows(workload)
        if rows is None or rows.sizes != self.domain_sizes or self.frame_inverses is None:
            return None
        single = rows.mix is None or np.diff(rows.mix.indptr).max(initial=0) <= 1
        return rows if single else None

    def _coordinates(self, i: int, factor: Operator) -> Array:
        """Return ``[w z, w Z]`` of the rows of a factor, refusing those outside the frame."""
        lost = self._lost_directions[i]
        if lost is not None:
            outside = (factor.matmat(lost) ** 2).sum(axis=1)
            check_rows_contained(outside, factor.row_squares())
        return factor.matmat((self.frame_inverses or ())[i])

    def _squares(self, i: int, factor: Operator) -> tuple[Array, Array]:
        """Return ``(w z)²`` and ``|w Z|²`` of the rows of a factor."""
        coordinates = self._coordinates(i, factor)
        totals, rest = coordinates[:, 0] ** 2, coordinates[:, 1:]
        residuals = np.einsum("ij,ij->i", rest, rest)
        return totals, np.where(residuals > PARALLEL * totals, residuals, 0.0)

    def _factor_sums(self, i: int, factor: Operator) -> tuple[float, float]:
        """Return the sums of both over the rows, by the Gram where those are many."""
        m, n = factor.shape
        if m <= 2 * n or self._lost_directions[i] is not None:
            totals, residuals = self._squares(i, factor)
            return float(totals.sum()), float(residuals.sum())
        inverse = (self.frame_inverses or ())[i]
        sums = np.einsum("ij,ij->j", factor.gram_dense() @ inverse, inverse)
        residual = float(sums[1:].sum())
        return float(sums[0]), residual if residual > PARALLEL * sums[0] else 0.0

    def _block_errors(self, block: Kronecker, weight: float) -> Array:
        """Return the errors of a product's rows: sums over sets of products over attributes."""
        check_allocation("errors of rows", (block.shape[0], 3))
        if not weight:
            return np.zeros(block.shape[0])
        pairs = [self._squares(i, factor) for i, factor in enumerate(block.factors)]
        return weight**2 * self._summed(pairs, np.multiply.outer, np.ones(())).ravel()

    def _mask_errors(self, rows: MaskRows) -> Array:
        """Return the errors of rows of masks."""
        pairs = []
        for i, mask in enumerate(rows.masks):
            first, number = unique_rows(mask)
            totals, residuals = self._squares(i, Dense(mask[first].astype(np.int64)))
            pairs.append((totals[number], residuals[number]))
        return self._summed(pairs, np.multiply, np.ones(len(rows.masks[0])))

    def _summed(
        self, pairs: list[tuple[Array, Array]], times: Callable[..., Array], one: Array
    ) -> Array:
        """Return ``Σ_S 1/θ_S² Π_S residual Π_{not S} total``, refusing rows that lie outside."""
        used = {i for i, (_, residuals) in enumerate(pairs) if residuals.any()}
        whole = reduce(times, [a + residuals for a, residuals in pairs], one)
        inside, errors = np.zeros_like(whole), np.zeros_like(whole)
        for own, scale in zip(self.attribute_sets, self.set_scales, strict=True):
            if scale and used >= set(own):
                part = reduce(times, [pair[i in own] for i, pair in enumerate(pairs)], one)
                inside += part
                errors += part / scale**2
        lost = np.flatnonzero(whole - inside > TOLERANCE * whole)
        if len(lost):
            raise RowSpaceError(
                f"{len(lost)} of the workload's rows ({numbered(lost)}) lie outside the row space "
                f"of the {self.plural} on {few(self.attribute_sets)}. Add every set of attributes "
                f"below those that such rows restrict."
            )
        return errors

    def _block_answers(
        self, block: Kronecker, weight: float, parts: dict[tuple[int, ...], Array]
    ) -> Array:
        """Return the answers of a product's rows, (rows, k)."""
        if not weight:
            return np.zeros((block.shape[0], next(iter(parts.values())).shape[-1]))
        coordinates = [self._coordinates(i, factor) for i, factor in enumerate(block.factors)]
        squares = [self._squares(i, factor)[1] for i, factor in enumerate(block.factors)]
        axes = [i for i, rest in enumerate(squares) if rest.any() or len(rest) > 1]
        table = self._table(axes, [coordinates[i] for i in axes], parts)
        single = weight * prod(coordinates[i][0, 0] for i in range(len(squares)) if i not in axes)
        answers: Array = single * table.reshape(block.shape[0], table.shape[-1])
        return answers

    def _residuals(self, parts: dict[tuple[int, ...], Array]) -> Residuals:
        """Return the orthogonal components of ``n A⁺ @ answers`` on all sets below those measured.

        A marginal of the estimate comes from the sets below it: ``1ᵀZ = 0``, ``1ᵀz = 1``.
        """
        below = {s for own in parts for k in range(len(own) + 1) for s in combinations(own, k)}
        centred = [len(one) * (one - one.mean(axis=0)) for one in self.frame_inverses or ()]
        result: Residuals = {}
        for chosen in sorted(below):
            table = self._table(list(chosen), [centred[i] for i in chosen], parts)
            key = tuple(i in chosen for i in range(len(centred)))
            result[key] = table.reshape(-1, table.shape[-1])
        return result
