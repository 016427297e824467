"""Baselines of the literature: every node of every tree measured, with one weight a level.

==================  ====================================================================
allocation          weight of the nodes of level l, of which there are N_l
==================  ====================================================================
"uniform_levels"    1: every level has the same budget (Hay, Rastogi, Miklau, Suciu 2010)
"geometric_levels"  ``N_l^(1/3)`` for Laplace noise, ``N_l^(1/4)`` for Gaussian noise: the
                    geometric budgets of Cormode, Procopiuc, Srivastava, Shen, Yu (2012)
"optimal_levels"    the least expected error of all weights of levels found
==================  ====================================================================

Leaves are answered by least squares from all nodes (the consistency of Hay et al.), so the error is
that of any other strategy. The geometric rule is the best for each node by itself, before that; it
is the best for no sum after it, and inner nodes hardly ever pay for leaves.
"""

from dataclasses import replace

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.compilation import path_matrix
from mrf_matrix.forests import Forest
from mrf_matrix.reconstruction.shrinkage import node_matrix
from strategies import Strategy, evaluate
from strategies.methods.weighted_rows import SharedWeights
from strategies.operators import Norm, Operator, RowScaled

RULES = ("uniform", "geometric", "optimal")


def level_weights(forest: Forest, norm: Norm, rule: str) -> Array:
    """Return the weight of the nodes of every level, roots first, shape (depth + 1,).

    `norm` {"l1", "l2"}; `rule` {"uniform", "geometric", "optimal"}.

    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=2).grow(Domain.from_sizes([8, 8]), 0)
    >>> level_weights(forest, "l1", "geometric").round(3)
    array([1., 2., 4.])
    """
    sizes = np.bincount(forest.depth).astype(np.float64)
    uniform, geometric = np.ones(len(sizes)), sizes ** (1 / 3 if norm == "l1" else 1 / 4)
    if rule != "optimal":
        return uniform if rule == "uniform" else geometric
    paths, nodes = path_matrix(forest), node_matrix(forest)
    deepest = np.where(np.arange(len(sizes)) == len(sizes) - 1, 1.0, 0.0)
    return SharedWeights.of(paths, nodes, forest.depth, norm).best([geometric, uniform, deepest])


def level_strategy(forest: Forest, norm: Norm, rule: str) -> Strategy:
    """Return the weighted nodes of a forest as a strategy for its leaves; see `level_weights`.

    Raises MemoryCapError if the nodes' errors, or the Grams of their levels, are out of reach.
    """
    weights = level_weights(forest, norm, rule)[forest.depth]
    matrix = RowScaled(weights[weights > 0], node_matrix(forest).take_rows(weights > 0))
    return replace(evaluate(distinct_leaves(forest), matrix, norm), method=f"{rule} levels")


def distinct_leaves(forest: Forest) -> Operator:
    """Return T with every path once, times the root of its number: of the same Gram and losses.

    Trees share paths: of Car's 18 485, in 128 trees of depth 4, 2 196 are distinct.
    """
    distinct, _, times = path_matrix(forest).unique_rows()
    return RowScaled(np.sqrt(times), distinct)
