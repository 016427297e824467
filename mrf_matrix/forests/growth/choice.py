"""Draw one of several scored options per node: softmax of min-max normalised scores.

With Î the scores of a node scaled to [0, 1], option i has probability proportional to
``exp(B Î_i / 2)``. ``B = 0`` is uniform, ``B = inf`` uniform among the best; where all scores are
equal every Î is 0, so every option is as likely, whatever B.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Longs


def softmax_weights(scores: Array, low: Array, high: Array, b: Array) -> Array:
    """Return weights proportional to the probabilities, 1 for the best option of a node.

    `scores`: scores; minus infinity for what is no option; `low`, `high`: least and largest score
    of the node, of a shape that broadcasts; `b`: the node's B, from 0 to infinity.
    """
    span = np.where(high > low, high - low, 1.0)
    behind = np.where(np.isfinite(scores), (high - scores) / span, np.inf)
    with np.errstate(invalid="ignore"):  # inf * 0, both ways round, is decided below
        weights = np.exp(-b / 2 * behind)
    weights = np.where(behind == 0, 1.0, weights)
    return np.asarray(np.where(np.isinf(behind), 0.0, weights))


def choose_rows(scores: Array, b: Array, uniform: Array) -> Longs:
    """Choose a row for every column of a score table (options x nodes); -1 where there is none.

    `scores` (options, nodes): minus infinity marks what is no option; `b`, `uniform` (nodes,): the
    node's B, and one uniform number in [0, 1) a node.
    """
    high = scores.max(axis=0)
    low = np.where(np.isfinite(scores), scores, np.inf).min(axis=0)
    none = np.isneginf(high)
    high, low = np.where(none, 0.0, high), np.where(none, 0.0, low)
    running = np.cumsum(softmax_weights(scores, low, high, b), axis=0)
    chosen = (running <= uniform * running[-1]).sum(axis=0)
    return np.asarray(np.where(none, -1, np.minimum(chosen, len(scores) - 1)))


def choose_in_groups(
    group: NDArray[Any], scores: Array, b: Array, uniform: Array, n_groups: int
) -> Longs:
    """Choose one option within every group of consecutive options; -1 for an empty group.

    `group` (options,): each option's group, non-decreasing; `scores` (options,); `b`, `uniform`
    (n_groups,).
    """
    result = np.full(n_groups, -1, dtype=np.int64)
    if not len(group):
        return result
    first = np.flatnonzero(np.diff(group, prepend=-1))
    found = group[first]
    length = np.diff(first, append=len(group))
    high = np.repeat(np.maximum.reduceat(scores, first), length)
    low = np.repeat(np.minimum.reduceat(scores, first), length)
    running = np.cumsum(softmax_weights(scores, low, high, np.repeat(b[found], length)))
    before = np.append(0.0, running)[first]
    target = before + uniform[found] * (running[first + length - 1] - before)
    chosen = np.searchsorted(running, target, side="right")
    result[found] = np.minimum(np.maximum(chosen, first), first + length - 1)
    return result
