"""Baselines of the literature: weighted levels, noise of hard votes, each record in one tree.

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

Write ``a_l`` for column l (leaf l) of the strategy A, ``Δ`` for its largest column norm, and C for
the private table (leaves x classes) whose answers ``A C`` are measured.

**Weight voting.** C are class counts, and a record counts in one leaf: exactly the table of cells,
with leaves for cells. The sensitivity is Δ, times the factor of the neighbouring relation
(`mrf_matrix.mechanisms.budget`).

**Hard voting.** Row l of C is the unit vector of leaf l's largest class, or zero without records.

``add_remove``
    One leaf l gains or loses a record, so its row changes from u to u', both unit vectors or
    zero: one vote moves from a class to another. ``A C`` changes by ``a_l (u' - u)ᵀ``. In the L1
    norm that is ``|a_l|₁ |u' - u|₁ <= 2Δ``; in the L2 norm ``|a_l|₂ |u' - u|₂ <= sqrt(2) Δ``.
``replace_one``
    The record keeps its coin, so its tree, but may move from leaf l to leaf m: both rows may
    change. In the L1 norm by ``2 |a_l|₁ + 2 |a_m|₁ <= 4Δ``. In the L2 norm, by the triangle
    inequality, ``sqrt(2) |a_l| + sqrt(2) |a_m| <= 2 sqrt(2) Δ``, whatever the signs of A.

**One query at a time** (Dwork and Feldman, 2018). Each of b queries is a release of its own at
``1/b`` of the budget, for which a query of sensitivity s needs noise of scale ``s b/ε`` (variance
``s² b/2ρ``): that of a sensitivity of b (``sqrt(b)`` in the L2 norm), times s. A query reaches one
leaf of the record's tree. With weight voting s is 1 under add/remove, and 2 (``sqrt(2)``) under
replace-one, where the class may change. With hard voting s is 2 (``sqrt(2)``) under both, for of
the leaves that a record moves between the query reaches only one.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.compilation import path_matrix
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import ZCDP, Mechanism, PureDP
from mrf_matrix.reconstruction.shrinkage import node_matrix
from mrf_matrix.voting.voting import record_blocks
from strategies import Strategy, evaluate
from strategies.methods.weighted_rows import Candidates, shared_weights
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
    levels = Candidates.per_group(paths, nodes, forest.depth, norm)
    return shared_weights(levels, [geometric, uniform, deepest])


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


HARD_SQUARED = {
    ("add_remove", "l1"): 4,
    ("add_remove", "l2"): 2,
    ("replace_one", "l1"): 16,
    ("replace_one", "l2"): 8,
}
"""Square of what hard voting and the neighbouring relation multiply Δ by, together."""


def with_hard_votes(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism with the noise that a table of hard votes needs.

    `mechanism`: calibrated to a table of counts.
    """
    squared = HARD_SQUARED[mechanism.neighboring, mechanism.rounded.norm]
    return mechanism.with_factor(squared)


def one_query_at_a_time(mechanism: Mechanism, *, hard: bool) -> Mechanism:
    """Return the mechanism with the noise of one release a query, composed sequentially.

    `mechanism`: of the 0/1 workload over leaves itself, one row a query; `hard`: whether the table
    holds hard votes.
    """
    rounded = replace(mechanism.rounded, column_sum=mechanism.rounded.matrix.shape[0])
    squared = mechanism.squared_factor
    if hard:
        squared = HARD_SQUARED["add_remove", rounded.norm]
    law = mechanism.law_for(rounded.column_sum, squared, mechanism.budget)
    return replace(mechanism, rounded=rounded, squared_factor=squared, law=law)


# Each record in one tree -------------------------------------------------------------------------


def record_coins(
    noise: object, budget: PureDP | ZCDP, seed: int | np.random.Generator | None
) -> np.random.Generator:
    """Return the generator that assigns records to trees: never seeded in a private release.

    The coin of a record depends neither on its values nor on other records, so adding a record
    moves no other, and replacing one changes nothing but itself. A seed gives coins by place,
    though: whoever knows it knows that taking out one record shifts the coins of all behind it.
    """
    private = noise == "exact" and not budget.is_infinite
    return np.random.default_rng(None if private else seed)


def one_leaf_each(forest: Forest, codes: Codes, coins: np.random.Generator) -> Codes:
    """Route each record through one tree, drawn by its coin; return its leaf, shape (N,)."""
    return leaves_in_trees(forest, codes, coins.integers(forest.n_trees, size=len(codes)))


def leaves_in_trees(forest: Forest, codes: Codes, tree: NDArray[np.int64]) -> Codes:
    """Return each record's leaf in its own tree, shape (N,).

    The largest array is that of the leaf numbers of one block of records in all trees.
    """
    leaves = np.empty(len(codes), dtype=np.int32)
    for block in record_blocks(len(codes), forest.n_trees):
        routed = forest.apply(codes[block])
        leaves[block] = routed[np.arange(len(routed)), tree[block]]
    return leaves
