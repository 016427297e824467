"""Bounds, heights and diameters of random trees."""

from mrf_matrix.forests.theory.bounds import (
    best_leaves,
    pure_forest_bound,
    pure_leaves_bound,
    simplified_forest_bound,
)
from mrf_matrix.forests.theory.diameters import expected_diameter_bound, impure_diameter
from mrf_matrix.forests.theory.heights import (
    expected_height,
    height_bounds,
    height_probabilities,
    height_tail_bounds,
    height_variance,
)

__all__ = [
    "best_leaves",
    "expected_diameter_bound",
    "expected_height",
    "height_bounds",
    "height_probabilities",
    "height_tail_bounds",
    "height_variance",
    "impure_diameter",
    "pure_forest_bound",
    "pure_leaves_bound",
    "simplified_forest_bound",
]
