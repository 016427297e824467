"""Rules for structures made of other structures."""

from strategies.operator_files.explicit import REAL
from strategies.operator_files.reader import Node, Reader
from strategies.operator_files.rule import Rule
from strategies.operator_files.writer import Writer
from strategies.operators import (
    JointTables,
    Kronecker,
    Partition,
    Product,
    RowScaled,
    Scaled,
    Stack,
    Transposed,
)


def write_scaled(operator: Scaled, writer: Writer) -> Node:
    """Write weight and structure; a whole weight stays whole."""
    return {"weight": operator.weight, "inner": writer.operator(operator.inner)}


def read_scaled(data: Node, reader: Reader) -> Scaled:
    """Read a finite weight and a structure."""
    weight = reader.number(data["weight"], "scaled: weight")
    return Scaled(weight, reader.operator(data["inner"]))


def write_row_scaled(operator: RowScaled, writer: Writer) -> Node:
    """Write one weight a row, and the structure."""
    return {"weights": writer.array(operator.weights), "inner": writer.operator(operator.inner)}


def read_row_scaled(data: Node, reader: Reader) -> RowScaled:
    """Read one finite weight a row, and the structure."""
    weights = reader.array(data["weights"], "row_scaled: weights", REAL, 1)
    return RowScaled(weights, reader.operator(data["inner"]))


def write_stack(operator: Stack, writer: Writer) -> Node:
    """Write the blocks in order."""
    return {"blocks": [writer.operator(block) for block in operator.blocks]}


def read_stack(data: Node, reader: Reader) -> Stack:
    """Read the blocks in order."""
    return Stack(reader.operators(data["blocks"]))


def read_partition(data: Node, reader: Reader) -> Partition:
    """Read the blocks in order, each of which answers a part by itself."""
    return Partition(reader.operators(data["blocks"]))


def read_joint_tables(data: Node, reader: Reader) -> JointTables:
    """Read tables of several kinds, which the structure checks."""
    return JointTables(reader.operators(data["blocks"]))


def write_kronecker(operator: Kronecker, writer: Writer) -> Node:
    """Write the factors in order."""
    return {"factors": [writer.operator(factor) for factor in operator.factors]}


def read_kronecker(data: Node, reader: Reader) -> Kronecker:
    """Read the factors in order."""
    return Kronecker(reader.operators(data["factors"]))


def write_product(operator: Product, writer: Writer) -> Node:
    """Write both factors, never multiplied out."""
    return {"left": writer.operator(operator.left), "right": writer.operator(operator.right)}


def read_product(data: Node, reader: Reader) -> Product:
    """Read both factors."""
    return Product(reader.operator(data["left"]), reader.operator(data["right"]))


def write_transposed(operator: Transposed, writer: Writer) -> Node:
    """Write what is transposed."""
    return {"inner": writer.operator(operator.inner)}


def read_transposed(data: Node, reader: Reader) -> Transposed:
    """Read what is transposed."""
    return Transposed(reader.operator(data["inner"]))


COMPOSED = (
    Rule("scaled", Scaled, write_scaled, read_scaled, ("weight", "inner")),
    Rule("row_scaled", RowScaled, write_row_scaled, read_row_scaled, ("weights", "inner")),
    Rule("stack", Stack, write_stack, read_stack, ("blocks",)),
    Rule("partition", Partition, write_stack, read_partition, ("blocks",)),
    Rule("joint_tables", JointTables, write_stack, read_joint_tables, ("blocks",)),
    Rule("kronecker", Kronecker, write_kronecker, read_kronecker, ("factors",)),
    Rule("product", Product, write_product, read_product, ("left", "right")),
    Rule("transposed", Transposed, write_transposed, read_transposed, ("inner",)),
)
