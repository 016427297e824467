"""Forests over a public domain: parallel arrays, and the sources that grow them."""

from mrf_matrix.forests.assembly import forest_from_levels
from mrf_matrix.forests.boxes import decision_paths, leaf_masks
from mrf_matrix.forests.branches import (
    branch_pool,
    multiway_pattern,
    subset_patterns,
    threshold_pattern,
)
from mrf_matrix.forests.checks import ForestError
from mrf_matrix.forests.combine import concatenate, take_trees
from mrf_matrix.forests.forest import Forest
from mrf_matrix.forests.from_paths import forest_from_paths
from mrf_matrix.forests.random_trees import RandomTrees
from mrf_matrix.forests.source import PathSource, RandomState
from mrf_matrix.forests.text import export_text

__all__ = [
    "Forest",
    "ForestError",
    "PathSource",
    "RandomState",
    "RandomTrees",
    "branch_pool",
    "concatenate",
    "decision_paths",
    "export_text",
    "forest_from_levels",
    "forest_from_paths",
    "leaf_masks",
    "multiway_pattern",
    "subset_patterns",
    "take_trees",
    "threshold_pattern",
]
