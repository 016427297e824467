"""All nodes of a forest as queries: a node counts what its leaves count together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import Array, Bools, Longs, plain_floats
from mrf_matrix.forests import Forest, leaf_masks
from mrf_matrix.forests.nodes import concatenated_ranges
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reconstruction.generalised import combine
from mrf_matrix.reconstruction.known_totals import with_known_totals
from strategies.operators import RowKronecker, check_allocation


@dataclass(frozen=True, eq=False)
class NodeAnswers:
    """Unbiased class counts of every node, their noise, and the nodes' public widths."""

    counts: Array  # shape (nodes, k)
    variances: Array  # shape (nodes,): exact noise variance of each node's count, in every class
    parts: Array  # shape (nodes,): share of its parent's cells that a node holds, 1 for roots
    claim: Claim | None = None  # of the releases behind the counts; None where they are not known


def node_matrix(forest: Forest) -> RowKronecker:
    """Return the 0/1 matrix whose row v marks the cells of node v, shape (nodes, n).

    A node is the smallest box around its leaves: per attribute, the codes that some leaf below
    it holds. The masks take ``nodes * sum(sizes)`` bytes.

    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=1, attributes=[0]).grow(Domain.from_sizes([2]))
    >>> node_matrix(forest).to_dense()
    array([[1., 1.],
           [1., 0.],
           [0., 1.]])
    """
    return RowKronecker.from_masks(_node_masks(forest))


def leaf_sums(forest: Forest) -> sparse.csr_array:
    """Return the 0/1 matrix that adds leaves up to nodes, shape (nodes, n_leaves)."""
    start, end = _leaf_ranges(forest)
    lengths = end - start
    ends = np.concatenate([[0], np.cumsum(lengths)])
    entries = (np.ones(ends[-1]), concatenated_ranges(start, lengths), ends)
    return sparse.csr_array(entries, shape=(forest.n_nodes, forest.n_leaves))


def answers_from_releases(
    forest: Forest, releases: Release | Sequence[Release], class_totals: object = None
) -> NodeAnswers:
    """Ask every node of the releases by least squares; equal nodes are asked once.

    Raises RowSpaceError if the releases do not determine some node.
    """
    nodes = node_matrix(forest)
    distinct, number, _ = nodes.unique_rows()
    if class_totals is None:
        found = combine(releases, distinct)
    else:
        found = with_known_totals(releases, distinct, class_totals=class_totals)
    assert found.variances is not None  # of least squares, always
    parts = parts_of_parents(forest)
    return NodeAnswers(found.values[number], found.variances[number], parts, found.claim)


def answers_from_leaves(forest: Forest, values: object, variances: object) -> NodeAnswers:
    """Add up leaf values whose noises are independent, as where every leaf was measured itself.

    Raises ValueError if there is not one row and one variance for each leaf, or a variance is
    negative.
    """
    counts = plain_floats("leaf_values", values)
    noise = plain_floats("variances", variances)
    o = forest.n_leaves
    if counts.ndim != 2 or len(counts) != o or not np.isfinite(counts).all():
        raise ValueError(
            f"leaf_values has shape {counts.shape}: expected ({o}, k) finite numbers, a row for "
            f"each leaf."
        )
    noise = np.broadcast_to(noise, (o,)) if noise.ndim == 0 else noise
    if noise.shape != (o,) or not np.isfinite(noise).all() or (noise < 0).any():
        raise ValueError(
            f"leaf_variances has shape {noise.shape}: expected one for all leaves or ({o},), "
            f"finite and not negative."
        )
    sums = leaf_sums(forest)
    return NodeAnswers(
        np.asarray(sums @ counts), np.asarray(sums @ noise), parts_of_parents(forest)
    )


def parts_of_parents(forest: Forest) -> Array:
    """Return the share of its parent's cells that each node holds, shape (nodes,)."""
    parts = np.ones(forest.n_nodes)
    parents = np.maximum(forest.parent, 0)
    for mask in _node_masks(forest):
        width = mask.sum(axis=1, dtype=np.float64)
        above = np.where(forest.parent < 0, width, width[parents])
        parts *= np.divide(width, above, out=np.zeros_like(width), where=above > 0)
    return parts


def _leaf_ranges(forest: Forest) -> tuple[Longs, Longs]:
    """Return the first leaf below each node and the one after its last."""
    start = forest.leaf_index.astype(np.int64)
    end = start + 1
    for level in reversed(forest.levels):
        inner = level[forest.n_children[level] > 0]
        first = forest.first_child[inner]
        start[inner] = start[first]
        end[inner] = end[first + forest.n_children[inner] - 1]
    return start, end


def _node_masks(forest: Forest) -> list[Bools]:
    """Return the codes of each node, per attribute: those of its children together."""
    check_allocation("masks of the nodes", (forest.n_nodes, sum(forest.domain.sizes)), 1)
    return [_with_parents(forest, mask) for mask in leaf_masks(forest)]


def _with_parents(forest: Forest, of_leaves: Bools) -> Bools:
    """Return the codes that some leaf below each node holds, (nodes, codes)."""
    masks = np.zeros((forest.n_nodes, of_leaves.shape[1]), dtype=bool)
    masks[forest.leaves] = of_leaves
    for level in reversed(forest.levels):
        inner = level[forest.n_children[level] > 0]
        if len(inner):
            fan = forest.n_children[inner]
            below = concatenated_ranges(forest.first_child[inner], fan)
            masks[inner] = np.logical_or.reduceat(masks[below], np.cumsum(fan) - fan, axis=0)
    return masks
