"""Choosing a forest after the measurement, at no cost."""

from mrf_matrix.choosing.choose_forest import choose_forest
from mrf_matrix.choosing.forest_choice import ForestChoice

__all__ = [
    "ForestChoice",
    "choose_forest",
]
