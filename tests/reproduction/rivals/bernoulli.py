"""Bernoulli random forests (Wang, Xia, Tang, Wu and Zhu, 2018)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.forests.grown_trees import GrownTrees
from mrf_matrix.forests.growth.growth import (
    Growth,
    Impurity,
    Partition,
    Stopping,
    check_probability,
    random_subsets,
    subset_size,
)


@dataclass(frozen=True)
class BernoulliAttributes:
    """One random attribute with probability p, otherwise `count` of them (Wang et al., 2017)."""

    probability: float = 0.05
    count: int | Literal["sqrt"] = "sqrt"

    def __post_init__(self) -> None:
        check_probability("probability", self.probability)

    def draw(self, n_nodes: int, n_attributes: int, generator: np.random.Generator) -> Longs | None:
        """Return a random subset for each node."""
        few = generator.random(n_nodes) < self.probability
        count = np.where(few, 1, subset_size(self.count, n_attributes))
        return random_subsets(count, n_attributes, generator)


@dataclass(frozen=True)
class BernoulliCut:
    """A random cut with probability p, otherwise the best one (Wang et al., 2017)."""

    probability: float = 0.05

    def __post_init__(self) -> None:
        check_probability("probability", self.probability)

    def sharpness(self, n_nodes: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Return 0 or infinity for each node, by its own coin."""
        b = np.where(generator.random(n_nodes) < self.probability, 0.0, np.inf)
        return b, b


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
