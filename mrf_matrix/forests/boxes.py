"""The cells of a leaf: per attribute, the codes that lead to it."""

import numpy as np

from mrf_matrix.base.arrays import Bools, Ints, Longs
from mrf_matrix.forests.arrays import concatenated_ranges
from mrf_matrix.forests.checks import ForestError
from mrf_matrix.forests.nodes import Nodes


def leaf_masks(forest: Nodes) -> list[Bools]:
    """Return for every attribute which of its codes each leaf holds.

    Row r of the path matrix is the Kronecker product over attributes of row r of these masks.

    Parameters
    ----------
    forest : Nodes
        A `Forest`.

    Returns
    -------
    list of ndarray of bool, shapes (n_leaves, size of the attribute)

    Notes
    -----
    Top-down, a level of all trees at a time: a child keeps its parent's masks, except on the
    parent's attribute, where it keeps the codes of its branch. Memory is the result, n_leaves x
    sum of sizes bytes, plus at most twice the largest level of that width.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests.sources.random_trees import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=1, attributes=[0]).grow(
    ...     Domain.from_sizes([2, 3])
    ... )
    >>> [mask.astype(int).tolist() for mask in leaf_masks(forest)]
    [[[1, 0], [0, 1]], [[1, 1, 1], [1, 1, 1]]]
    """
    sizes = forest.domain.sizes
    found = [np.empty((forest.n_leaves, size), dtype=np.bool_) for size in sizes]
    masks = [np.ones((forest.n_trees, size), dtype=np.bool_) for size in sizes]
    for level in forest.levels:
        leaf = forest.attribute[level] < 0
        rows = forest.leaf_index[level[leaf]]
        for result, mask in zip(found, masks, strict=True):
            result[rows] = mask[leaf]
        masks = _children_masks(forest, level[~leaf], [mask[~leaf] for mask in masks])
    return found


def _children_masks(forest: Nodes, inner: Longs, masks: list[Bools]) -> list[Bools]:
    fan = forest.n_children[inner]
    parent = np.repeat(inner, fan)
    branch = concatenated_ranges(np.zeros(len(inner), dtype=np.int64), fan)
    split = forest.attribute[parent]
    repeated = [np.repeat(mask, fan, axis=0) for mask in masks]
    for i in np.unique(split):
        rows = np.flatnonzero(split == i)
        window = forest.pattern[parent[rows], np.newaxis] + np.arange(forest.domain.sizes[i])
        repeated[i][rows] &= forest.branches[window] == branch[rows, np.newaxis]
    return repeated


def decision_paths(forest: Nodes) -> Ints:
    """Return each leaf as the code it fixes per attribute, -1 where the attribute is free.

    Returns
    -------
    ndarray of int32, shape (n_leaves, d)

    Raises
    ------
    ForestError
        If a leaf holds several codes of an attribute but not all, so that one code cannot say
        it: thresholds and subsets. Use `path_matrix`, or `leaf_masks`, for those.
    """
    masks = leaf_masks(forest)
    paths = np.full((forest.n_leaves, len(masks)), -1, dtype=np.int32)
    for i, mask in enumerate(masks):
        held = mask.sum(axis=1)
        partly = np.flatnonzero((held != 1) & (held != mask.shape[1]))
        if len(partly):
            raise ForestError(
                f"leaf {partly[0]} holds {held[partly[0]]} of the {mask.shape[1]} codes of "
                f"attribute {forest.domain.names[i]!r}: only forests with multi-way splits can "
                f"be written as one code an attribute. Use path_matrix(forest) instead."
            )
        fixed = np.flatnonzero(held < mask.shape[1])
        paths[fixed, i] = mask[fixed].argmax(axis=1)
    return paths
