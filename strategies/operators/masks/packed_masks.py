"""One 0/1 mask per row and attribute, packed to bits, and groups of rows that are disjoint."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators.base.arrays import Bools, Integers, Longs, Numbers
from strategies.operators.base.validation import plain_array
from strategies.operators.masks.attribute_sets import members
from strategies.operators.masks.khatri_rao import exact_products

BAND = 2**12
"""Rows that are packed at a time: they stay in the processor's cache."""

Bits = NDArray[np.uint8]
Masks = Bools


def checked_masks(masks: Sequence[Numbers]) -> list[Numbers]:
    """Return one (o, n_i) array per attribute, or refuse none, empty ones and unequal rows."""
    masks = [plain_array("masks", mask) for mask in masks]
    if not masks or any(mask.ndim != 2 or mask.shape[1] < 1 for mask in masks):
        raise ValueError("masks: expected one (o, n_i) array with n_i >= 1 per attribute.")
    if len({len(mask) for mask in masks}) != 1:
        raise ValueError(
            f"masks have {[len(mask) for mask in masks]} rows: expected one common number."
        )
    return masks


def pack(masks: Sequence[Numbers]) -> Bits:
    """Return masks of shapes (o, n_i) as one (o, ceil(sum(n_i) / 8)) array of bytes."""
    width = sum(mask.shape[1] for mask in masks)
    found = np.empty((len(masks[0]), -(-width // 8)), dtype=np.uint8)
    for start in range(0, len(found), BAND):
        band = slice(start, start + BAND)
        whole = np.concatenate([np.asarray(mask[band]) != 0 for mask in masks], axis=1)
        found[band] = np.packbits(whole, axis=1)
    return found


def unpack(bits: Bits, start: int, stop: int) -> Masks:
    """Return bits ``start:stop`` of every row as booleans, reading only the bytes they span."""
    first = start // 8
    window = np.unpackbits(bits[:, first : -(-stop // 8)], axis=1)
    return window[:, start - 8 * first : stop - 8 * first].view(np.bool_)


def mask_widths(masks: Sequence[Masks]) -> Longs:
    """Return how many codes every mask admits, shape (o, d).

    By products with ones, exact: sums along short rows take three times as long.
    """
    found = np.empty((len(masks), len(masks[0])), dtype=np.int64)
    for i, mask in enumerate(masks):
        kind = np.float32 if mask.shape[1] < 2**24 else np.float64
        found[i] = mask.astype(kind) @ np.ones(mask.shape[1], dtype=kind)
    return found.T


def packed_widths(bits: Bits, sizes: Sequence[int]) -> Longs:
    """Return what `mask_widths` does from packed masks, without unpacking any."""
    found = np.zeros((len(sizes), len(bits)), dtype=np.int64)
    for i, (start, size) in enumerate(zip(accumulate(sizes, initial=0), sizes, strict=False)):
        own = np.zeros(8 * bits.shape[1], dtype=bool)
        own[start : start + size] = True
        for place, filter_ in enumerate(np.packbits(own)):
            if filter_:
                found[i] += ONES[bits[:, place] & filter_]
    return found.T


ONES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


def as_columns(mask: Masks) -> sparse.csc_array:
    """Return the transposed mask (n_i, o) in CSC form with int64 ones."""
    row, code = np.nonzero(mask)
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(mask)))])
    ones = np.ones(len(code), dtype=np.int64)
    return sparse.csc_array((ones, code, ends), shape=mask.shape[::-1])


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


def check_disjoint(numbers: Longs, masks_of: Callable[[Longs], Sequence[Masks]]) -> None:
    """Refuse groups in which two rows share a cell.

    `numbers`: (o,), the group of every row, as `numbered_groups` returns it; `masks_of`: returns
    the masks of some rows, one for each attribute; called for one group at a time.
    """
    for rows in members(numbers):
        pair = overlapping_pair(masks_of(rows))
        if pair is not None:
            raise ValueError(
                f"groups: rows {rows[pair[0]]} and {rows[pair[1]]} of one group share a "
                f"cell, expected the rows of a group to be pairwise disjoint."
            )


def cover_everything(groups: Longs, widths: Longs, n_cells: int) -> bool:
    """Tell whether the disjoint rows of every group cover the whole domain, by exact counts.

    `groups`: (o,), the group of every row; `widths`: (o, d), codes in every row's mask per
    attribute; `n_cells`: cells of the domain.
    """
    if not len(groups):
        return False
    sums = np.zeros(int(groups.max()) + 1, dtype=object)
    np.add.at(sums, groups, exact_products(list(widths.T)).astype(object))
    return all(total == n_cells for total in sums[np.unique(groups)])
