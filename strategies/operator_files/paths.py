"""Rows of masks in files: the packed bits, and groups that are checked anew to be disjoint.

That is quick for a tree's leaves and bounded for anything else. The leaves fall apart along the
attribute that the root splits: no leaf on one side shares a code with one on the other. So rows are
split along any attribute where they fall apart, again and again, and only what is left is compared
pair by pair.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from strategies.operator_files.reader import Node, OperatorFileError, Reader
from strategies.operator_files.writer import Writer
from strategies.operators import Dense, Product, RowKronecker
from strategies.operators.base.arrays import Longs
from strategies.operators.masks.heaviest_cell import search_seconds
from strategies.operators.masks.packed_masks import Masks, overlapping_pair

SEARCHED = 2**32  # operations for each second of a search over all cells
SMALL = 2**24  # multiply-adds of a comparison pair by pair that is not worth avoiding


def check_disjoint(
    operator: RowKronecker, groups: Longs, spend: Callable[[int, str], None]
) -> None:
    """Refuse groups whose rows share a cell.

    `groups`: (o,); `spend`: told of the work before it is done; raises where it is too much.

    Raises OperatorFileError if two rows of a group share a cell.
    """
    masks, width = operator.all_masks(), sum(operator.sizes)
    alive = np.logical_and.reduce([mask.any(axis=1) for mask in masks])  # others hold no cell
    rows = np.flatnonzero(alive)
    pending = split(rows, groups[rows])
    while pending:
        rows = pending.pop()
        parts = [mask[rows] for mask in masks]
        pairs = len(rows) ** 2 * width
        if pairs > SMALL:
            spend(len(rows) * width, "row_kronecker: groups")
            labels = separation(parts)
            if labels is not None:
                pending.extend(split(rows, labels))
                continue
        spend(pairs, "row_kronecker: groups")
        found = overlapping_pair(parts)
        if found is not None:
            raise OperatorFileError(
                f"row_kronecker: groups: rows {rows[found[0]]} and {rows[found[1]]} of one group "
                f"share a cell, expected disjoint rows."
            )


def split(rows: Longs, labels: Longs) -> list[Longs]:
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
        labels = connected_components(graph, directed=False)[1][size:].astype(np.int64)
        if (labels != labels[0]).any():
            return labels
    return None


def write_row_kronecker(operator: RowKronecker, writer: Writer) -> Node:
    """Write the packed masks: sum(n_i) bits a row, whatever the product is."""
    groups = operator.groups
    return {
        "bits": writer.array(operator.bits),
        "sizes": list(operator.sizes),
        "groups": None if groups is None else writer.array(groups.astype(np.int64)),
    }


def read_row_kronecker(data: Node, reader: Reader) -> RowKronecker:
    """Read masks; groups of rows are checked anew to be disjoint, for sensitivities rest on it."""
    sizes = reader.sizes(data["sizes"], "row_kronecker: sizes")
    bits = reader.array(data["bits"], "row_kronecker: bits", ("|u1",), 2)
    _check_bits(bits, sizes)
    operator = RowKronecker(bits, sizes)
    if operator.is_enumerable:  # then its rows may be counted over every cell
        counting = operator.shape[1] * min(len(bits), 64) + int(operator.halves.work)
        reader.spend(counting, "row_kronecker")
    if data["groups"] is None:
        return operator
    groups = reader.array(data["groups"], "row_kronecker: groups", ("<i8",), 1)
    if len(groups) != len(bits):
        raise OperatorFileError("row_kronecker: groups: expected one number for each row.")
    check_disjoint(operator, groups, reader.spend)
    numbers = np.unique(groups, return_inverse=True)[1].ravel().astype(np.int64)
    return replace(operator, groups=numbers)


def write_product(operator: Product, writer: Writer) -> Node:
    """Write both factors."""
    return {"left": writer.operator(operator.left), "right": writer.operator(operator.right)}


def read_product(data: Node, reader: Reader) -> Product:
    """Read both factors; combined paths may be searched for their sensitivity over all cells."""
    product = Product(reader.operator(data["left"]), reader.operator(data["right"]))
    if isinstance(product.left, Dense) and isinstance(product.right, RowKronecker):
        seconds = search_seconds(product.right.all_masks())
        reader.spend(int(SEARCHED * seconds), "product")
    return product


def _check_bits(bits: NDArray[np.uint8], sizes: tuple[int, ...]) -> None:
    """Refuse masks of another length than the sizes say, or with bits set behind their end."""
    width = sum(sizes)
    if not len(bits) or bits.shape[1] != -(-width // 8):
        raise OperatorFileError(
            f"row_kronecker: bits of shape {bits.shape}: expected rows of {-(-width // 8)} bytes "
            f"for {width} codes."
        )
    if width % 8 and (bits[:, -1] & (255 >> width % 8)).any():
        raise OperatorFileError("row_kronecker: bits: expected none set behind the last code.")
