"""What every structure stands on: the operator itself, memory, exact integers, factorisations."""

from strategies.operators.base.cross_gram import cross_gram
from strategies.operators.base.memory import (
    MemoryCapError,
    check_allocation,
    current_cap,
    fits,
    memory_cap,
    readable_bytes,
)
from strategies.operators.base.operator import Array, Norm, Operator
from strategies.operators.base.pseudo_inverse import RowSpaceError
from strategies.operators.base.recovery import error_trace, estimate, row_errors

__all__ = [
    "Array",
    "MemoryCapError",
    "Norm",
    "Operator",
    "RowSpaceError",
    "check_allocation",
    "cross_gram",
    "current_cap",
    "error_trace",
    "estimate",
    "fits",
    "memory_cap",
    "readable_bytes",
    "row_errors",
]
