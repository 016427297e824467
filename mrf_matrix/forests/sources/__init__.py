"""Public path sources."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.forests.sources.block_trees import BlockTrees as BlockTrees
    from mrf_matrix.forests.sources.from_paths import forest_from_paths as forest_from_paths
    from mrf_matrix.forests.sources.pure import PureTrees as PureTrees
    from mrf_matrix.forests.sources.random_trees import RandomTrees as RandomTrees
    from mrf_matrix.forests.sources.sklearn_import import from_sklearn as from_sklearn
    from mrf_matrix.forests.sources.source import PathSource as PathSource
    from mrf_matrix.forests.sources.source import RandomState as RandomState

__getattr__, __dir__, __all__ = front_door(__name__)
