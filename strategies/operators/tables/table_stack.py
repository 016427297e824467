"""Tables on top of each other: any rows over the cells of a few attributes, summed over the rest.

A table of attributes T is a marginal of the domain, and its rows may be any matrix over its cells:
``x + y <= t``, differences, queries drawn at random. Attributes of a table need not be neighbours,
and tables may overlap. Nothing here has as many numbers as the domain has cells.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from math import prod

import numpy as np
from scipy import linalg, sparse

from strategies.operators.base.arrays import (
    Array,
    Integers,
    cell_codes,
    check_allocation,
    cut_rows,
)
from strategies.operators.base.operator import Norm, Operator, check_range, rows_product
from strategies.operators.base.qr import thin_qr
from strategies.operators.explicit import MatrixLike, as_operator
from strategies.operators.kronecker import Kronecker
from strategies.operators.masks.anova import sum_over_cells
from strategies.operators.product import RowScaled
from strategies.operators.tables.overlapping_tables import (
    JointSolve,
    SharedColumns,
    Table,
    elimination,
    largest_sum,
)
from strategies.operators.tables.weighted_tables import Tables, attribute_set, attribute_sizes
from strategies.operators.wrappers import Scaled, Stack


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TableStack(Tables):
    """Blocks of rows, each over the cells of some attributes and summed over all others.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the domain's attributes.
    attribute_sets : sequence of sequences of int
        The attributes T of every block, ascending; a set may come again.
    blocks : sequence of array-like, sparse matrix or Operator, of shape (m_b, cells of T)
        The rows of every block over the cells of its table, the last attribute fastest.

    Notes
    -----
    As a strategy whose blocks have full column rank it is answered by least squares over all tables
    together: ``X = AᵀA = Σ_T X_T ⊗ J``. Functions of attributes that only one table has are
    eliminated, so the largest matrices are those of one table and of what tables share.

    The sensitivity is exact where tables can be added up attribute by attribute, and the sum of the
    tables' own elsewhere: a bound above it.

    Examples
    --------
    >>> A = TableStack([2, 3, 2], [(0, 2), (1,)], [[[1, 0, 0, 1]], [[1, 1, 0]]])
    >>> A.to_dense().astype(int)
    array([[1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1],
           [1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0]])
    >>> A.integer_sensitivity("l1")
    2
    """

    sizes: tuple[int, ...]
    attribute_sets: tuple[Table, ...]
    blocks: tuple[Operator, ...]

    def __init__(
        self,
        sizes: Sequence[int],
        attribute_sets: Sequence[Sequence[int]],
        blocks: Sequence[MatrixLike],
    ) -> None:
        object.__setattr__(self, "sizes", attribute_sizes(sizes))
        sets = [attribute_set(chosen, len(self.sizes)) for chosen in attribute_sets]
        if any(tuple(given) != chosen for given, chosen in zip(attribute_sets, sets, strict=True)):
            raise ValueError(
                f"attribute_sets={list(attribute_sets)!r}: expected attributes in ascending order, "
                f"in which the cells of a table are numbered."
            )
        rows = [as_operator(block, f"blocks[{b}]") for b, block in enumerate(blocks)]
        if not rows or len(rows) != len(sets):
            raise ValueError(
                f"blocks has {len(rows)} entries: expected one for each of the {len(sets)} "
                f"attribute sets, and at least one."
            )
        for b, (chosen, block) in enumerate(zip(sets, rows, strict=True)):
            if block.shape[1] != self._cells(chosen):
                raise ValueError(
                    f"blocks[{b}] has {block.shape[1]} columns: expected {self._cells(chosen)}, "
                    f"one for each cell of the attributes {chosen}."
                )
        object.__setattr__(self, "attribute_sets", tuple(sets))
        object.__setattr__(self, "blocks", tuple(rows))

    def with_blocks(self, blocks: Sequence[Operator]) -> "TableStack":
        """Return other rows over the same tables."""
        return TableStack(self.sizes, self.attribute_sets, blocks)

    def _cells(self, chosen: Table) -> int:
        return prod(self.sizes[i] for i in chosen)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(block.shape[0] for block in self.blocks), prod(self.sizes)

    @property
    def is_binary(self) -> bool:
        return all(block.is_binary for block in self.blocks)

    def table_blocks(self) -> Iterable[tuple[Table, Operator]]:
        return zip(self.attribute_sets, self.blocks, strict=True)

    def columns(self, cells: Integers) -> sparse.csr_array:
        codes = cell_codes(cells, self.sizes)
        check_allocation("columns of tables", (self.shape[0], len(codes)))
        found = []
        for chosen, block in self.table_blocks():
            flat = np.zeros(len(codes), dtype=np.int64)
            if chosen:
                own = tuple(codes[:, i] for i in chosen)
                flat = np.ravel_multi_index(own, [self.sizes[i] for i in chosen])
            found.append(block.columns(flat))
        return sparse.csr_array(sparse.vstack(found))

    def row_squares(self) -> Array:
        n, blocks = self.shape[1], self.blocks
        return np.concatenate([block.row_squares() * (n / block.shape[1]) for block in blocks])

    def row_gram(self) -> Array:
        return table_products(self, self)

    # Norms ----------------------------------------------------------------------------------

    def column_norms(self, norm: Norm) -> Array:
        powers = [(s, values[:, None]) for s, values in self._powers(norm)]
        sums = sum_over_cells(self.sizes, powers, 1)[:, 0]
        return sums if norm == "l1" else np.sqrt(sums)

    def _powers(self, norm: Norm) -> list[tuple[Table, Array]]:
        power = 1 if norm == "l1" else 2
        return [
            (chosen, block.column_norms(norm) ** power) for chosen, block in self.table_blocks()
        ]

    @cached_property
    def _largest(self) -> dict[Norm, float]:
        return {norm: largest_sum(self.sizes, self._powers(norm)) for norm in ("l1", "l2")}

    def sensitivity(self, norm: Norm) -> float:
        largest = float(self._largest[norm])
        return largest if norm == "l1" else float(np.sqrt(largest))

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        return elimination(self.sizes, self.attribute_sets) is not None

    def rounded(self, scale: int) -> Operator:
        return self.with_blocks([block.rounded(scale) for block in self.blocks])

    def integer_sensitivity(self, norm: Norm) -> int:
        sums = [(chosen, block.integer_column_sums(norm)) for chosen, block in self.table_blocks()]
        check_range(float(sum(int(values.max(initial=0)) for _, values in sums)))
        return int(largest_sum(self.sizes, sums))

    # Joint least squares --------------------------------------------------------------------

    @cached_property
    def _joint(self) -> tuple[JointSolve, list[Array]] | None:
        """Triangles of all blocks with their Q, None where some block is not of full rank."""
        if len(set(self.attribute_sets)) < len(self.attribute_sets):
            return None
        shared = SharedColumns(self.sizes, self.attribute_sets)
        if any(block.shape[0] < block.shape[1] for block in self.blocks):
            return None
        bases = tuple(shared.basis(t) for t in range(len(self.blocks)))
        pairs = [
            thin_qr(block.matmat(one.columns / np.sqrt(len(one.columns))))
            for one, block in zip(bases, self.blocks, strict=True)
        ]
        solve = JointSolve(bases, tuple(triangle for _, triangle in pairs), shared.width)
        return (solve, [basis for basis, _ in pairs]) if solve.is_determined else None

    def _estimates(self, answers: Array) -> list[Array]:
        assert self._joint is not None
        solve, bases = self._joint
        parts = zip(bases, self.split(answers), strict=True)
        return solve.solve([basis.T @ part for basis, part in parts])

    def _tables_above(self, workload: Operator) -> list[tuple[int, Array, Operator]] | None:
        """Return a table above every block of a workload, its columns there, and the block.

        None where blocks are no tables or lie below none of these.
        """
        asked = as_tables(workload)
        if asked is None or asked.sizes != self.sizes or self._joint is None:
            return None
        found, bases = [], self._joint[0].bases
        for chosen, block in zip(asked.attribute_sets, asked.blocks, strict=True):
            t = next((t for t, own in enumerate(self.attribute_sets) if {*chosen} <= {*own}), None)
            if t is None:
                return None
            basis = bases[t].columns / np.sqrt(len(bases[t].columns))
            found.append(
                (t, sum_to_table(basis, self.attribute_sets[t], chosen, self.sizes), block)
            )
        return found

    def has_rule_for(self, workload: Operator) -> bool:
        return self._tables_above(workload) is not None

    def row_errors(self, workload: Operator) -> Array | None:
        found = self._tables_above(workload)
        if found is None:
            return super().row_errors(workload)
        return np.concatenate([self._errors(t, block.matmat(part)) for t, part, block in found])

    def error_trace(self, workload: Operator) -> float | None:
        found = self._tables_above(workload)
        if found is None:
            return super().error_trace(workload)
        return sum(float(self._errors(t, few_rows(b, part)).sum()) for t, part, b in found)

    def _errors(self, t: int, rows: Array) -> Array:
        assert self._joint is not None
        check_allocation("rows over shared columns", (len(rows), self._joint[0].width + 1), 16)
        own, shared = self._joint[0].whiten(t, rows)
        return np.asarray((own**2).sum(axis=1) + (shared**2).sum(axis=1))

    def _estimate(self, workload: Operator, answers: Array) -> Array | None:
        found = self._tables_above(workload)
        if found is None:
            return super()._estimate(workload, answers)
        estimates = self._estimates(answers)
        return np.concatenate([b.matmat(part @ estimates[t]) for t, part, b in found])


def sum_to_table(values: Array, table: Table, chosen: Table, sizes: Sequence[int]) -> Array:
    """Return values of a table's cells (cells, k), added up to those of some of its attributes."""
    tensor = values.reshape(*(sizes[i] for i in table), values.shape[1])
    rest = tuple(axis for axis, i in enumerate(table) if i not in chosen)
    return np.asarray(tensor.sum(axis=rest).reshape(-1, values.shape[1]))


def few_rows(block: Operator, right: Array) -> Array:
    """Return rows with the Gram of ``B @ right``, not many more than B has columns."""
    if block.shape[0] <= 2 * block.shape[1]:
        return block.matmat(right)
    values, vectors = linalg.eigh(block.gram_dense())
    return np.asarray((np.sqrt(np.maximum(values, 0.0)) * vectors).T @ right)


# Workloads that are tables ------------------------------------------------------------------


@singledispatch
def as_tables(workload: Operator) -> TableStack | None:
    """Read a workload as tables with its rows in their order, None where it shows none."""
    return None


@as_tables.register
def own_tables(workload: TableStack) -> TableStack:
    return workload


@as_tables.register
def scaled_tables(workload: Scaled) -> TableStack | None:
    inner = as_tables(workload.inner)
    return inner and inner.with_blocks([Scaled(workload.weight, one) for one in inner.blocks])


@as_tables.register
def weighted_tables(workload: RowScaled) -> TableStack | None:
    inner = as_tables(workload.inner)
    if inner is None:
        return None
    weights = cut_rows(workload.weights, (block.shape[0] for block in inner.blocks))
    pairs = zip(weights, inner.blocks, strict=True)
    return inner.with_blocks([RowScaled(one, block) for one, block in pairs])


@as_tables.register
def product_tables(workload: Kronecker) -> TableStack | None:
    """Return a product as rows over the attributes of which it asks more than the total."""
    used: list[int] = []
    factors = []
    first, weight = 0, 1.0
    for factor in workload.factors:
        count = len(factor.sizes or (0,))
        row = factor.to_dense()[0] if factor.shape[0] == 1 else None
        if row is not None and (row == row[0]).all():
            weight *= float(row[0])
        else:
            used += range(first, first + count)
            factors.append(factor)
        first += count
    block: Operator = Kronecker(factors) if factors else as_operator(np.ones((1, 1)))
    return TableStack(
        workload.sizes or (), [used], [block if weight == 1.0 else Scaled(weight, block)]
    )


@as_tables.register
def stacked_tables(workload: Stack) -> TableStack | None:
    found = [as_tables(block) for block in workload.blocks]
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len({one.sizes for one in known}) > 1:
        return None
    sets = [chosen for one in known for chosen in one.attribute_sets]
    return TableStack(known[0].sizes, sets, [block for one in known for block in one.blocks])


@rows_product.register
def table_rows_product(outer: TableStack, other: Operator) -> Array | None:
    tables = as_tables(other)
    return None if tables is None or tables.sizes != outer.sizes else table_products(outer, tables)


def table_products(outer: TableStack, other: TableStack) -> Array:
    """Return inner products of rows: of their sums over the attributes that both tables have."""
    check_allocation("inner products of rows", (outer.shape[0], other.shape[0]))
    n, bands = outer.shape[1], []
    for one, block in zip(outer.attribute_sets, outer.blocks, strict=True):
        band = []
        for two, second in zip(other.attribute_sets, other.blocks, strict=True):
            both = tuple(i for i in one if i in two)
            left = sum_to_table(block.to_dense().T, one, both, outer.sizes)
            right = sum_to_table(second.to_dense().T, two, both, outer.sizes)
            together = prod(outer.sizes[i] for i in {*one, *two})
            band.append(left.T @ right * (n / together))
        bands.append(np.concatenate(band, axis=1))
    return np.concatenate(bands)
