"""Rows that are Kronecker products of masks: their columns, Grams, groups and products.

A cell's column are the packed sets of rows that hold each of its codes, met. Grams are products,
entry by entry, of the attributes' own.

``A[r] = L[left_r] ⊗ R[right_r]``, where L and R hold the *distinct* rows over the first and the
last attributes. With x laid out as an (n_L, n_R) array X, ``(A x)_r = L[left_r] X R[right_r]``:
two small matrix products take the place of o x n work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    Longs,
    check_allocation,
    fits,
    plain_array,
)
from strategies.operators.masks.packed_masks import (
    Bits,
    Masks,
    as_columns,
    blocks_of,
    exact_products,
    joint_mask,
    khatri_rao,
    members,
    overlapping_pair,
    pack,
    unique_rows,
)

BLOCK_BITS = 2**25  # bits of rows by cells that are unpacked at a time


def met_columns(masks: Sequence[Masks], groups: Longs | None, codes: Integers) -> sparse.csr_array:
    """Return the columns at cells of rows that are pairwise disjoint within their groups.

    Of every group only the attributes that some row of it constrains are looked at, and only its
    own rows are met: a leaf of depth h costs h bits a cell, whatever the domain and the forest.
    """
    free = np.stack([mask.all(axis=1) for mask in masks], axis=1)
    alone = groups is not None
    parts = members(groups) if groups is not None else [np.arange(len(free))]
    held, cells = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rows in filter(len, parts):
        telling = np.flatnonzero(~free[rows].all(axis=0)).tolist() or [0]
        tables: list[Bits] = [np.packbits(masks[i][rows], axis=0).T for i in telling]
        step = max(1, BLOCK_BITS // len(rows))
        for start in range(0, len(codes), step):
            row, cell = _meet(tables, codes[start : start + step, telling], alone)
            held.append(rows[row])
            cells.append(cell + start)
    place = np.concatenate(held), np.concatenate(cells)
    ones = np.ones(len(place[0]), dtype=np.int64)
    return sparse.csr_array((ones, place), shape=(len(free), len(codes)))


def _meet(tables: list[Bits], codes: Integers, alone: bool) -> tuple[Longs, Longs]:
    """Return rows and the cells that they hold; `alone`: no cell is held by two."""
    meet = tables[0][codes[:, 0]]
    for table, column in zip(tables[1:], codes.T[1:], strict=True):
        meet &= table[column]
    if not alone:
        cells, row = np.nonzero(np.unpackbits(meet, axis=1))
        return row, cells
    byte = (meet != 0).argmax(axis=1)
    bits = np.unpackbits(meet[np.arange(len(meet)), byte][:, None], axis=1)
    cells = np.flatnonzero(bits.any(axis=1))
    row = byte[cells] * 8 + bits[cells].argmax(axis=1)
    return row.astype(np.int64), cells.astype(np.int64)


MasksOf = Callable[[int], Masks]

GRAM_BLOCK = 64  # joint codes of the attributes that one factor of a row gram takes together

PAIRS = 2**20  # pairs of combined rows that meet at once


def hadamard_gram(left: MasksOf, right: MasksOf, sizes: Sequence[int]) -> Array:
    """Return ``A @ B.T`` as the Hadamard product of the attributes' Grams, without n.

    Masks are asked for block by block, so that no more than one is unpacked at a time.
    """
    result = np.ones((len(left(0)), len(right(0))))
    for block in blocks_of(sizes, GRAM_BLOCK):
        one, other = (joint_mask([masks(i) for i in block]) for masks in (left, right))
        result *= one @ other.T
    return result


def combined_squares(left: sparse.csr_array, masks: MasksOf, sizes: Sequence[int]) -> Array:
    """Return the squared norms of the rows of ``L @ A``, ``diag(L A Aᵀ Lᵀ)``, without n.

    Only pairs of the rows of A that a row of L combines are met: for a forest's queries, one leaf
    a tree. The largest array has `PAIRS` entries, or the square of the most terms in a row of L.
    """
    terms = np.diff(left.indptr)
    order, squares = np.argsort(-terms, kind="stable"), np.zeros(left.shape[0])
    parts = [masks(i) for i in range(len(sizes))]
    start = 0
    while start < np.count_nonzero(terms):
        most = int(terms[order[start]])
        rows = order[start : start + max(1, PAIRS // most**2)]
        met = np.arange(most) < terms[rows, None]
        place = np.where(met, left.indptr[rows, None] + np.arange(most), 0)
        weight, row = np.where(met, left.data[place], 0.0), left.indices[place]
        overlap = np.ones((*row.shape, row.shape[1]))
        for part in parts:
            mask = part[row].astype(np.float32)
            overlap *= mask @ mask.transpose(0, 2, 1)
        squares[rows] = np.einsum("qa,qab,qb->q", weight, overlap, weight)
        start += len(rows)
    return squares


def repeated_gram(rows: sparse.csr_array, counts: Longs, work: int) -> Array:
    """Return ``A.T @ A`` from the distinct rows of A, dense or sparse, whichever is cheaper."""
    form = rows.astype(np.float64)
    o, n = form.shape
    if work > o * n * n / 20 and fits((o, n), 16):
        dense = form.toarray()
        return np.asarray(dense.T @ (counts[:, None] * dense))
    weighted = sparse.diags_array(counts.astype(np.float64)) @ form
    return np.asarray((form.T @ weighted).toarray())


def numbered_groups(groups: Integers, n_rows: int) -> Longs:
    """Return one group number from 0 on for every row, or refuse by name."""
    groups = plain_array("groups", groups)
    if groups.shape != (n_rows,) or groups.dtype.kind not in "iu":
        raise ValueError(
            f"groups has shape {groups.shape} and dtype {groups.dtype}: expected one integer "
            f"for each of the {n_rows} rows."
        )
    numbers = np.unique(groups, return_inverse=True)[1].ravel()
    return np.asarray(numbers, dtype=np.int64)


SMALL = 2**24  # multiply-adds of a comparison pair by pair that is not worth avoiding


def check_disjoint(
    groups: Longs,
    alive: Bools,
    masks_of: Callable[[Longs], Sequence[Masks]],
    spend: Callable[[int], None],
) -> None:
    """Refuse groups in which two rows share a cell; `spend` is told of work before it is done.

    `alive`: which rows hold a cell at all; `masks_of`: the masks of some rows.

    A tree's leaves fall apart along the attribute that the root splits: no leaf on one side shares
    a code with one on the other. So rows are split along any attribute where they fall apart, again
    and again, and only what is left is compared pair by pair.
    """
    rows = np.flatnonzero(alive)
    pending = labelled_rows(rows, groups[rows])
    while pending:
        rows = pending.pop()
        parts = masks_of(rows)
        width = sum(mask.shape[1] for mask in parts)
        pairs = len(rows) ** 2 * width
        if pairs > SMALL:
            spend(len(rows) * width)
            labels = separation(parts)
            if labels is not None:
                pending.extend(labelled_rows(rows, labels))
                continue
        spend(pairs)
        found = overlapping_pair(parts)
        if found is not None:
            raise ValueError(
                f"groups: rows {rows[found[0]]} and {rows[found[1]]} of one group share a cell, "
                f"expected the rows of a group to be pairwise disjoint."
            )


def labelled_rows(rows: Longs, labels: Longs) -> list[Longs]:
    """Return the rows of each label that are not alone."""
    if not len(rows):
        return []
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return [part for part in np.split(rows[order], starts) if len(part) > 1]


def separation(parts: Sequence[Masks]) -> Longs | None:
    """Return labels such that rows of different labels share no code of one attribute, or None."""
    for part in parts:
        if part.all(axis=1).any():
            continue
        size = part.shape[1]
        row, code = np.nonzero(part)
        sides = (np.ones(len(row), dtype=np.int8), (row + size, code))
        graph = sparse.coo_array(sides, shape=(size + len(part),) * 2)
        labels = sparse.csgraph.connected_components(graph, directed=False)[1][size:]
        if (labels != labels[0]).any():
            return np.asarray(labels, dtype=np.int64)
    return None


def cover_domain(groups: Longs, widths: Longs, n_cells: int) -> bool:
    """Tell whether the disjoint rows of every group cover the whole domain, by exact counts."""
    if not len(groups):
        return False
    sums = np.zeros(int(groups.max()) + 1, dtype=object)
    np.add.at(sums, groups, exact_products(list(widths.T)).astype(object))
    return all(total == n_cells for total in sums[np.unique(groups)])


@dataclass(frozen=True, eq=False)
class Halves:
    """Distinct rows of two halves, and every row's pair."""

    left: tuple[Masks, ...]  # the distinct masks over the attributes of this half
    right: tuple[Masks, ...]
    left_index: Longs  # (o,)
    right_index: Longs

    @classmethod
    def of(cls, masks: Sequence[Masks]) -> "Halves":
        """Split the attributes so that both halves have about as many cells."""
        sizes = np.cumsum(np.log([mask.shape[1] for mask in masks]))
        cut = int(np.argmin(np.abs(sizes - sizes[-1] / 2))) + 1
        left, left_index = distinct_rows(masks[:cut])
        if cut == len(masks):
            return cls(left, (), left_index, np.zeros_like(left_index))
        right, right_index = distinct_rows(masks[cut:])
        return cls(left, right, left_index, right_index)

    @property
    def cells(self) -> tuple[int, int]:
        return (
            prod(mask.shape[1] for mask in self.left),
            prod(mask.shape[1] for mask in self.right),
        )

    @property
    def distinct_rows(self) -> tuple[int, int]:
        return len(self.left[0]), len(self.right[0]) if self.right else 1

    @property
    def work(self) -> int:
        (n_left, n_right), (rows, _) = self.cells, self.distinct_rows
        return n_left * n_right * rows + len(self.left_index) * max(n_left, n_right)

    def matmat(self, block: Array) -> Array:
        """Return ``A @ block`` for an (n, j) array, one column at a time."""
        n_left, n_right = self.cells
        left, right = joint_rows(self.left), joint_rows(self.right)
        check_allocation("distinct half rows times half cells", (left.shape[0], n_right))
        result = np.empty((len(self.left_index), block.shape[1]))
        for j, column in enumerate(block.T):
            inner = left @ column.reshape(n_left, n_right)
            result[:, j] = self._gather(inner, right)
        return result

    def _gather(self, inner: Array, right: sparse.csr_array) -> Array:
        """Return the sum over the right half's cells of ``inner[left_r] * R[right_r]``."""
        o, width = len(self.left_index), max(inner.shape[1], 1)
        if inner.shape[0] * right.shape[0] <= max(8 * o, 2**22):
            return np.asarray((right @ inner.T)[self.right_index, self.left_index])
        step = max(1, 2**24 // width)
        parts = []
        for start in range(0, o, step):
            rows = right[self.right_index[start : start + step]]
            parts.append(rows.multiply(inner[self.left_index[start : start + step]]).sum(axis=1))
        return np.concatenate(parts)

    def rmatmat(self, block: Array) -> Array:
        """Return ``A.T @ block`` for an (o, j) array, one column at a time."""
        n_left, n_right = self.cells
        check_allocation("cells times columns", (n_left * n_right, block.shape[1]))
        left, right = joint_rows(self.left), joint_rows(self.right)
        check_allocation("distinct half rows times half cells", (left.shape[0], n_right))
        result = np.empty((n_left * n_right, block.shape[1]))
        shape = self.distinct_rows
        for j, column in enumerate(block.T):
            pairs = sparse.csr_array((column, (self.left_index, self.right_index)), shape=shape)
            result[:, j] = (left.T @ (pairs @ right).toarray()).ravel()
        return result


def distinct_rows(masks: Sequence[Masks]) -> tuple[tuple[Masks, ...], Longs]:
    """Return the distinct rows of some attributes' masks, and every row's number among them."""
    first, index = unique_rows(pack(masks))
    return tuple(mask[first] for mask in masks), index


def joint_rows(masks: Sequence[Masks]) -> sparse.csr_array:
    """Return the explicit rows over a half, in CSR form of floats."""
    if not masks:
        return sparse.csr_array(np.ones((1, 1)))
    form = khatri_rao([as_columns(mask) for mask in masks])
    return sparse.csr_array(form.T.astype(np.float64))
