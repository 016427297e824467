"""Leaves that all parties fill: each sends what it holds there, the server takes a mean."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.base.checks import one_word
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.federated.systems.growing import Part, class_shares
from mrf_matrix.forests import Forest

Aggregate = Literal["all", "reached", "pooled"]


def adjusted_leaves(forest: Forest, parts: Sequence[Part], aggregate: str = "all") -> Array:
    """Return each leaf's class probabilities: the mean of what the parties find in it.

    Party i sends down all of its records. In a leaf they have class shares ``p_i``, which it
    reports where it has records; "averaging across all clients" can be read in three ways, ::

        all       sum of p_i over k, a party that does not reach the leaf counting as 0
        reached   mean of p_i over the parties that reach it
        pooled    mean weighted by their numbers of records: shares of all records together

    Parameters
    ----------
    forest : Forest
        Over a domain with a target; grown by the parties, or any other.
    parts : sequence of (codes, labels)
    aggregate : {"all", "reached", "pooled"}, default="all"
        "all" is what the poster says to the letter, and agrees with its table. Its vectors sum
        to the share of parties that reach the leaf.

    Returns
    -------
    ndarray of shape (o, c)
        A leaf without any record has the vector of the nearest node above that has some. Leaves
        that the parties grew have records. **Not private**: shares in small leaves are records.

    Notes
    -----
    The largest arrays are (nodes, c) of doubles, three of them, whatever the number of parties.
    """
    one_word("aggregate", aggregate, get_args(Aggregate))
    k = forest.domain.n_classes
    total = np.zeros((forest.n_nodes, k))
    weight = np.zeros(forest.n_nodes)
    for codes, labels in parts:
        if not len(codes):
            continue
        counts = node_counts(forest, leaf_counts(forest, codes, labels, k))
        total += counts if aggregate == "pooled" else class_shares(counts)
        weight += counts.sum(axis=1) if aggregate == "pooled" else counts.any(axis=1)
    place = _nearest_reached(forest, weight > 0)
    divisor = np.full_like(weight, len(parts)) if aggregate == "all" else np.maximum(weight, 1)
    return np.asarray(total[place] / divisor[place, None])


def node_counts(forest: Forest, counts: Longs) -> Longs:
    """Return the class counts of all nodes from those of the leaves."""
    found = np.zeros((forest.n_nodes, counts.shape[1]), dtype=np.int64)
    found[forest.leaves] = counts
    for level in reversed(forest.levels[1:]):
        np.add.at(found, forest.parent[level], found[level])
    return found


def _nearest_reached(forest: Forest, is_reached: Bools) -> Longs:
    """Return for each leaf itself or the nearest node above that a record reaches."""
    place = forest.leaves.astype(np.int64)
    for _ in range(forest.max_depth):
        place = np.where(
            is_reached[place] | (forest.parent[place] < 0), place, forest.parent[place]
        )
    return np.asarray(place)
