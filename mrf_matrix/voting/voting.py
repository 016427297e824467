"""Votes and labels from leaf values: post-processing of what was already released.

Every rule multiplies a sparse incidence (records x leaves) by a small (leaves x classes) table.
Ties are broken by public rules only. A leaf whose largest values tie shares its vote among the tied
classes, and a record whose largest votes tie gets the class that comes first in `classes_`.

*Votes that multiply.* A leaf ``l`` of tree t adds ``log p(l | c)``, or ``log p(c | l) - log p(c)``,
which by Bayes' rule differs from it by a constant of the leaf. Sums of these over trees that split
the same attributes would count the same evidence many times, so they are multiplied by

    number of attributes / number of splits above the leaves, summed over trees,

after which every attribute counts once on average. Naive Bayes is a forest of one stump for each
attribute: its leaf values are one-way marginals, a tree of depth 0 holds the class totals, and the
factor is 1. Trees of depth 2 that start at each attribute are one-dependence estimators.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Literal, get_args

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.provenance import FOREST
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, leaf_masks
from mrf_matrix.forests.ensembles import table_forest
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.mechanisms.counts import distinct_cells

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


SMOOTHING = 1.0  # records added to every leaf in every class (Laplace)

LEAST_TOTAL = 0.5
"""Records that a class has at least, where counts are noisy: below any class that has some."""

FLOOR = 1 / 21
"""Part of the class prior in a leaf's shares: no single leaf multiplies the odds by more."""


def product_logs(forest: Forest, values: Array, alpha: float = SMOOTHING) -> Array:
    """Return ``log((max(c, 0) + α) / (Σ_tree max(c, 0) + α leaves of the tree))``, shape (o, k).

    The class-conditional probability of each leaf, smoothed as in scikit-learn's `CategoricalNB`.
    """
    counts = np.maximum(values, 0.0) + alpha
    totals = np.zeros((forest.n_trees, counts.shape[1]))
    np.add.at(totals, forest.leaf_tree, counts)
    return np.asarray(np.log(counts / totals[forest.leaf_tree]))


def odds_logs(shares: Array, prior: Array) -> Array:
    """Return ``log p(c | l) - log p(c)`` from class shares, (o, k): 0 where a leaf is silent."""
    return np.asarray(np.log((1 - FLOOR) * shares / prior + FLOOR))


def class_prior(totals: Array, *, noisy: bool) -> Array:
    """Return class shares from totals: at least half a record each where there is noise, (k,)."""
    kept = np.maximum(totals, LEAST_TOTAL if noisy else 0.0)
    if not kept.any():
        return np.full(len(kept), 1 / len(kept))
    return np.asarray(kept / kept.sum())


def evidence_scale(parts: Sequence[tuple[tuple[int, ...], Forest]]) -> float:
    """Return attributes over splits: what sums of logs over trees are multiplied by, at most 1.

    `parts`: forests and the positions of their attributes in the whole domain. Attributes that a
    path splits twice count once.

    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> domain = Domain.from_sizes([2, 3, 2, 2])
    >>> forest = RandomTrees(n_trees=8, max_depth=2).grow(domain, random_state=0)
    >>> round(evidence_scale([((0, 1, 2, 3), forest)]), 9)
    0.25
    """
    seen: set[int] = set()
    splits = 0.0
    for features, forest in parts:
        per_tree = np.bincount(forest.leaf_tree, minlength=forest.n_trees)
        for feature, mask in zip(features, leaf_masks(forest), strict=True):
            split = ~mask.all(axis=1)
            if split.any():
                seen.add(feature)
                splits += float((split / per_tree[forest.leaf_tree]).sum())
    return min(1.0, len(seen) / splits) if splits else 1.0


NAIVE_BAYES_SOURCE = "a stump for each attribute, and the class totals"


def naive_bayes_forest(domain: Domain) -> Forest:
    """Return d trees of depth 1 and one of depth 0, the last.

    `domain`: the public schema. Attributes with one code only are left out: they tell nothing.

    Returns
    -------
    Forest
        Leaf values of tree i are counts of attribute i's codes, of the last tree class totals.

    Examples
    --------
    >>> naive_bayes_forest(Domain.from_sizes([2, 3]))
    Forest(3 trees, 6 leaves, depth 1, over 2 attributes, a stump for each attribute, and the \
class totals)
    """
    tables = [(i,) for i, size in enumerate(domain.sizes) if size > 1]
    return table_forest(domain, [*tables, ()], provenance=FOREST, source=NAIVE_BAYES_SOURCE)


def naive_bayes_leaf_logs(forest: Forest, leaf_values: Array, alpha: float, floor: float) -> Array:
    """Return what each leaf adds to the log posterior of a record that reaches it, (o, k).

    With noisy counts ``c`` of class y clipped at zero, the leaf ``x_i = v`` of a stump over
    ``n_i`` codes adds ``log((c_v + alpha) / (sum_u c_u + alpha n_i))``, and the leaf of class
    totals ``log(max(N_y, floor))``, less a constant.

    `forest`: from `naive_bayes_forest`; `leaf_values` (o, k): noisy class counts of its leaves;
    `alpha`: records that are added to every count (Laplace smoothing), positive; `floor`: least
    class total, in records. With 0, a class without records has log probability -inf.
    """
    last = forest.leaf_tree == forest.n_trees - 1
    logs = product_logs(forest, leaf_values, alpha)
    with np.errstate(divide="ignore"):  # a class without records, where nothing is noisy
        logs[last] = np.log(np.maximum(leaf_values[last], floor))
    return logs


def posterior_shares(log_posteriors: Array) -> Array:
    """Return ``exp(log_posteriors)`` with rows summing to one, without overflow, (b, k)."""
    weights = np.exp(log_posteriors - log_posteriors.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
