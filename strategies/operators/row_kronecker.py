"""Rows that are Kronecker products of 0/1 vectors: a forest's paths over a product domain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    Longs,
    Numbers,
    cell_codes,
    check_allocation,
    fits,
    read_only,
)
from strategies.operators.base.operator import Norm, Operator, rows_product
from strategies.operators.base.recovery import PRODUCTS, check_seconds, takes_long
from strategies.operators.masks.anova import (
    Energies,
    masks_energies,
    may_be_tables,
    structure_energies,
)
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.operators.masks.mask_products import (
    check_disjoint,
    cover_domain,
    hadamard_gram,
    met_columns,
    numbered_groups,
    repeated_gram,
)
from strategies.operators.masks.packed_masks import (
    Bits,
    Halves,
    Masks,
    as_columns,
    checked_masks,
    exact_products,
    khatri_rao,
    pack,
    packed_widths,
    sum_of_products,
    unique_rows,
    unpack,
)
from strategies.operators.wrappers import Scaled

ENUMERATION_WORK = 2 * 10**10
"""Multiply-adds that may be spent on counting the rows over every cell of a domain."""


ATTRIBUTE_SECONDS = 2e-9
"""Seconds to multiply two rows' inner products over the attributes, for each of them."""


@dataclass(frozen=True, eq=False, repr=False)
class RowKronecker(Operator):
    """The 0/1 matrix whose row r is the Kronecker product of one mask per attribute.

    ``A[r, cell] = prod_i masks_i[r, code_i(cell)]``: the row-wise Kronecker (face-splitting)
    product of the masks. It takes ``o * sum(n_i)`` bits, whatever ``n = prod(n_i)`` is.

    Parameters
    ----------
    bits : ndarray of uint8, shape (o, ceil(sum(n_i) / 8))
        The packed masks; use `from_masks`, which checks.
    sizes : tuple of int
        Attribute sizes ``n_i``.
    groups : ndarray of int, shape (o,), optional
        Rows of one group are pairwise disjoint (a tree's leaves): no cell lies in more rows
        than there are groups.
    in_words : callable, optional
        From the masks of one row, one an attribute, to words for it.

    Examples
    --------
    >>> import numpy as np
    >>> paths = RowKronecker.from_masks([np.array([[1, 0], [0, 1]]), np.array([[1, 1], [1, 0]])])
    >>> paths.to_dense()
    array([[1., 1., 0., 0.],
           [0., 0., 1., 0.]])
    """

    bits: Bits
    sizes: tuple[int, ...]
    groups: Longs | None = None
    in_words: Callable[[Sequence[Masks]], str] | None = None
    prefers_sparse = True
    is_binary = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", read_only(np.asarray(self.bits)))
        if self.groups is not None:
            object.__setattr__(self, "groups", read_only(np.asarray(self.groups)))

    @classmethod
    def from_masks(cls, masks: Sequence[Numbers], groups: Integers | None = None) -> "RowKronecker":
        """Build from one (o, n_i) 0/1 array per attribute.

        Raises
        ------
        ValueError
            If the masks disagree in rows, an attribute has no code, or two rows of one group
            share a cell.
        """
        masks = checked_masks(masks)
        operator = cls(pack(masks), tuple(mask.shape[1] for mask in masks))
        return operator if groups is None else operator.with_groups(groups)

    def with_groups(
        self, groups: Integers, spend: Callable[[int], None] = lambda work: None
    ) -> "RowKronecker":
        """Return the operator with groups of rows, checked to be pairwise disjoint.

        `spend`: told of the operations of a check before it is done; it may refuse them.
        """
        numbers = numbered_groups(groups, self.shape[0])
        alive = np.asarray((self.widths > 0).all(axis=1))
        check_disjoint(numbers, alive, lambda rows: self.take_rows(rows).all_masks(), spend)
        return replace(self, groups=numbers)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.bits), prod(self.sizes)

    @property
    def entries(self) -> int:
        return sum_of_products(list(self.widths.T))

    # Rows -----------------------------------------------------------------------------------

    def masks(self, attribute: int) -> Masks:
        """Return the (o, n_i) 0/1 masks of one attribute."""
        ends = [0, *accumulate(self.sizes)]
        return unpack(self.bits, ends[attribute], ends[attribute + 1])

    def all_masks(self) -> list[Masks]:
        """Return the masks of every attribute."""
        return [self.masks(i) for i in range(len(self.sizes))]

    @cached_property
    def widths(self) -> Longs:
        """Codes in every row's mask per attribute, shape (o, d)."""
        return packed_widths(self.bits, self.sizes)

    @cached_property
    def energies(self) -> Energies | None:
        """Energies of rows that are all cells of some tables, None for others; many ask."""
        return masks_energies(self) if may_be_tables(self.widths, self.sizes) else None

    def row_sums(self) -> Numbers:
        """Return the cells of every row, exact: float64 below 2**53, else Python integers."""
        largest = prod(int(width) for width in self.widths.max(axis=0, initial=0))
        products = exact_products(list(self.widths.T))
        return products.astype(np.float64 if largest <= 2**53 else object)

    def row_squares(self) -> Array:
        return self.row_sums().astype(np.float64)

    def take_rows(self, rows: Integers | Bools | slice) -> "RowKronecker":
        """Return the rows at an index array, mask or slice; they keep their groups and words.

        A row that is taken twice shares cells with itself, so there are no groups then.
        """
        groups = None if self.groups is None else self.groups[rows]
        if groups is not None and len(np.unique(np.arange(len(self))[rows])) < len(groups):
            groups = None
        return RowKronecker(self.bits[rows], self.sizes, groups, self.in_words)

    def row_words(self) -> list[str]:
        """Return a description of every row's cells, "" where `in_words` is missing."""
        if self.in_words is None:
            return super().row_words()
        masks = self.all_masks()
        return [self.in_words([mask[row] for mask in masks]) for row in range(len(self))]

    def unique_rows(self) -> tuple["RowKronecker", Longs, Longs]:
        """Return the distinct rows, the distinct row of every row, and how often each occurs."""
        first, inverse = unique_rows(self.bits)
        return self.take_rows(first), inverse, np.bincount(inverse)

    # Products -------------------------------------------------------------------------------

    @cached_property
    def halves(self) -> Halves:
        """The distinct rows over the first and over the last attributes."""
        return Halves.of(self.all_masks())

    def _matmat(self, right: Array) -> Array:
        return self.halves.matmat(right)

    def _rmatmat(self, left: Array) -> Array:
        return self.halves.rmatmat(left)

    def row_gram(self, other: "RowKronecker | None" = None) -> Array:
        """Return ``A @ B.T`` as the Hadamard product of the attributes' Grams, without n.

        `other`: B over the same attributes, A itself when missing.
        """
        other = self if other is None else other
        if other.sizes != self.sizes:
            raise ValueError(f"other.sizes={other.sizes}: expected {self.sizes}.")
        check_allocation("row gram of RowKronecker", (self.shape[0], other.shape[0]))
        return hadamard_gram(self.masks, other.masks, self.sizes)

    def row_gram_matmat(self, right: Array) -> Array:
        if fits((self.shape[1], right.shape[1] + 1), 64):
            return self._matmat(self._rmatmat(right))
        check_seconds(
            f"inner products of {self.shape[0]} rows, for {right.shape[1]} queries,",
            self.gram_seconds(right.shape[1]),
            "fewer queries at a time, or fewer or shallower trees",
        )
        rows = max(1, 2**24 // max(self.shape[0], 1))
        blocks = (self.take_rows(slice(s, s + rows)) for s in range(0, self.shape[0], rows))
        return np.concatenate([block.row_gram(self) @ right for block in blocks])

    def gram_seconds(self, met: int) -> float:
        """Return the seconds of all rows' inner products, times a matrix of some columns."""
        each = (met + sum(self.sizes)) / PRODUCTS + ATTRIBUTE_SECONDS * len(self.sizes)
        return float(self.shape[0]) ** 2 * each

    # Explicit forms -------------------------------------------------------------------------

    def to_sparse(self) -> sparse.csr_array:
        check_allocation("cells to number", self.shape[1:], 1)
        form = khatri_rao([as_columns(mask) for mask in self.all_masks()])
        return sparse.csr_array((form.data, form.indices, form.indptr), shape=self.shape)

    def gram_dense(self) -> Array:
        check_allocation("gram of RowKronecker", self.shape[1:] * 2)
        rows, _, counts = self.unique_rows()
        return repeated_gram(rows.to_sparse(), counts, sum_of_products(list((rows.widths**2).T)))

    def columns(self, cells: Integers) -> sparse.csr_array:
        return met_columns(self.all_masks(), self.groups, cell_codes(cells, self.sizes))

    # Sensitivity ----------------------------------------------------------------------------

    @cached_property
    def is_partition(self) -> bool:
        """Whether every group's rows are disjoint and cover the whole domain."""
        groups = self.groups
        return groups is not None and cover_domain(groups, self.widths, self.shape[1])

    @property
    def n_groups(self) -> int:
        """Groups of disjoint rows; without groups, every row for itself."""
        return self.shape[0] if self.groups is None else len(np.unique(self.groups))

    @property
    def is_enumerable(self) -> bool:
        """Whether one number per cell of the domain is within reach, in memory and work."""
        n = self.shape[1]
        within = fits((n, 4)) and n * min(self.shape[0], 64) <= ENUMERATION_WORK
        return within and self.halves.work <= ENUMERATION_WORK

    def uniform_column_norm(self, norm: Norm) -> float | None:
        """Return the number of groups (its root for "l2") where each partitions the domain."""
        if not self.is_partition:
            return None
        return float(self.n_groups) if norm == "l1" else float(np.sqrt(self.n_groups))

    def column_norms(self, norm: Norm) -> Array:
        counts = self.rmatmat(np.ones(self.shape[0]))
        return counts if norm == "l1" else np.sqrt(counts)

    def sensitivity(self, norm: Norm) -> float:
        most = self.integer_sensitivity(norm)
        return float(most) if norm == "l1" else float(np.sqrt(most))

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        return self.is_partition or self.is_enumerable

    def integer_column_sums(self, norm: Norm) -> Longs:
        return np.rint(self.rmatmat(np.ones(self.shape[0]))).astype(np.int64)

    def integer_sensitivity(self, norm: Norm) -> int:
        if self.is_partition or not self.is_enumerable:
            return self.n_groups
        return int(self.integer_column_sums(norm).max(initial=0))

    def rounded(self, scale: int) -> Operator:
        return Scaled(scale, self)

    def stands_alone(self, workload: Operator) -> bool:
        if not takes_long(self) or not isinstance(workload, RowKronecker):
            return False
        return workload.sizes == self.sizes and np.array_equal(workload.bits, self.bits)


@rows_product.register
def row_kronecker_rows_product(outer: RowKronecker, other: Operator) -> Array | None:
    return outer.row_gram(other) if isinstance(other, RowKronecker) else None


@mask_rows.register
def row_kronecker_mask_rows(workload: RowKronecker) -> MaskRows:
    masks = tuple(np.asarray(workload.masks(i)) for i in range(len(workload.sizes)))
    groups = None if workload.groups is None else np.asarray(workload.groups, dtype=np.int64)
    return MaskRows(masks, None, groups)


structure_energies.register(RowKronecker, lambda workload: workload.energies)
