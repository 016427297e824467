"""Weighted tables that mix no components, marginals above all, without anything of n's length.

Strategies that are diagonal on the components have ``AᵀA = Σ_U λ_U E_U`` over attribute sets U.
Pseudo-inverses and errors then need one number for each set.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Numbers,
    as_columns,
    check_allocation,
    fits,
)
from strategies.operators.base.operator import Norm, Operator, cross_gram, rows_product
from strategies.operators.base.recovery import SQUARED, RowSpaceError, format_rows
from strategies.operators.identity import Grouping, Identity
from strategies.operators.kronecker import Kronecker, kronecker_blocks
from strategies.operators.masks.anova import (
    Energies,
    Residuals,
    answers_from,
    residual_answers,
    structure_energies,
    sum_over_cells,
    table_energies,
    table_of,
)
from strategies.operators.masks.components import (
    Components,
    MaskRows,
    components,
    components_of,
    mask_rows,
)
from strategies.operators.masks.packed_masks import containment, unique_rows
from strategies.operators.product import RowScaled
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.tables.weighted_tables import WeightedTables, format_sets

MOST_PARTS = 2**20  # components of all rows together up to which marginals are asked row by row
MOST_BITS = 2**27  # bits of all rows' masks up to which they are


MOST_BLOCKS = 64  # tables up to which marginals are taken for Kronecker products


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


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Marginals(ProductTables):
    """``θ_S`` times the marginal table on attribute set S, for each S, on top of each other.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the attributes.
    attribute_sets : sequence of sequences of int
        The attributes of each marginal, distinct; ``()`` is the total.
    weights : sequence of float or int
        One weight for each set, finite and not negative.

    Notes
    -----
    Every cell lies in one row of each marginal, so every column has L1 norm ``Σ θ_S`` and L2 norm
    ``sqrt(Σ θ_S²)``. ``AᵀA = Σ θ_S² ⊗(I on S, J elsewhere)`` has on the component of the
    attribute set U the eigenvalue ``λ_U = Σ_{S ⊇ U} θ_S² Π_{i ∉ S} n_i`` (McKenna, Maity,
    Mazumdar and Miklau, 2020; Xiao, He, Zhang and Kifer, 2023), which gives pseudo-inverses and
    errors in numbers of marginal cells.

    Examples
    --------
    >>> A = Marginals((2, 3), [(0,), (0, 1)], [0.5, 0.5])
    >>> A.shape, A.sensitivity("l1")
    ((8, 6), 1.0)
    """

    singular, plural = "marginal", "marginals"
    prefers_sparse = True  # a column has one entry for each marginal

    def factor(self, i: int) -> Identity:
        return Identity(self.domain_sizes[i])

    @property
    def entries(self) -> int:
        return len(self.weights) * self.shape[1]

    def row_gram(self) -> Array:
        return super().row_gram() if fits(self.shape) else self.as_rows.row_gram()

    @cached_property
    def as_rows(self) -> Operator:
        """The same matrix as weighted rows of masks, for what has a rule for those.

        Row (S, cell) admits one code of each attribute of S and all codes of the others. It takes
        ``m * sum(n_i)`` bytes while it is built, a bit each afterwards.
        """
        sizes, m = self.domain_sizes, self.shape[0]
        check_allocation("masks of the marginals' rows", (m, sum(sizes)), 2)
        masks = [np.ones((m, size), dtype=bool) for size in sizes]
        first = 0
        for chosen, count in zip(self.attribute_sets, self.rows, strict=True):
            shape = tuple(sizes[i] for i in chosen)
            codes = np.unravel_index(np.arange(count), shape) if chosen else ()
            for i, code in zip(chosen, codes, strict=True):
                masks[i][first : first + count] = code[:, None] == np.arange(sizes[i])
            first += count
        weights = np.repeat(np.asarray(self.weights, np.float64), self.rows)
        return RowScaled(weights, RowKronecker.from_masks(masks))

    def eigenvalues(self, sets: Bools) -> Array:
        """Return ``λ_U / n = Σ_{S ⊇ U} θ_S² / Π_{i ∈ S} n_i`` for attribute sets (u, d)."""
        shares = [float(w) ** 2 / c for w, c in zip(self.weights, self.rows, strict=True)]
        return np.asarray(containment(sets, self.set_table) @ np.asarray(shares), dtype=np.float64)

    def residuals(self, answers: Numbers) -> Residuals:
        checked = self.checked_answers(answers)
        tables = self.split(as_columns(checked))
        raw = residual_answers(self.domain_sizes, self.attribute_sets, self.weights, tables)
        sets = np.array(list(raw), dtype=bool).reshape(len(raw), len(self.domain_sizes))
        values = self.eigenvalues(sets)
        return {key: raw[key] / value for key, value in zip(raw, values, strict=True) if value > 0}

    def coefficients(self, workload: Operator) -> Array:
        """Return ``W A⁺ = W (AᵀA)⁺ Aᵀ`` of rows W in the row space, shape (q, m).

        On each component ``AᵀA`` is the number λ_U: time and memory are those of ``A Wᵀ``.

        Raises MemoryCapError if ``A Wᵀ`` has no rule or does not fit.
        """
        parts = self.residuals(cross_gram(self, workload))
        sets = np.array(list(parts), dtype=bool).reshape(len(parts), len(self.domain_sizes))
        inverse = 1.0 / (self.eigenvalues(sets) * float(self.shape[1]))
        solved = {key: part * one for (key, part), one in zip(parts.items(), inverse, strict=True)}
        return np.ascontiguousarray(answers_of_tables(self, solved).T)

    def _check_masks(self, rows: MaskRows) -> None:
        """Refuse rows outside the row space: no marginal measured holds all they restrict.

        A row depends on the attributes that it restricts only, so a marginal on a superset
        determines it: attribute sets decide, and nothing has the length of the domain. Where no
        set does, the row's energy tells whether anything is lost.
        """
        fixed = rows.is_fixed
        if not (self.eigenvalues(fixed[unique_rows(fixed)[0]]) > 0).all():
            super()._check_masks(rows)


@rows_product.register
def marginals_rows_product(outer: Marginals, other: Operator) -> Array | None:
    (m, n), sizes = outer.shape, outer.domain_sizes
    cheaper = m * sum(sizes) <= n * len(outer.weights)
    return cross_gram(outer.as_rows, other) if cheaper else None


@mask_rows.register
def marginals_mask_rows(workload: Marginals) -> MaskRows | None:
    pairs = zip(workload.attribute_sets, workload.rows, strict=True)
    parts = sum(count << len(chosen) for chosen, count in pairs)
    few_bits = sum(workload.rows) * sum(workload.domain_sizes) <= MOST_BITS
    return mask_rows(workload.as_rows) if parts <= MOST_PARTS and few_bits else None


@structure_energies.register
def marginals_energies(workload: Marginals) -> Energies | None:
    squares = np.asarray(workload.weights, dtype=np.float64) ** 2
    return table_energies(workload.domain_sizes, workload.set_table, squares)


@kronecker_blocks.register
def marginals_blocks(workload: Marginals) -> list[tuple[float, Kronecker]] | None:
    if len(workload.weights) > MOST_BLOCKS:
        return None
    kept = [Identity(size) for size in workload.domain_sizes]
    summed = [Grouping(np.zeros(size, dtype=np.int64)) for size in workload.domain_sizes]
    pairs = zip(workload.attribute_sets, workload.weights, strict=True)
    return [
        (float(weight), Kronecker([kept[i] if i in s else summed[i] for i in range(len(kept))]))
        for s, weight in pairs
    ]


@answers_from.register
def marginals_answers(
    workload: Marginals, residuals: Residuals, sizes: tuple[int, ...]
) -> Array | None:
    return answers_of_tables(workload, residuals) if workload.domain_sizes == sizes else None


def answers_of_tables(matrix: Marginals, residuals: Residuals) -> Array:
    """Return ``A x`` for ``n x`` given by its components: each table sums those below its set."""
    tables = zip(matrix.attribute_sets, matrix.weights, matrix.rows, strict=True)
    return np.concatenate(
        [float(w) / n * table_of(s, residuals, matrix.domain_sizes) for s, w, n in tables]
    )
