"""How a forest is grown from records: a composition of small rules."""

from dataclasses import dataclass, field
from typing import Literal

from mrf_matrix.base.checks import check_integer
from mrf_matrix.forests.growth.impurity import Impurity
from mrf_matrix.forests.growth.points import Partition, Points
from mrf_matrix.forests.growth.split_rules import GREEDY, AllAttributes, AttributeRule, CutRule

Rule = Literal["node", "sides"]


@dataclass(frozen=True)
class Stopping:
    """When a node is not split."""

    # smallest number k of estimation points (of all points, where they are not separate)
    min_points: int = 5
    # "node": a node with at most k points is a leaf (line 3 of Algorithm 1), whatever its children
    # would hold. "sides": cuts that leave fewer than k points on a side are none.
    rule: Rule = "node"
    max_depth: int | None = None  # splits on a path; None for no limit
    split_pure: bool = False  # go on splitting nodes whose structure points are of one class

    def __post_init__(self) -> None:
        check_integer("min_points", self.min_points, 0)
        if self.max_depth is not None:
            check_integer("max_depth", self.max_depth, 0)
        if self.rule not in ("node", "sides"):
            raise ValueError(f"rule={self.rule!r}: expected 'node' or 'sides'.")


@dataclass(frozen=True)
class Growth:
    """The rules of one kind of forest."""

    # structure and estimation points of each tree
    points: Points = field(default_factory=Partition)
    attributes: AttributeRule = field(default_factory=AllAttributes)  # what a node looks at
    cut: CutRule = GREEDY  # how it picks
    stopping: Stopping = field(default_factory=Stopping)
    impurity: Impurity = field(default_factory=Impurity)
    # only cuts within the range of so many structure points, drawn at each node
    range_points: int | None = None
    source: str = "grown trees"  # the forest's name, in words

    def __post_init__(self) -> None:
        if self.range_points is not None:
            check_integer("range_points", self.range_points, 2)

    @property
    def counts_estimation_on_sides(self) -> bool:
        """Whether cuts need the estimation points on either side."""
        return self.points.separate and self.stopping.rule == "sides"
