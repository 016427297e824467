"""Disjoint data: each record goes to one tree, by its own public coin.

The coin of a record depends on its place in the data alone, neither on its values nor on other
records, so adding a record moves no other, and replacing one changes nothing but itself.
"""

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.estimators.voting import record_blocks
from mrf_matrix.forests import Forest

Codes = NDArray[np.int32]


def one_leaf_each(forest: Forest, codes: Codes, coins: np.random.Generator) -> Codes:
    """Route each record through one tree, drawn by its coin; return its leaf, shape (N,).

    The largest array is that of the leaf numbers of one block of records in all trees.
    """
    tree = coins.integers(forest.n_trees, size=len(codes))
    leaves = np.empty(len(codes), dtype=np.int32)
    for block in record_blocks(len(codes), forest.n_trees):
        routed = forest.apply(codes[block])
        leaves[block] = routed[np.arange(len(routed)), tree[block]]
    return leaves
