"""A problem with a known answer: uniform records in a square, and an η that is Lipschitz.

η(x) = (1 + cos πx₁ cos πx₂) / 2 has L = π/2 and the Bayes error 1/2 - 2/π². The classes lie like
the colours of a 2 × 2 chessboard: neither attribute alone says anything.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from mrf_matrix import Attribute, Domain
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.forests import (
    Forest,
    MultinomialTrees,
    PureTrees,
    SimplifiedBreimanTrees,
    best_leaves,
    pure_forest_bound,
    simplified_forest_bound,
)

D, LIPSCHITZ, BINS = 2, math.pi / 2, 1024
NOT_PRIVATE = "Not private: rates of the trees, without noise."
PURE, MIDPOINT, SIMPLE = "pure, uniform", "pure, midpoint", "simplified Breiman"
MULTINOMIAL = "multinomial"
BOUNDS: dict[str, Callable[[int, int, str], float]] = {
    PURE: lambda n, k, form: pure_forest_bound(n, k, D, LIPSCHITZ, form=form),
    MIDPOINT: lambda n, k, form: pure_forest_bound(
        n, k, D, LIPSCHITZ, splits="midpoint", form=form
    ),
    SIMPLE: lambda n, k, form: simplified_forest_bound(n, k, D, LIPSCHITZ, form=form),
}


@cache
def domain() -> Domain:
    """Return 1024 × 1024 cells of the square."""
    edges = np.linspace(0, 1, BINS + 1)
    attributes = [Attribute("x1", edges=edges), Attribute("x2", edges=edges)]
    return Domain(attributes, target=Attribute("y", size=2))


def eta(x: np.ndarray) -> np.ndarray:
    """Return the probability of class 1."""
    return (1 + np.cos(np.pi * x[:, 0]) * np.cos(np.pi * x[:, 1])) / 2


def sample(n: int, seed: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and classes of n records."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, D))
    return domain().encode(x), (rng.random(n) < eta(x)).astype(np.int32)


@cache
def grid() -> tuple[np.ndarray, np.ndarray]:
    """Return the cells where errors are summed, and η there."""
    axis = np.arange(4, BINS, 8)
    cells = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2).astype(np.int32)
    return cells, eta((cells + 0.5) / BINS)


def tree_votes(forest: Forest, counts: np.ndarray) -> np.ndarray:
    """Return each tree's vote at each cell of the grid: 1, -1, or 0 for a tie or no record."""
    return np.sign(counts[:, 1] - counts[:, 0])[forest.apply(grid()[0])]


def excess(lead: np.ndarray) -> np.ndarray:
    """Return R - R* of deciders by the sign of their lead: |2η - 1| wherever it is wrong."""
    truth = grid()[1]
    wrong = np.where(lead == 0, 0.5, (lead > 0) != (truth > 0.5)[:, None])
    return (np.abs(2 * truth - 1)[:, None] * wrong).mean(axis=0)


@cache
def least_bound(name: str, n: int, form: str) -> tuple[float, int]:
    """Return the least value of a bound over k, and that k."""
    k = best_leaves(lambda k: BOUNDS[name](n, k, form), n)
    return BOUNDS[name](n, k, form), k


def grow(
    name: str, codes: np.ndarray, labels: np.ndarray, n_trees: int, seed: int
) -> tuple[Forest, np.ndarray]:
    """Grow a forest at the k where its sharp bound is least; multinomial ones stop at √n / 4."""
    n = len(codes)
    if name == MULTINOMIAL:
        source = MultinomialTrees(n_trees, min_points=max(1, round(n**0.5 / 4)))
        grown = source.grow(domain(), codes, labels, seed)
        return grown.forest, grown.leaf_counts
    k = least_bound(name, n, "sharp")[1]
    if name == SIMPLE:
        forest = SimplifiedBreimanTrees(n_trees, k).grow(domain(), codes, labels, seed)
    else:
        forest = PureTrees(n_trees, k, name.split(", ")[1]).grow(domain(), seed)
    return forest, leaf_counts(forest, codes, labels, 2)
