"""Exact budgets, their conversion, and neighbouring relations."""

from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP, as_budget
from mrf_matrix.mechanisms.budgets.exact_number import BudgetError
from mrf_matrix.mechanisms.budgets.neighboring import (
    NEIGHBORING,
    neighboring_factor,
    squared_factor,
)
from mrf_matrix.mechanisms.budgets.shares import budget_shares

__all__ = [
    "NEIGHBORING",
    "ZCDP",
    "BudgetError",
    "PureDP",
    "as_budget",
    "budget_shares",
    "neighboring_factor",
    "squared_factor",
]
