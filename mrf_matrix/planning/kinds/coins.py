"""Disjoint data: each record goes to one tree, by its own coin.

The coin of a record depends neither on its values nor on other records, so adding a record moves
no other, and replacing one changes nothing but itself. A seed gives coins by place, though: whoever
knows it knows that taking out one record shifts the coins of all behind it. So coins are thrown
from fresh system randomness wherever a release is private, and from the seed in studies only.
"""

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.voting.voting import record_blocks

Codes = NDArray[np.int32]


def record_coins(
    noise: object, budget: PureDP | ZCDP, seed: int | np.random.Generator | None
) -> np.random.Generator:
    """Return what throws the records' coins: never seeded in a private release."""
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
