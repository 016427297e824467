"""Trees whose nodes are cut by hyperplanes: no paths, no matrix, not private."""

from mrf_matrix.forests.oblique.oblique_forest import ObliqueForest
from mrf_matrix.forests.oblique.oblique_trees import ObliqueTrees

__all__ = ["ObliqueForest", "ObliqueTrees"]
