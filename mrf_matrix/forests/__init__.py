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
from mrf_matrix.forests.growth.grow import Grown
from mrf_matrix.forests.learned.bernoulli import BernoulliTrees
from mrf_matrix.forests.learned.breiman import BreimanTrees
from mrf_matrix.forests.learned.comparison_trees import ComparisonForest, ComparisonTrees
from mrf_matrix.forests.learned.denil import DenilTrees
from mrf_matrix.forests.learned.grown_trees import GrownTrees
from mrf_matrix.forests.learned.multinomial import MultinomialTrees
from mrf_matrix.forests.learned.private_multinomial import PrivateGrown, PrivateMultinomialTrees
from mrf_matrix.forests.learned.simplified_breiman import SimplifiedBreimanTrees
from mrf_matrix.forests.privacy import LearnedStructureError, check_structure_is_public
from mrf_matrix.forests.sources.block_trees import BlockTrees
from mrf_matrix.forests.sources.from_paths import forest_from_paths
from mrf_matrix.forests.sources.pure import PureTrees
from mrf_matrix.forests.sources.random_trees import RandomTrees
from mrf_matrix.forests.sources.sklearn_import import from_sklearn
from mrf_matrix.forests.sources.source import PathSource, RandomState
from mrf_matrix.forests.text import export_text
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
    "BernoulliTrees",
    "BlockTrees",
    "BreimanTrees",
    "ComparisonForest",
    "ComparisonTrees",
    "DenilTrees",
    "Forest",
    "ForestError",
    "Grown",
    "GrownTrees",
    "LearnedStructureError",
    "MultinomialTrees",
    "PathSource",
    "PrivateGrown",
    "PrivateMultinomialTrees",
    "PureTrees",
    "RandomState",
    "RandomTrees",
    "SimplifiedBreimanTrees",
    "best_leaves",
    "branch_pool",
    "check_structure_is_public",
    "concatenate",
    "decision_paths",
    "expected_diameter_bound",
    "expected_height",
    "export_text",
    "forest_from_levels",
    "forest_from_paths",
    "from_sklearn",
    "height_bounds",
    "height_probabilities",
    "height_tail_bounds",
    "height_variance",
    "impure_diameter",
    "leaf_masks",
    "multiway_pattern",
    "pure_forest_bound",
    "pure_leaves_bound",
    "simplified_forest_bound",
    "subset_patterns",
    "take_trees",
    "threshold_pattern",
]
