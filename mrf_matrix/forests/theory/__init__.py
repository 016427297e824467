"""Bounds, heights and diameters of random trees."""

from mrf_matrix.forests.theory.cells import (
    attribute_probability_bounds,
    cell_error_bound,
    central_cut_probability,
    expected_side_bound,
)
from mrf_matrix.forests.theory.diameters import (
    diameter_tail_bound,
    expected_diameter_bound,
    impure_diameter,
)
from mrf_matrix.forests.theory.finite_sample import (
    best_leaves,
    pure_forest_bound,
    pure_leaves_bound,
    simplified_forest_bound,
)
from mrf_matrix.forests.theory.heights import (
    biau_height_rate,
    expected_height,
    height_bounds,
    height_probabilities,
    height_tail_bounds,
    height_variance,
)

__all__ = [
    "attribute_probability_bounds",
    "best_leaves",
    "biau_height_rate",
    "cell_error_bound",
    "central_cut_probability",
    "diameter_tail_bound",
    "expected_diameter_bound",
    "expected_height",
    "expected_side_bound",
    "height_bounds",
    "height_probabilities",
    "height_tail_bounds",
    "height_variance",
    "impure_diameter",
    "pure_forest_bound",
    "pure_leaves_bound",
    "simplified_forest_bound",
]
