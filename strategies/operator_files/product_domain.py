"""Rules for structures over a product domain: paths and marginals."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from strategies.operator_files.disjoint import check_disjoint
from strategies.operator_files.reader import Node, OperatorFileError, Reader
from strategies.operator_files.rule import Rule
from strategies.operator_files.writer import Writer
from strategies.operators import Marginals, ResidualMarginals, RowKronecker

MAX_SET_MEMBERS = 2**20


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


def write_marginals(operator: Marginals | ResidualMarginals, writer: Writer) -> Node:
    """Write attribute sets and weights; whole weights stay whole."""
    return {
        "sizes": list(operator.domain_sizes),
        "attribute_sets": [list(chosen) for chosen in operator.attribute_sets],
        "weights": list(operator.weights),
    }


def read_marginals(data: Node, reader: Reader) -> Marginals:
    """Read weighted marginals, which the structure checks."""
    return Marginals(*_weighted_sets(data, reader))


def read_residual_marginals(data: Node, reader: Reader) -> ResidualMarginals:
    """Read weighted residual marginals, which the structure checks."""
    return ResidualMarginals(*_weighted_sets(data, reader))


def _weighted_sets(
    data: Node, reader: Reader
) -> tuple[tuple[int, ...], list[list[int]], list[float]]:
    """Return sizes, attribute sets and weights."""
    sizes = reader.sizes(data["sizes"], "marginals: sizes")
    sets = [_attributes(item, reader) for item in reader.items(data["attribute_sets"], "marginals")]
    if list(accumulate(map(len, sets)))[-1] > MAX_SET_MEMBERS:
        raise OperatorFileError(f"marginals: more than {MAX_SET_MEMBERS} members of sets.")
    weights = [reader.number(item, "marginals") for item in reader.items(data["weights"], "w")]
    return sizes, sets, weights


def _attributes(data: object, reader: Reader) -> list[int]:
    if not isinstance(data, list):
        raise OperatorFileError("marginals: expected lists of attribute numbers.")
    return [reader.integer(item, "marginals") for item in data]


PRODUCT_DOMAIN = (
    Rule(
        "row_kronecker",
        RowKronecker,
        write_row_kronecker,
        read_row_kronecker,
        ("bits", "sizes", "groups"),
    ),
    Rule(
        "marginals",
        Marginals,
        write_marginals,
        read_marginals,
        ("sizes", "attribute_sets", "weights"),
    ),
    Rule(
        "residual_marginals",
        ResidualMarginals,
        write_marginals,
        read_residual_marginals,
        ("sizes", "attribute_sets", "weights"),
    ),
)
