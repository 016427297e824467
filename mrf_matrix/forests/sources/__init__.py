"""Public path sources."""

from mrf_matrix.forests.sources.block_trees import BlockTrees
from mrf_matrix.forests.sources.from_paths import forest_from_paths
from mrf_matrix.forests.sources.pure import PureTrees
from mrf_matrix.forests.sources.random_trees import RandomTrees
from mrf_matrix.forests.sources.sklearn_import import from_sklearn
from mrf_matrix.forests.sources.source import PathSource, RandomState

__all__ = [
    "BlockTrees",
    "PathSource",
    "PureTrees",
    "RandomState",
    "RandomTrees",
    "forest_from_paths",
    "from_sklearn",
]
