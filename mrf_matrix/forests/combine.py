"""Forests from forests: put several together, take some trees."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import plain_array
from mrf_matrix.base.provenance import join
from mrf_matrix.forests.forest import Forest


def concatenate(forests: Sequence[Forest]) -> Forest:
    """Return one forest of the trees of several, in order.

    Parameters
    ----------
    forests : sequence of Forest
        At least one, all over the same domain. Path r of forest f becomes path r plus the
        leaves of the forests before it.

    Raises
    ------
    ValueError
        If there is none, or their domains differ.

    Notes
    -----
    What several structures cost adds up, each charge once.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests.sources.random_trees import RandomTrees
    >>> domain = Domain.from_sizes([2, 3])
    >>> shallow, deep = (RandomTrees(2, depth).grow(domain, random_state=0) for depth in (1, 2))
    >>> concatenate([shallow, deep]).n_trees
    4
    """
    if not forests:
        raise ValueError("forests is empty: expected at least one forest.")
    first = forests[0]
    for number, forest in enumerate(forests):
        if forest.domain != first.domain:
            raise ValueError(
                f"forests[{number}] has another domain than forests[0]: expected one domain. "
                f"Grow all forests over the whole domain, with attributes=... for a part of it."
            )
    pools, shift = _shared_pools(forests)
    nodes = np.cumsum([0] + [forest.n_nodes for forest in forests])
    return Forest(
        domain=first.domain,
        roots=np.concatenate([f.roots + n for f, n in zip(forests, nodes, strict=False)]),
        attribute=np.concatenate([f.attribute for f in forests]),
        first_child=np.concatenate(
            [f.first_child + n for f, n in zip(forests, nodes, strict=False)]
        ),
        pattern=np.concatenate([f.pattern + s for f, s in zip(forests, shift, strict=True)]),
        branches=pools,
        provenance=join(forest.provenance for forest in forests),
        source=" + ".join(dict.fromkeys(f.source for f in forests if f.source)),
        allow_empty=any(forest.allow_empty for forest in forests),
    )


def _shared_pools(forests: Sequence[Forest]) -> tuple[NDArray[np.int32], list[int]]:
    """Join the pools, equal pools once; return where each forest's pool starts."""
    starts: dict[bytes, int] = {}
    parts, shift, end = [], [], 0
    for forest in forests:
        key = forest.branches.tobytes()
        if key not in starts:
            starts[key] = end
            parts.append(forest.branches)
            end += len(forest.branches)
        shift.append(starts[key])
    return np.concatenate(parts), shift


def take_trees(forest: Forest, trees: NDArray[np.integer[Any]] | Sequence[int]) -> Forest:
    """Return the forest of the chosen trees, in the order given.

    Parameters
    ----------
    forest : Forest
    trees : sequence of int
        Tree numbers, each at most once.

    Raises
    ------
    ValueError
        If a number is out of range or given twice, or none is given.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests.sources.random_trees import RandomTrees
    >>> forest = RandomTrees(8, 1).grow(Domain.from_sizes([2, 3]), random_state=0)
    >>> take_trees(forest, [5, 0]).n_trees
    2
    """
    index = plain_array("trees", trees)
    valid = index.ndim == 1 and len(index) and index.dtype.kind in "iu"
    if not valid or index.min() < 0 or index.max() >= forest.n_trees:
        raise ValueError(f"trees={trees!r}: expected tree numbers from 0 to {forest.n_trees - 1}.")
    if len(np.unique(index)) < len(index):
        raise ValueError(f"trees={trees!r} names a tree twice.")
    rank = np.full(forest.n_trees, -1, dtype=np.int64)
    rank[index] = np.arange(len(index))
    kept = np.flatnonzero(rank[forest.tree] >= 0)
    order = kept[np.argsort(rank[forest.tree[kept]], kind="stable")]
    number = np.full(forest.n_nodes, -1, dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return replace(
        forest,
        roots=number[forest.roots[index]],
        attribute=forest.attribute[order],
        first_child=number[forest.first_child[order]],
        pattern=forest.pattern[order],
    )


def hang(forest: Forest, subtrees: Forest) -> Forest:
    """Return a forest with a tree hung on each of its leaves; no split of its own changes.

    `subtrees`: tree i goes to leaf i. A tree of one leaf leaves the leaf as it is.

    Raises ValueError if there are not as many trees as leaves, or the domains differ.

    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests.sources.random_trees import RandomTrees
    >>> domain = Domain.from_sizes([2, 2])
    >>> first, second = (RandomTrees(n, 1, attributes=[i]) for n, i in ((1, 0), (2, 1)))
    >>> hang(first.grow(domain), second.grow(domain)).max_depth
    2
    """
    if subtrees.n_trees != forest.n_leaves:
        raise ValueError(
            f"subtrees has {subtrees.n_trees} trees: expected {forest.n_leaves}, one for each leaf."
        )
    both = concatenate([forest, subtrees])
    number = np.arange(both.n_nodes, dtype=np.int32)
    roots = both.roots[forest.n_trees :]
    number[roots] = forest.leaves
    is_below = np.ones(both.n_nodes, dtype=np.bool_)
    is_below[: forest.n_nodes] = is_below[roots] = False
    number[is_below] = forest.n_nodes + np.arange(np.count_nonzero(is_below))
    order = np.append(np.arange(forest.n_nodes), np.flatnonzero(is_below))
    order[forest.leaves] = roots
    return replace(
        both,
        roots=forest.roots,
        attribute=both.attribute[order],
        first_child=number[both.first_child[order]],
        pattern=both.pattern[order],
        source=forest.source or subtrees.source,
    )
