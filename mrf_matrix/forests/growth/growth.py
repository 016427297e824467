"""The rules by which a forest grows from records, and impurities of nodes.

Gini and entropy are written with a function f of one class count, so that moving one record from
right to left changes two terms only, whatever the number of classes. With c the class counts of a
node of n records and ``F = sum_c f(c)``, ::

    gini      f(c) = c²         purity n (1 - T) = F / n
    entropy   f(c) = c ln c     purity    -n T   = F - n ln n

so that the impurity decrease of a split (equation 4 of Bai et al. 2021) is ::

    I = (purity(left) + purity(right) - purity(node)) / n
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isnan, sqrt
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.checks import check_integer, one_word, short_repr


def check_sharpness(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name}={short_repr(value)}: expected a number from 0 to float('inf').")
    if isnan(value) or value < 0:
        raise ValueError(f"{name}={value}: expected a number from 0 to float('inf').")
    return float(value)


def check_probability(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name}={short_repr(value)}: expected a probability from 0 to 1.")


Criterion = Literal["gini", "entropy"]

CRITERIA: tuple[str, ...] = get_args(Criterion)


@dataclass(frozen=True)
class Impurity:
    """Gini index or Shannon entropy (in nats).

    Raises ValueError if the criterion is unknown.

    >>> float(Impurity("gini").values(np.array([2, 2])))
    0.5
    """

    criterion: Criterion = "gini"

    def __post_init__(self) -> None:
        one_word("criterion", self.criterion, CRITERIA)

    def terms(self, counts: NDArray[Any]) -> Array:
        given = np.asarray(counts, dtype=np.float64)
        return given * given if self.criterion == "gini" else _x_log_x(given)

    def sums(self, left: Array, total: Array) -> tuple[Array, Array]:
        """Return ``sum f`` over axis 1 on the left and on the right of cuts.

        `left` (cuts, k, nodes); `total` (k, nodes).
        """
        if self.criterion != "gini":
            return self.terms(left).sum(axis=1), self.terms(total - left).sum(axis=1)
        squares = np.einsum("ikn,ikn->in", left, left)
        mixed = np.einsum("ikn,kn->in", left, total)
        return squares, squares - 2 * mixed + np.einsum("kn,kn->n", total, total)

    def purity(self, total: NDArray[Any], n: NDArray[Any]) -> Array:
        """Return ``F / n`` or ``F - n ln n`` of nodes with ``sum f = total``; 0 where n is 0."""
        if self.criterion == "gini":
            return np.asarray(total / np.maximum(n, 1))
        return np.asarray(total - _x_log_x(np.asarray(n, dtype=np.float64)))

    def values(self, counts: NDArray[Any]) -> Array:
        """Return the impurity T of nodes with these class counts (..., k); 0 for an empty node."""
        counts = np.asarray(counts)
        n = counts.sum(axis=-1)
        purity = self.purity(self.terms(counts).sum(axis=-1), n) / np.maximum(n, 1)
        return np.asarray(np.where(n > 0, 1.0 - purity if self.criterion == "gini" else -purity, 0))

    def decrease(self, left: NDArray[Any], right: NDArray[Any]) -> Array:
        """Return equation 4 from class counts (..., k) of both sides; 0 for an empty node."""
        left, right = np.asarray(left), np.asarray(right)
        both = left + right
        n = both.sum(axis=-1)
        gain = sum(
            sign * self.purity(self.terms(side).sum(axis=-1), side.sum(axis=-1))
            for sign, side in ((1.0, left), (1.0, right), (-1.0, both))
        )
        return np.asarray(gain / np.maximum(n, 1))


def _x_log_x(x: Array) -> Array:
    return np.asarray(x * np.log(np.maximum(x, 1.0)))


Drawn = tuple[tuple[Longs, Longs], tuple[Longs, Longs]]
"""(tree, record) of the structure points, and of the estimation points; sorted by both."""


class Points(Protocol):
    """A rule that draws the records of each tree."""

    @property
    def separate(self) -> bool:
        """Whether structure and estimation points are disjoint."""
        ...

    def draw(self, n_records: int, n_trees: int, generator: np.random.Generator) -> Drawn: ...


@dataclass(frozen=True)
class Partition:
    """Structure or estimation point, by an independent coin for every record and tree."""

    # expected number of structure points per estimation point (the paper's partition rate)
    rate: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float):
            raise TypeError(f"partition_rate={short_repr(self.rate)}: expected a positive number.")
        if not 0 < self.rate < float("inf"):
            raise ValueError(f"partition_rate={self.rate}: expected a positive number.")

    @property
    def separate(self) -> bool:
        return True

    @property
    def share(self) -> float:
        return self.rate / (1 + self.rate)

    def draw(self, n_records: int, n_trees: int, generator: np.random.Generator) -> Drawn:
        """Throw the coins; memory 9 bytes a record and tree."""
        structure = generator.random((n_trees, n_records), dtype=np.float32) < self.share
        return np.nonzero(structure), np.nonzero(~structure)  # type: ignore[return-value]


@dataclass(frozen=True)
class Bootstrap:
    """As many draws with replacement as there are records, for both purposes (Breiman, 2001)."""

    @property
    def separate(self) -> bool:
        return False

    def draw(self, n_records: int, n_trees: int, generator: np.random.Generator) -> Drawn:
        """Draw and sort; memory 8 bytes a record and tree."""
        drawn = np.sort(generator.integers(n_records, size=(n_trees, n_records)), axis=1)
        points = np.repeat(np.arange(n_trees), n_records), drawn.ravel()
        return points, points


@dataclass(frozen=True)
class AllRecords:
    """Every record, for both purposes."""

    @property
    def separate(self) -> bool:
        return False

    def draw(self, n_records: int, n_trees: int, generator: np.random.Generator) -> Drawn:
        points = (np.repeat(np.arange(n_trees), n_records), np.tile(np.arange(n_records), n_trees))
        return points, points


class AttributeRule(Protocol):
    """A rule for the attributes that each node looks at."""

    def draw(self, n_nodes: int, n_attributes: int, generator: np.random.Generator) -> Longs | None:
        """Return attributes of shape (p, n_nodes), -1 for none; None when all are looked at."""
        ...


class CutRule(Protocol):
    """A rule for how sharply a node picks attributes and cuts."""

    def sharpness(self, n_nodes: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Return (B₁, B₂) of each node, from 0 (uniform) to infinity (the best)."""
        ...


@dataclass(frozen=True)
class AllAttributes:
    """Every node looks at every attribute."""

    def draw(self, n_nodes: int, n_attributes: int, generator: np.random.Generator) -> Longs | None:
        return None


@dataclass(frozen=True)
class RandomAttributes:
    """Every node looks at a fixed number of attributes, drawn without replacement."""

    # how many; "sqrt" is the rounded-down square root of their number
    count: int | Literal["sqrt"] = "sqrt"

    def draw(self, n_nodes: int, n_attributes: int, generator: np.random.Generator) -> Longs | None:
        count = subset_size(self.count, n_attributes)
        return random_subsets(np.full(n_nodes, count), n_attributes, generator)


@dataclass(frozen=True)
class Softmax:
    """softmax(B₁ Î/2) over attributes, then softmax(B₂ Î⁽ʲ⁾/2) over cuts (Bai et al., 2021)."""

    # b1, b2: from 0 (uniform) to infinity (the best one, ties at random)
    b1: float = 10.0
    b2: float = 10.0

    def __post_init__(self) -> None:
        check_sharpness("b1", self.b1)
        check_sharpness("b2", self.b2)

    def sharpness(self, n_nodes: int, generator: np.random.Generator) -> tuple[Array, Array]:
        return np.full(n_nodes, float(self.b1)), np.full(n_nodes, float(self.b2))


GREEDY = Softmax(float("inf"), float("inf"))  # the best cut of all; ties at random


def random_subsets(count: Longs, n_attributes: int, generator: np.random.Generator) -> Longs:
    """Return for each node its number of distinct attributes, in random order, -1 below.

    The largest array is (nodes, attributes) of doubles.
    """
    most = int(count.max(initial=1))
    keys = generator.random((len(count), n_attributes))
    order = np.argsort(keys, axis=1)[:, :most].T.astype(np.int64)
    order[np.arange(most)[:, None] >= count] = -1
    return order


def subset_size(count: int | Literal["sqrt"], n_attributes: int) -> int:
    size = int(sqrt(n_attributes)) if count == "sqrt" else int(count)
    return max(1, min(size, n_attributes))


Rule = Literal["node", "sides"]


@dataclass(frozen=True)
class Stopping:
    """A rule for nodes that are not split."""

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
        one_word("rule", self.rule, ("node", "sides"))


@dataclass(frozen=True)
class Growth:
    """The rules of one kind of forest."""

    # structure and estimation points of each tree
    points: Points = field(default_factory=Partition)
    attributes: AttributeRule = field(default_factory=AllAttributes)  # what a node looks at
    cut: CutRule = GREEDY  # how it picks
    stopping: Stopping = field(default_factory=Stopping)
    impurity: Impurity = field(default_factory=Impurity)
    # from a `Search` for cuts and a generator, a search among fewer of them
    narrow: Callable[[Any, np.random.Generator], Any] | None = None
    source: str = "grown trees"  # the forest's name, in words

    @property
    def counts_estimation_on_sides(self) -> bool:
        """Whether cuts need the estimation points on either side."""
        return self.points.separate and self.stopping.rule == "sides"
