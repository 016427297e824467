"""``W @ A.T`` of two structures, without n where the structures allow."""

from functools import singledispatch

from strategies.operators.base.arrays import Array
from strategies.operators.base.explicit_forms import densified
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Operator


def cross_gram(left: Operator, right: Operator) -> Array:
    """Return ``left @ right.T`` (q x m), by structure where either side has one.

    Raises
    ------
    MemoryCapError
        If no rule applies and an explicit form exceeds the memory cap.
    """
    check_allocation("cross gram", (left.shape[0], right.shape[0]))
    rule = rows_product(left, right)
    if rule is not None:
        return rule
    rule = rows_product(right, left)
    if rule is not None:
        return rule.T
    return densified(left.compact() @ right.compact().T)


@singledispatch
def rows_product(outer: Operator, other: Operator) -> Array | None:
    """Return ``outer @ other.T`` by a rule of the outer structure, None where it has none.

    A structure that only combines the rows of another, or that is made of products, registers
    its rule beside its class.
    """
    return None
