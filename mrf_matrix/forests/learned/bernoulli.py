"""Bernoulli random forests (Wang, Xia, Tang, Wu and Zhu, 2018)."""

from dataclasses import dataclass

from mrf_matrix.forests.growth.growth import Growth, Stopping
from mrf_matrix.forests.growth.impurity import Impurity
from mrf_matrix.forests.growth.points import Partition
from mrf_matrix.forests.growth.split_rules import BernoulliAttributes, BernoulliCut
from mrf_matrix.forests.learned.grown_trees import GrownTrees


@dataclass(frozen=True)
class BernoulliTrees(GrownTrees):
    """Two coins a node: how many attributes it looks at, and whether its cut is random.

    With probability `p_attribute` a node looks at one random attribute, otherwise at the square
    root of their number; with probability `p_cut` its cut is drawn uniformly, otherwise it is the
    best one. Structure and estimation points; every leaf keeps `min_points` of the latter.

    Parameters
    ----------
    n_trees, criterion, min_points, max_depth, nominal
        See `GrownTrees`.
    p_attribute, p_cut : float, default=0.05
    partition_rate : float, default=1
        Structure points per estimation point.

    References
    ----------
    Wang et al.: A novel consistent random forest framework: Bernoulli random forests. IEEE
    Transactions on Neural Networks and Learning Systems 29 (2018).
    """

    p_attribute: float = 0.05
    p_cut: float = 0.05
    partition_rate: float = 1.0

    @property
    def growth(self) -> Growth:
        """How this forest grows."""
        return Growth(
            points=Partition(self.partition_rate),
            attributes=BernoulliAttributes(self.p_attribute),
            cut=BernoulliCut(self.p_cut),
            stopping=Stopping(self.min_points, "sides", self.max_depth),
            impurity=Impurity(self.criterion),
            source="Bernoulli trees",
        )
