"""Exact budgets, their conversion, and neighbouring relations."""

from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP, as_budget
from mrf_matrix.mechanisms.budgets.exact_number import BudgetError
from mrf_matrix.mechanisms.budgets.neighboring import (
    NEIGHBORING,
    neighboring_factor,
    squared_factor,
)

__all__ = [
    "NEIGHBORING",
    "ZCDP",
    "BudgetError",
    "PureDP",
    "as_budget",
    "neighboring_factor",
    "squared_factor",
]
