"""Naive Bayes as a forest: one stump for each attribute, whose leaves' probabilities multiply.

A depth-1 tree on attribute i has the leaves ``x_i = v``; its leaf values are the one-way marginal
of attribute i in every class. A tree of depth 0 has one leaf: the class totals. Adding the logs of
class-conditional leaf probabilities over all trees is naive Bayes.
"""

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.provenance import FOREST
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.block_trees import table_forest
from mrf_matrix.voting.leaf_evidence import product_logs

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
