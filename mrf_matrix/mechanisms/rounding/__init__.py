"""Strategies in exact integers."""

from mrf_matrix.mechanisms.rounding.integer_form import integer_form
from mrf_matrix.mechanisms.rounding.rounding import RoundedStrategy, round_strategy

__all__ = [
    "RoundedStrategy",
    "integer_form",
    "round_strategy",
]
