"""Rows that are Kronecker products of masks: their columns, Grams and disjoint groups.

A cell's column are the packed sets of rows that hold each of its codes, met. Grams are products,
entry by entry, of the attributes' own.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    Longs,
    fits,
    plain_array,
)
from strategies.operators.masks.packed_masks import (
    Bits,
    Masks,
    exact_products,
    members,
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


def overlapping_pair(masks: Sequence[Masks]) -> tuple[int, int] | None:
    """Return two rows that share a cell, None where all rows are pairwise disjoint.

    The largest array is 2048 x o.
    """
    floats = [mask.astype(np.float32) for mask in masks]
    for start in range(0, len(floats[0]), 2048):
        chunk = slice(start, start + 2048)
        meet = np.logical_and.reduce([part[chunk] @ part.T > 0 for part in floats])
        np.fill_diagonal(meet[:, start:], False)
        if meet.any():
            row, other = np.argwhere(meet)[0]
            return int(row) + start, int(other)
    return None


def blocks_of(sizes: Sequence[int], largest: int) -> list[list[int]]:
    """Return consecutive attributes in blocks of at most ``largest`` joint codes each."""
    blocks: list[list[int]] = []
    codes = largest + 1
    for i, size in enumerate(sizes):
        codes *= size
        if codes > largest:
            blocks.append([])
            codes = size
        blocks[-1].append(i)
    return blocks


def joint_mask(masks: Sequence[Masks]) -> NDArray[np.float32]:
    """Return the row-wise Kronecker products of some attributes' masks, shape (o, codes)."""
    joint = masks[0].astype(np.float32)
    for mask in masks[1:]:
        joint = (joint[:, :, None] * mask[:, None, :]).reshape(len(joint), -1)
    return joint


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
