"""Leaf values to votes to labels: post-processing of what was already released.

Every rule works on a sparse incidence (records x leaves) times a small (leaves x classes) table,
so votes are one matrix product. Ties are broken by public rules only: a leaf whose largest values
tie shares its vote among the tied classes, and a record whose largest votes tie gets the class
that comes first in `classes_`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Literal, get_args

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.mechanisms.counts.cells import distinct_cells

Voting = Literal["hard", "weight"]
VOTINGS: tuple[Voting, ...] = get_args(Voting)
NoiseAwareVoting = Literal["hard", "weight", "product", "shares", "posterior"]
NOISE_AWARE_VOTINGS: tuple[NoiseAwareVoting, ...] = get_args(NoiseAwareVoting)
Shrinkage = Literal["none", "votes", "leaves"]
SHRINKAGES: tuple[Shrinkage, ...] = get_args(Shrinkage)

ROUTED_AT_ONCE = 2**22  # leaf numbers held at once while predicting (16 MiB of int32)

MANY_TREES = 8
"""Trees from which routing a record takes longer than sorting its cell's number (measured)."""

FEW_RECORDS = 2**12  # records that are voted on one by one: there is nothing to save


def leaf_votes(leaf_values: Array, voting: Voting) -> Array:
    """Return what each leaf adds to the votes of a record that reaches it, shape (o, k).

    `leaf_values` (o, k): released (noisy) class counts of the leaves; `voting` {"hard", "weight"}:
    "hard": one vote for the leaf's largest class, shared equally among ties. "weight": the class
    counts themselves, as in ``V = Q Tᵀ C``.
    """
    if voting == "weight":
        return leaf_values
    best = leaf_values == leaf_values.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def forest_votes(forest: Forest, codes: Codes, votes_of_leaf: Array) -> Array:
    """Return the votes of every record, ``Q Tᵀ`` times the leaves' votes, shape (b, k).

    The largest temporary is the leaf numbers of one block of records (`ROUTED_AT_ONCE`).
    """
    routed = partial(_routed_votes, forest, votes_of_leaf=votes_of_leaf)
    return per_distinct_row(
        routed, codes, forest.domain.sizes, expensive=forest.n_trees >= MANY_TREES
    )


def per_distinct_row(
    votes: Callable[[Codes], Array], codes: Codes, sizes: tuple[int, ...], *, expensive: bool
) -> Array:
    """Return the votes of every record, worked out once for a cell where many records share it.

    `votes`: from codes of shape (b, d) to votes of shape (b, k), row by row; `codes` (b, d);
    `sizes`: attribute sizes of the domain; `expensive`: whether a record's votes take longer than
    sorting its cell's number.
    """
    if len(codes) < FEW_RECORDS or prod(sizes) > (2**62 if expensive else 4 * len(codes)):
        return votes(codes)
    rows, own = distinct_cells(codes, sizes)
    return (
        votes(rows.astype(np.int32, copy=False))[own]
        if 2 * len(rows) <= len(codes)
        else votes(codes)
    )


def _routed_votes(forest: Forest, codes: Codes, votes_of_leaf: Array) -> Array:
    total = np.empty((len(codes), votes_of_leaf.shape[1]))
    for block in record_blocks(len(codes), forest.n_trees):
        leaves = forest.apply(codes[block])
        incidence = sparse.csr_array(
            (np.ones(leaves.size), leaves.ravel(), np.arange(0, leaves.size + 1, forest.n_trees)),
            shape=(len(leaves), forest.n_leaves),
        )
        total[block] = np.asarray(incidence @ votes_of_leaf)
    return total


def record_blocks(n_records: int, n_trees: int) -> Iterator[slice]:
    """Cut the records into blocks of at most `ROUTED_AT_ONCE` (record, tree) pairs."""
    step = max(1, ROUTED_AT_ONCE // max(1, n_trees))
    return (slice(start, start + step) for start in range(0, n_records, step))


def log_shares(shares: Array) -> Array:
    """Return the logarithms of shares; that of 0 is that of the smallest positive number."""
    return np.asarray(np.log(np.maximum(shares, np.finfo(np.float64).tiny)))


def log_odds_of(shares: Array) -> Array:
    """Return the log odds that shares (b, k) state: of the second of two classes, (b,).

    Of several classes each one's odds are against all others, (b, k).
    """
    logs = log_shares(shares)
    if shares.shape[1] == 2:
        return np.asarray(logs[:, 1] - logs[:, 0])
    return np.asarray(logs - log_shares(1 - shares))


def vote_shares(votes: Array) -> Array:
    """Return votes as shares that sum to one, keeping each row's order of classes.

    A row with negative (noisy) votes is shifted so that its least vote is zero; a row without
    any preference is uniform. These are shares of votes, not calibrated probabilities.
    """
    shifted = votes - np.minimum(votes.min(axis=1, keepdims=True), 0.0)
    total = shifted.sum(axis=1, keepdims=True)
    uniform = np.full_like(shifted, 1.0 / votes.shape[1])
    return np.asarray(np.divide(shifted, total, out=uniform, where=total > 0))


def leaf_labels(counts: CellCounts, preference: Array) -> CellCounts:
    """Return the hard votes of leaves: one vote for the largest class of each leaf with records.

    `counts`: records of each class in each leaf that has any; `preference` (o, k): public random
    numbers: among tied classes the one of the largest number gets the vote.
    """
    leaves = counts.codes[:, 0]
    tied = counts.counts == counts.counts.max(axis=1, keepdims=True, initial=0)
    winner = np.where(tied, preference[leaves], -1.0).argmax(axis=1)
    votes = np.zeros_like(counts.counts)
    votes[np.arange(len(votes)), winner] = 1
    return CellCounts(counts.codes, votes, counts.sizes, _provenance=counts.provenance)
