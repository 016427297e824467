"""Forests whose structure is learnt from records."""

from mrf_matrix.forests.learned.bernoulli import BernoulliTrees
from mrf_matrix.forests.learned.breiman import BreimanTrees
from mrf_matrix.forests.learned.comparison_trees import ComparisonForest, ComparisonTrees
from mrf_matrix.forests.learned.denil import DenilTrees
from mrf_matrix.forests.learned.grown_trees import GrownTrees
from mrf_matrix.forests.learned.multinomial import MultinomialTrees
from mrf_matrix.forests.learned.private_multinomial import PrivateGrown, PrivateMultinomialTrees
from mrf_matrix.forests.learned.simplified_breiman import SimplifiedBreimanTrees

__all__ = [
    "BernoulliTrees",
    "BreimanTrees",
    "ComparisonForest",
    "ComparisonTrees",
    "DenilTrees",
    "GrownTrees",
    "MultinomialTrees",
    "PrivateGrown",
    "PrivateMultinomialTrees",
    "SimplifiedBreimanTrees",
]
