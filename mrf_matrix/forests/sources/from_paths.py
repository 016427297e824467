"""Rebuild multi-way trees from their decision paths."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Ints, Longs, plain_array
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import branch_pool, forest_from_levels, multiway_pattern
from mrf_matrix.forests.codes import checked_codes
from mrf_matrix.forests.forest import UNSTATED, Forest
from mrf_matrix.forests.nodes import ForestError


def forest_from_paths(
    paths: NDArray[np.integer[Any]],
    tree_id: NDArray[np.integer[Any]] | None,
    domain: Domain,
    *,
    provenance: Provenance = UNSTATED,
    source: str = "decision paths",
) -> Forest:
    """Rebuild a forest of multi-way splits from its decision paths.

    Parameters
    ----------
    paths : ndarray of int, shape (o, d)
        The code that each path fixes per attribute, -1 where the attribute is free.
    tree_id : ndarray of int, shape (o,), or None
        The tree of each path; None for a single tree. Trees keep the order of their ids.
    domain : Domain
        The public domain.
    provenance : Provenance, optional
        Where the paths came from, see `Forest`; unknown unless it is stated.
    source : str, default="decision paths"
        What the forest says it comes from.

    Returns
    -------
    Forest
        Trees with exactly these paths. Leaves are numbered left to right in the rebuilt trees,
        which need not be the order of `paths`.

    Raises
    ------
    ValueError
        If the shapes or codes do not fit the domain.
    ForestError
        If the paths of a tree are not the leaves of a tree of multi-way splits over the domain.

    Notes
    -----
    An attribute that every path of a (sub)tree fixes can be its root: the paths with each of its
    codes partition a slice of the domain, and are themselves a tree. The lowest such index is
    taken, level by level for all trees at once. The largest array is that of the paths.

    Examples
    --------
    >>> import numpy as np
    >>> domain = Domain.from_sizes([2, 3])
    >>> forest = forest_from_paths(np.array([[0, -1], [1, 0], [1, 1], [1, 2]]), None, domain)
    >>> forest
    Forest(1 tree, 4 leaves, depth 2, over 2 attributes, decision paths)
    """
    left, group = _checked(paths, tree_id, domain)
    sizes = np.asarray(domain.sizes, dtype=np.int64)
    attributes: list[Ints] = []
    n_groups = int(group.max()) + 1
    while n_groups:
        split, rows = _split(left, group, n_groups)
        attributes.append(split)
        chosen = split[group[rows]]
        fan = np.where(split >= 0, sizes[split], 0)
        start = np.cumsum(fan) - fan
        below = start[group[rows]] + left[rows, chosen]
        left, n_groups = left[rows], int(fan.sum())
        left[np.arange(len(rows)), chosen] = -1
        _check_all_codes(below, n_groups, start, split, domain)
        order = np.argsort(below, kind="stable")
        left, group = left[order], below[order]
    start_of = multiway_pattern(domain.sizes)
    patterns = [np.full(len(level), start_of, dtype=np.int32) for level in attributes]
    return forest_from_levels(
        domain,
        attributes,
        patterns,
        branch_pool(domain.sizes),
        provenance=provenance,
        source=source,
    )


def _checked(
    paths: NDArray[Any], tree_id: NDArray[Any] | None, domain: Domain
) -> tuple[Longs, Longs]:
    """Return the paths sorted by tree, and dense tree numbers."""
    given = checked_codes(paths, domain.sizes, domain.names, least=-1, argument="paths")
    if not len(given):
        raise ValueError("paths is empty: expected at least one path.")
    one_tree = np.zeros(len(given), dtype=np.int64)
    ids = one_tree if tree_id is None else plain_array("tree_id", tree_id)
    if ids.shape != (len(given),):
        raise ValueError(f"tree_id has shape {ids.shape}: expected ({len(given)},), one a path.")
    tree = np.unique(ids, return_inverse=True)[1]
    order = np.argsort(tree, kind="stable")
    return given[order].astype(np.int64), tree[order].astype(np.int64)


def _split(left: Longs, group: Longs, n_groups: int) -> tuple[Ints, Longs]:
    """Return each group's attribute (-1: a leaf) and the rows of the groups that split."""
    begin = np.searchsorted(group, np.arange(n_groups))
    members = np.bincount(group, minlength=n_groups)
    fixed = np.add.reduceat(left >= 0, begin, axis=0, dtype=np.int64)
    whole = fixed == members[:, np.newaxis]
    split = np.where(whole.any(axis=1), whole.argmax(axis=1), -1).astype(np.int32)
    stuck = np.flatnonzero((split < 0) & (members > 1))
    if len(stuck):
        row = left[begin[stuck[0]]]
        raise ForestError(
            f"{members[stuck[0]]} paths, among them one that goes on with {row.tolist()}, fix no "
            f"attribute in common: they are not the leaves of a tree of multi-way splits."
        )
    return split, np.flatnonzero(split[group] >= 0)


def _check_all_codes(
    below: Longs, n_groups: int, start: Longs, split: Ints, domain: Domain
) -> None:
    """Check that every code of every split attribute has a path."""
    missing = np.flatnonzero(np.bincount(below, minlength=n_groups) == 0)
    if len(missing):
        inner = np.flatnonzero(split >= 0)
        node = inner[np.searchsorted(start[inner], missing[0], side="right") - 1]
        raise ForestError(
            f"no path holds code {missing[0] - start[node]} of attribute "
            f"{domain.names[split[node]]!r} where another code of it has one: the paths do not "
            f"partition the domain."
        )
