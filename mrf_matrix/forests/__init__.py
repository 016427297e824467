"""Forests over a public domain: parallel arrays, and the sources that grow them."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.forests.assembly import concatenate as concatenate
    from mrf_matrix.forests.assembly import subset_patterns as subset_patterns
    from mrf_matrix.forests.assembly import take_trees as take_trees
    from mrf_matrix.forests.cell_laws import (
        attribute_probability_bounds as attribute_probability_bounds,
    )
    from mrf_matrix.forests.cell_laws import biau_height_rate as biau_height_rate
    from mrf_matrix.forests.cell_laws import central_cut_probability as central_cut_probability
    from mrf_matrix.forests.cell_laws import expected_height as expected_height
    from mrf_matrix.forests.cell_laws import expected_side_bound as expected_side_bound
    from mrf_matrix.forests.cell_laws import height_bounds as height_bounds
    from mrf_matrix.forests.cell_laws import height_probabilities as height_probabilities
    from mrf_matrix.forests.cell_laws import height_tail_bounds as height_tail_bounds
    from mrf_matrix.forests.cell_laws import height_variance as height_variance
    from mrf_matrix.forests.conversion import forest_from_paths as forest_from_paths
    from mrf_matrix.forests.conversion import from_sklearn as from_sklearn
    from mrf_matrix.forests.ensembles import BlockTrees as BlockTrees
    from mrf_matrix.forests.error_bounds import best_leaves as best_leaves
    from mrf_matrix.forests.error_bounds import cell_error_bound as cell_error_bound
    from mrf_matrix.forests.error_bounds import diameter_tail_bound as diameter_tail_bound
    from mrf_matrix.forests.error_bounds import expected_diameter_bound as expected_diameter_bound
    from mrf_matrix.forests.error_bounds import impure_diameter as impure_diameter
    from mrf_matrix.forests.error_bounds import pure_forest_bound as pure_forest_bound
    from mrf_matrix.forests.error_bounds import pure_leaves_bound as pure_leaves_bound
    from mrf_matrix.forests.error_bounds import simplified_forest_bound as simplified_forest_bound
    from mrf_matrix.forests.export import decision_paths as decision_paths
    from mrf_matrix.forests.export import export_text as export_text
    from mrf_matrix.forests.forest import Forest as Forest
    from mrf_matrix.forests.forest import LearnedStructureError as LearnedStructureError
    from mrf_matrix.forests.forest import PathSource as PathSource
    from mrf_matrix.forests.forest import RandomState as RandomState
    from mrf_matrix.forests.forest import forest_from_levels as forest_from_levels
    from mrf_matrix.forests.grown_trees import BreimanTrees as BreimanTrees
    from mrf_matrix.forests.grown_trees import GrownTrees as GrownTrees
    from mrf_matrix.forests.grown_trees import MultinomialTrees as MultinomialTrees
    from mrf_matrix.forests.grown_trees import (
        SimplifiedBreimanTrees as SimplifiedBreimanTrees,
    )
    from mrf_matrix.forests.growth.grow import Grown as Grown
    from mrf_matrix.forests.nodes import ForestError as ForestError
    from mrf_matrix.forests.nodes import branch_pool as branch_pool
    from mrf_matrix.forests.nodes import leaf_masks as leaf_masks
    from mrf_matrix.forests.nodes import multiway_pattern as multiway_pattern
    from mrf_matrix.forests.nodes import threshold_pattern as threshold_pattern
    from mrf_matrix.forests.private_multinomial import PrivateGrown as PrivateGrown
    from mrf_matrix.forests.private_multinomial import (
        PrivateMultinomialTrees as PrivateMultinomialTrees,
    )
    from mrf_matrix.forests.pure_trees import PureTrees as PureTrees
    from mrf_matrix.forests.random_trees import RandomTrees as RandomTrees
    from mrf_matrix.forests.random_trees import (
        check_structure_is_public as check_structure_is_public,
    )

__getattr__, __dir__, __all__ = front_door(__name__)
