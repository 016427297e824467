"""Rows of masks in files: the packed bits, and groups that are checked anew."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from strategies.operator_files.disjoint import check_disjoint
from strategies.operator_files.reader import Node, OperatorFileError, Reader
from strategies.operator_files.writer import Writer
from strategies.operators import Dense, Product, RowKronecker
from strategies.operators.masks.heaviest_cell import search_seconds

SEARCHED = 2**32  # operations for each second of a search over all cells


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
