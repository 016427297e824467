"""Breiman's random forest, which federated forests grow."""

from dataclasses import dataclass
from typing import Literal

from mrf_matrix.forests.growth.growth import Growth, Stopping
from mrf_matrix.forests.growth.impurity import Impurity
from mrf_matrix.forests.growth.points import Bootstrap
from mrf_matrix.forests.growth.split_rules import (
    GREEDY,
    RandomAttributes,
)
from mrf_matrix.forests.learned.grown_trees import GrownTrees


@dataclass(frozen=True)
class BreimanTrees(GrownTrees):
    """Random forest: bootstrap samples, the best cut among a few random attributes.

    Parameters
    ----------
    n_trees, criterion, min_points, max_depth, nominal
        See `GrownTrees`. Cuts keep `min_points` points on either side.
    max_features : int or "sqrt", default="sqrt"
        Attributes that a node looks at. Where none of them can be cut, more are drawn until one
        can.

    References
    ----------
    Breiman: Random forests. Machine Learning 45 (2001).
    """

    max_features: int | Literal["sqrt"] = "sqrt"

    @property
    def growth(self) -> Growth:
        """How this forest grows."""
        return Growth(
            points=Bootstrap(),
            attributes=RandomAttributes(self.max_features),
            cut=GREEDY,
            stopping=Stopping(self.min_points, "sides", self.max_depth),
            impurity=Impurity(self.criterion),
            source="Breiman trees",
        )
