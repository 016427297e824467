"""Checks that few forests need: of branches that no cell reaches, and of arrays from files.

A branch may be empty only where a path splits an attribute twice. Arrays from a file may be
dishonest, and `Forest` checks in time and memory that are modest for honest ones.
"""

import numpy as np

from mrf_matrix.base.arrays import Bools, Longs
from mrf_matrix.base.fields import FieldError
from mrf_matrix.forests.nodes import (
    CHUNK,
    ForestError,
    Nodes,
    check_parentage,
    check_shapes,
    concatenated_ranges,
    rising_windows,
)


def check_branches_are_reached(forest: Nodes, above: Longs, edge: Longs) -> None:
    """Refuse a forest with a leaf that no cell reaches.

    A split divides the codes of one attribute and leaves the others alone. So a leaf is empty only
    if some node on its path has a branch that none of the codes it still sees takes; and the codes
    that a node sees of its attribute are those that its nearest ancestor on the same attribute
    sends its way. Only nodes with such an ancestor need a look.

    Thresholds and multi-way splits leave runs of codes, which are followed as two numbers a
    node, however fine the codes. Where category subsets are among the splits, codes are followed
    one by one, one byte each, in chunks of whole trees.

    `above`, `edge`: from `nearest_same_attribute`.

    Raises ForestError naming a node with a branch that no cell reaches.
    """
    is_run = _check_runs(forest, above, edge)
    if not is_run.all():
        _check_sets(forest, above, edge, ~is_run)


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
    group = (np.cumsum(each) // CHUNK)[forest.tree]
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


MAX_DEPTH = 1000

MAX_TABLE_ENTRIES = 2**24
"""Most entries of branch tables that are not runs, each distinct table once."""


def check_untrusted(nodes: Nodes) -> None:
    """Refuse arrays from a file that are no trees, or take much more memory to check than to hold.

    Arrays may be dishonest: they can claim overlapping children, or branch tables that add up to
    far more than the file.

    Raises FieldError, ForestError.
    """
    if max(nodes.domain.sizes) > len(nodes.branches):
        raise FieldError("branches is shorter than the codes of an attribute.")
    check_shapes(nodes)
    _check_tables(nodes)
    children, n_nodes, n_trees = int(nodes.n_children.sum()), nodes.n_nodes, nodes.n_trees
    if children != n_nodes - n_trees:
        raise FieldError(
            f"{children} children for {n_nodes} nodes and {n_trees} roots: expected every node to "
            f"be a root or the child of one node."
        )
    check_parentage(nodes)
    _check_depth(nodes)


def _check_tables(nodes: Nodes) -> None:
    """Bound the entries that `count_children` reads: all distinct tables that are no runs."""
    width, pattern = np.asarray(nodes.domain.sizes, dtype=np.int64), nodes.pattern
    length = np.where(nodes.attribute < 0, width.max(), width[nodes.attribute])
    end = np.minimum(pattern + length, len(nodes.branches))  # beyond: refused by count_children
    other = ~rising_windows(nodes.branches, pattern, end)
    tables = np.unique(np.stack([pattern[other].astype(np.int64), length[other]]), axis=1)
    if int(tables[1].sum()) > MAX_TABLE_ENTRIES:
        raise FieldError(
            f"its branch tables have {int(tables[1].sum())} entries: expected at most "
            f"{MAX_TABLE_ENTRIES}."
        )


def _check_depth(nodes: Nodes) -> None:
    level, n_children = nodes.roots.astype(np.int64), nodes.n_children
    for _ in range(MAX_DEPTH + 1):
        inner = level[n_children[level] > 0]
        if not len(inner):
            return
        level = concatenated_ranges(nodes.first_child[inner], n_children[inner])
    raise FieldError(f"its trees are deeper than {MAX_DEPTH} splits, or run in circles.")
