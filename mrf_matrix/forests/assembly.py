"""Forests of other forests' trees, of some of them, or of arrays from a file; tables of subsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Ints, Longs, Values
from mrf_matrix.base.provenance import Provenance, join
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import plain_array
from mrf_matrix.forests.forest import Forest
from mrf_matrix.forests.nodes import (
    ARRAYS,
    Nodes,
)
from mrf_matrix.forests.partition import check_untrusted


def subset_patterns(
    pool: Ints, tables: Sequence[NDArray[np.integer[Any]]]
) -> tuple[Ints, NDArray[np.int64]]:
    """Append tables of arbitrary branch numbers to a pool, equal tables once.

    Parameters
    ----------
    pool : ndarray
        The pool to extend, usually `branch_pool(sizes)`.
    tables : sequence of ndarray
        For each node its branch number per code: 0/1 for a category subset, or 0..b-1.

    Returns
    -------
    pool : ndarray
        The extended pool.
    starts : ndarray of shape (len(tables),)
        Where each table starts in it.

    Examples
    --------
    >>> from mrf_matrix.forests.nodes import branch_pool
    >>> pool, starts = subset_patterns(branch_pool([3]), [np.array([1, 0, 1])] * 2)
    >>> starts
    array([9, 9])
    >>> pool[9:]
    array([1, 0, 1], dtype=int32)
    """
    parts: list[Ints] = [pool]
    found: dict[bytes, int] = {}
    starts = np.empty(len(tables), dtype=np.int64)
    end = len(pool)
    for index, table in enumerate(tables):
        row = np.ascontiguousarray(table, dtype=np.int32)
        key = row.tobytes()
        if key not in found:
            found[key] = end
            parts.append(row)
            end += len(row)
        starts[index] = found[key]
    return np.concatenate(parts), starts


@dataclass(frozen=True, eq=False)
class Boxes:
    """The codes that remain in each node: ``low <= code < high``, (nodes, attributes)."""

    low: Ints
    high: Ints

    @classmethod
    def whole(cls, sizes: Sequence[int], n: int) -> "Boxes":
        high = np.tile(np.asarray(sizes, dtype=np.int32), (n, 1))
        return cls(np.zeros_like(high), high)

    def halves(self, rows: Longs, attribute: AnyInts, cut: AnyInts) -> "Boxes":
        """Return both sides of the cuts of some nodes, one after the other."""
        low, high = np.repeat(self.low[rows], 2, axis=0), np.repeat(self.high[rows], 2, axis=0)
        left = 2 * np.arange(len(rows))
        high[left, attribute] = cut
        low[left + 1, attribute] = cut
        return Boxes(low, high)


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
    >>> from mrf_matrix.forests.random_trees import RandomTrees
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
    >>> from mrf_matrix.forests.random_trees import RandomTrees
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


def graft(forest: Forest, subtrees: Forest) -> Forest:
    """Return a forest with a tree hung on each of its leaves; no split of its own changes.

    `subtrees`: tree i goes to leaf i. A tree of one leaf leaves the leaf as it is.

    Raises ValueError if there are not as many trees as leaves, or the domains differ.

    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests.random_trees import RandomTrees
    >>> domain = Domain.from_sizes([2, 2])
    >>> first, second = (RandomTrees(n, 1, attributes=[i]) for n, i in ((1, 0), (2, 1)))
    >>> graft(first.grow(domain), second.grow(domain)).max_depth
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


def checked_forest(
    domain: Domain, arrays: Mapping[str, Values], source: str, provenance: Provenance
) -> Forest:
    """Return the forest of arrays from a file.

    `domain`: over the attributes that the forest sees; `arrays`: the five arrays of a `Forest`;
    `source`: the forest's source, in words; `provenance`: of all that the file holds.

    Raises FieldError, ForestError if the arrays are no trees over the domain, deeper than 1000
    splits, or would take much more memory to check than they take themselves.
    """
    nodes = Nodes(domain, *(np.asarray(arrays[name]).astype(np.int32) for name in ARRAYS))
    check_untrusted(nodes)
    # Whether some leaf is reached by no cell makes no difference to what is predicted.
    kept = {name: getattr(nodes, name) for name in ARRAYS}
    return Forest(domain, **kept, provenance=provenance, source=source, allow_empty=True)
