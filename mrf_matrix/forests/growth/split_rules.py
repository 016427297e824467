"""The rules that forests differ in: which attributes a node looks at, and how it picks a cut."""

from dataclasses import dataclass
from math import sqrt
from typing import Literal, Protocol

import numpy as np

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.forests.growth.parameters import check_sharpness


class AttributeRule(Protocol):
    """Which attributes each node looks at."""

    def draw(self, n_nodes: int, n_attributes: int, generator: np.random.Generator) -> Longs | None:
        """Return attributes of shape (p, n_nodes), -1 for none; None when all are looked at."""
        ...


class CutRule(Protocol):
    """How a node picks among what it looks at."""

    def sharpness(self, n_nodes: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Return (B₁, B₂) of each node, from 0 (uniform) to infinity (the best)."""
        ...


@dataclass(frozen=True)
class AllAttributes:
    """Every node looks at every attribute."""

    def draw(self, n_nodes: int, n_attributes: int, generator: np.random.Generator) -> Longs | None:
        """Return None."""
        return None


@dataclass(frozen=True)
class RandomAttributes:
    """Every node looks at a fixed number of attributes, drawn without replacement."""

    # how many; "sqrt" is the rounded-down square root of their number
    count: int | Literal["sqrt"] = "sqrt"

    def draw(self, n_nodes: int, n_attributes: int, generator: np.random.Generator) -> Longs | None:
        """Return a random subset for each node."""
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
        """Return the same pair for every node."""
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
    """Return how many attributes a node looks at."""
    size = int(sqrt(n_attributes)) if count == "sqrt" else int(count)
    return max(1, min(size, n_attributes))
