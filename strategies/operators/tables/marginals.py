"""Weighted marginals of a product domain, whole or row by row, without anything of its length."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    Numbers,
    as_columns,
    cell_codes,
    check_allocation,
    fits,
)
from strategies.operators.base.operator import Operator, cross_gram, rows_product
from strategies.operators.identity import Grouping, Identity
from strategies.operators.kronecker import Kronecker, kronecker_blocks
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.operators.masks.energies import Energies, structure_energies, table_energies
from strategies.operators.masks.packed_masks import containment, unique_rows
from strategies.operators.masks.residuals import Residuals, answers_from, residual_answers, table_of
from strategies.operators.product import RowScaled
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.tables.weighted_tables import ProductTables

MOST_PARTS = 2**20  # components of all rows together up to which marginals are asked row by row
MOST_BITS = 2**27  # bits of all rows' masks up to which they are


MOST_BLOCKS = 64  # tables up to which marginals are taken for Kronecker products


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
    def rows(self) -> tuple[int, ...]:
        sizes = self.domain_sizes
        return tuple(prod(sizes[i] for i in chosen) for chosen in self.attribute_sets)

    @property
    def entries(self) -> int:
        return len(self.weights) * self.shape[1]

    def columns(self, cells: Integers) -> sparse.csr_array:
        codes = cell_codes(cells, self.domain_sizes)
        check_allocation("columns of marginals", (len(codes), len(self.weights), 2))
        rows = np.empty((len(codes), len(self.weights)), dtype=np.int64)
        first = 0
        for j, (chosen, size) in enumerate(zip(self.attribute_sets, self.rows, strict=True)):
            shape = tuple(self.domain_sizes[i] for i in chosen)
            parts = tuple(codes[:, i] for i in chosen)
            rows[:, j] = first + (np.ravel_multi_index(parts, shape) if chosen else 0)
            first += size
        values = np.tile(np.asarray(self.weights), len(codes))
        ends = np.arange(len(codes) + 1) * len(self.weights)
        shape = (self.shape[0], len(codes))
        return sparse.csr_array(sparse.csc_array((values, rows.ravel(), ends), shape=shape))

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
