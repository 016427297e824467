"""Votes that multiply: what leaves add to log odds, and votes as shares of classes.

A leaf ``l`` of tree t adds ``log p(l | c)``, or ``log p(c | l) - log p(c)``, which by Bayes' rule
differs from it by a constant of the leaf. Sums of these over trees that split the same attributes
would count the same evidence many times, so they are multiplied by

    number of attributes / number of splits above the leaves, summed over trees,

after which every attribute counts once on average. Naive Bayes is a forest of one stump for each
attribute: its leaf values are one-way marginals, a tree of depth 0 holds the class totals, and the
factor is 1. Trees of depth 2 that start at each attribute are one-dependence estimators.
"""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.forests import Forest, leaf_masks

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


def posterior_shares(log_posteriors: Array) -> Array:
    """Return ``exp(log_posteriors)`` with rows summing to one, without overflow, (b, k)."""
    weights = np.exp(log_posteriors - log_posteriors.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
