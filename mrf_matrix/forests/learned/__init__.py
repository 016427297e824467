"""Forests whose structure is learnt from records."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.forests.learned.bernoulli import BernoulliTrees as BernoulliTrees
    from mrf_matrix.forests.learned.breiman import BreimanTrees as BreimanTrees
    from mrf_matrix.forests.learned.comparison_trees import ComparisonForest as ComparisonForest
    from mrf_matrix.forests.learned.comparison_trees import ComparisonTrees as ComparisonTrees
    from mrf_matrix.forests.learned.denil import DenilTrees as DenilTrees
    from mrf_matrix.forests.learned.grown_trees import GrownTrees as GrownTrees
    from mrf_matrix.forests.learned.multinomial import MultinomialTrees as MultinomialTrees
    from mrf_matrix.forests.learned.private_multinomial import PrivateGrown as PrivateGrown
    from mrf_matrix.forests.learned.private_multinomial import (
        PrivateMultinomialTrees as PrivateMultinomialTrees,
    )
    from mrf_matrix.forests.learned.simplified_breiman import (
        SimplifiedBreimanTrees as SimplifiedBreimanTrees,
    )

__getattr__, __dir__, __all__ = front_door(__name__)
