"""A look for branches that no cell reaches, where an attribute is split again below itself.

A split divides the codes of one attribute and leaves the others alone. So a leaf is empty only
if some node on its path has a branch that none of the codes it still sees takes; and the codes
that a node sees of its attribute are those that its nearest ancestor on the same attribute
sends its way. Only nodes with such an ancestor need a look.
"""

import numpy as np

from mrf_matrix.base.arrays import Bools, Longs
from mrf_matrix.forests.arrays import concatenated_ranges
from mrf_matrix.forests.checks import ForestError, rising_windows
from mrf_matrix.forests.nodes import Nodes

_CHUNK = 1 << 21  # codes written out together: 16 MB of indices


def check_every_branch_is_reached(forest: Nodes) -> None:
    """Refuse a forest with a leaf that no cell reaches.

    Thresholds and multi-way splits leave runs of codes, which are followed as two numbers a
    node, however fine the codes. Where category subsets are among the splits, codes are followed
    one by one, one byte each, in chunks of whole trees.

    Raises
    ------
    ForestError
        Naming a node with a branch that no cell reaches.
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
