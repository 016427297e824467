"""Checks that parallel arrays are trees which partition the domain, and the codes that leaves hold.

A node's branch table covers every code of its attribute and names dense branches 0..b-1, so its
children split its cells. If moreover every node is a root or the child of exactly one node, and
can be reached from a root, then each tree's leaves partition the domain. All checks are
vectorised over nodes: O(nodes + pool) memory, a few milliseconds for 25 000 nodes.
"""

import numpy as np

from mrf_matrix.base.arrays import Bools, Ints, Longs
from mrf_matrix.forests.nodes import ForestError, Nodes, concatenated_ranges, rising_windows


def check_partition(forest: Nodes, *, allow_empty: bool = False) -> None:
    """Refuse arrays that are no trees which partition the domain, or leave a leaf without cells.

    `allow_empty`: accept leaves that no cell reaches, and do not look for them.

    Raises ForestError.
    """
    check_shapes(forest)
    check_parentage(forest)
    reached = sum(len(level) for level in forest.levels)
    if reached != forest.n_nodes:  # what has one parent but no root is a cycle
        raise ForestError(
            f"{forest.n_nodes - reached} nodes cannot be reached from any root: first_child has a "
            f"cycle."
        )
    if not allow_empty:
        check_every_branch_is_reached(forest)


def check_shapes(forest: Nodes) -> None:
    """Check lengths and ranges of the arrays, and that there is at least one tree."""
    roots, attribute, first_child = forest.roots, forest.attribute, forest.first_child
    nodes, pool, d = len(attribute), len(forest.branches), forest.domain.n_attributes
    if not len(roots):
        raise ForestError("roots is empty: a forest needs at least one tree.")
    for name, array in (("first_child", first_child), ("pattern", forest.pattern)):
        if len(array) != nodes:
            raise ForestError(
                f"{name} has {len(array)} entries: expected {nodes}, one a node, like attribute."
            )
    _check_range("roots", roots, 0, nodes, "a node number")
    _check_range("attribute", attribute, -1, d, "an attribute's index, -1 at leaves")
    _check_range("first_child", first_child, 0, nodes, "a node number")
    _check_range("pattern", forest.pattern, 0, pool, "a start into branches")
    _check_range("branches", forest.branches, 0, 2**31, "a branch number")
    if len(np.unique(roots)) < len(roots):
        raise ForestError("roots names a node twice: every tree needs a root of its own.")
    leaf = attribute < 0
    wrong = np.flatnonzero(leaf & (first_child != np.arange(nodes)))
    if len(wrong):
        raise ForestError(
            f"first_child of leaf {wrong[0]} is {first_child[wrong[0]]}: expected the leaf's own "
            f"number, so that routing stops there."
        )


def _check_range(name: str, array: Ints, low: int, high: int, what: str) -> None:
    outside = np.flatnonzero((array < low) | (array >= high))
    if len(outside):
        where = int(outside[0])
        raise ForestError(
            f"{name}[{where}] is {array[where]}: expected {what}, from {low} to {high - 1}."
        )


def check_parentage(forest: Nodes) -> None:
    """Check that every node is a root or the child of exactly one node."""
    first_child, n_children, nodes = forest.first_child, forest.n_children, forest.n_nodes
    inner = np.flatnonzero(n_children)
    beyond = inner[first_child[inner] + n_children[inner] > nodes]
    if len(beyond):
        node = int(beyond[0])
        raise ForestError(
            f"first_child[{node}] is {first_child[node]}: {n_children[node]} children do not fit "
            f"within {nodes} nodes."
        )
    children = concatenated_ranges(first_child[inner], n_children[inner])
    expected = np.ones(nodes, dtype=np.int64)
    expected[forest.roots] = 0
    wrong = np.flatnonzero(np.bincount(children, minlength=nodes) != expected)
    if len(wrong):
        node = int(wrong[0])
        raise ForestError(
            f"node {node} is the child of {np.count_nonzero(children == node)} nodes: expected "
            f"{expected[node]} ({'a root' if expected[node] == 0 else 'no root'})."
        )


_CHUNK = 1 << 21  # codes written out together: 16 MB of indices


def check_every_branch_is_reached(forest: Nodes) -> None:
    """Refuse a forest with a leaf that no cell reaches.

    A split divides the codes of one attribute and leaves the others alone. So a leaf is empty only
    if some node on its path has a branch that none of the codes it still sees takes; and the codes
    that a node sees of its attribute are those that its nearest ancestor on the same attribute
    sends its way. Only nodes with such an ancestor need a look.

    Thresholds and multi-way splits leave runs of codes, which are followed as two numbers a
    node, however fine the codes. Where category subsets are among the splits, codes are followed
    one by one, one byte each, in chunks of whole trees.

    Raises ForestError naming a node with a branch that no cell reaches.
    """
    above, edge = nearest_same_attribute(forest)
    if not (above >= 0).any():
        return
    is_run = _check_runs(forest, above, edge)
    if not is_run.all():
        _check_sets(forest, above, edge, ~is_run)


def nearest_same_attribute(forest: Nodes) -> tuple[Longs, Longs]:
    """Return each inner node's nearest ancestor on its attribute (-1: none) and the branch to it.

    All nodes climb together, one level a step; those that arrive leave the climb.
    """
    attribute, parent = forest.attribute, forest.parent
    above = np.full(forest.n_nodes, -1, dtype=np.int64)
    edge = np.zeros(forest.n_nodes, dtype=np.int64)
    climbing = np.flatnonzero((attribute >= 0) & (parent >= 0))
    at = climbing
    while len(climbing):
        came_from, at = at, parent[at].astype(np.int64)
        here = attribute[at] == attribute[climbing]
        above[climbing[here]] = at[here]
        edge[climbing[here]] = came_from[here] - forest.first_child[at[here]]
        onward = ~here & (parent[at] >= 0)
        climbing, at = climbing[onward], at[onward]
    return above, edge


def _check_runs(forest: Nodes, above: Longs, edge: Longs) -> Bools:
    """Follow runs of codes from the roots; return the nodes whose codes are known to be a run.

    Within a rising window at s, code c takes branch ``rise[s + c] - rise[s]``, so the codes of a
    branch are found in the running count of rises by bisection.
    """
    pattern = forest.pattern.astype(np.int64)
    width = np.asarray(forest.domain.sizes, dtype=np.int64)
    size = np.where(forest.attribute < 0, width.max(), width[forest.attribute])
    rise = np.cumsum(np.diff(forest.branches, prepend=forest.branches[:1]) == 1)
    is_run = rising_windows(forest.branches, pattern, pattern + size)
    low, high = np.zeros(forest.n_nodes, dtype=np.int64), size.copy()
    for level in forest.levels:
        again = level[above[level] >= 0]
        is_run[again] &= is_run[above[again]]
        again = again[is_run[again]]
        up = above[again]
        value = rise[pattern[up]] + edge[again]
        first = np.searchsorted(rise, value, side="left") - pattern[up]
        last = np.searchsorted(rise, value, side="right") - pattern[up]
        low[again] = np.maximum(first, low[up])
        high[again] = np.minimum(last, high[up])
        begin, end = pattern[again] + low[again], pattern[again] + high[again] - 1
        _refuse_missing(again, rise[end] - rise[begin] + 1 < forest.n_children[again])
    return is_run


def _check_sets(forest: Nodes, above: Longs, edge: Longs, of_interest: Bools) -> None:
    """Follow sets of codes, for the nodes of interest and the ancestors their codes come from."""
    needed = of_interest & (above >= 0)
    while True:
        up = above[needed]
        more = up[up >= 0]
        if needed[more].all():
            break
        needed[more] = True
    width = np.asarray(forest.domain.sizes, dtype=np.int64)
    length = np.where(needed, width[forest.attribute], 0)
    each = np.bincount(forest.tree, weights=length, minlength=forest.n_trees)
    group = (np.cumsum(each) // _CHUNK)[forest.tree]
    for number in np.unique(group[needed]):
        chosen = [level[needed[level] & (group[level] == number)] for level in forest.levels]
        _check_chunk(forest, chosen, length, above, edge)


def _check_chunk(
    forest: Nodes, nodes: list[Longs], length: Longs, above: Longs, edge: Longs
) -> None:
    """Carry the sets of codes down one group of trees and count the branches they take."""
    pattern, branches, n_children = forest.pattern, forest.branches, forest.n_children
    members = np.concatenate(nodes)
    start = np.zeros(forest.n_nodes, dtype=np.int64)
    start[members] = np.cumsum(length[members]) - length[members]
    seen = np.ones(int(length[members].sum()), dtype=np.bool_)
    for level in nodes:
        again = level[above[level] >= 0]
        up, n = above[again], length[again]
        sent = branches[concatenated_ranges(pattern[up], n)]
        mask = seen[concatenated_ranges(start[up], n)] & (sent == np.repeat(edge[again], n))
        seen[concatenated_ranges(start[again], n)] = mask
        mine = branches[concatenated_ranges(pattern[again], n)]
        slot = np.cumsum(n_children[again]) - n_children[again]
        hit = (np.repeat(slot, n) + mine)[mask]
        counts = np.bincount(hit, minlength=int(n_children[again].sum()))
        owner = np.repeat(np.arange(len(again)), n_children[again])
        _refuse_missing(again[owner], counts == 0)


def _refuse_missing(nodes: Longs, is_missing: Bools) -> None:
    if is_missing.any():
        raise ForestError(
            f"node {nodes[np.argmax(is_missing)]} has a branch that no cell reaches, because its "
            f"attribute was already split above it: drop the branch, or pass allow_empty=True."
        )


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
    >>> from mrf_matrix.forests.random_trees import RandomTrees
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
        codes = np.arange(forest.domain.sizes[i])
        of_attribute = np.flatnonzero(split == i)
        step = max(1, _CHUNK // len(codes))
        for start in range(0, len(of_attribute), step):
            rows = of_attribute[start : start + step]
            window = forest.pattern[parent[rows], np.newaxis] + codes
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
