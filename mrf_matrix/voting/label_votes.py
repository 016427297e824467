"""Majority vote of leaf labels, ties broken at random, yet the same for equal records.

A tie is broken by the record's leaves: each leaf has a random word, drawn once when the forest is
fitted; their sum decides which of the tied classes wins. So every tied class is as likely, no
record's fate depends on its place among the others, and predicting twice gives the same labels.
"""

import numpy as np

from mrf_matrix.base.arrays import Codes, Longs, Values, Words
from mrf_matrix.forests import Forest
from mrf_matrix.forests.codes import checked_codes
from mrf_matrix.voting.voting import record_blocks


def count_label_votes(forest: Forest, codes: Codes, labels: Values, n_classes: int) -> Longs:
    """Count the trees that vote for each class, (b, k).

    Votes are counted as blocks of records reach their leaves (see `Router.blocks`): no array of
    records x trees is made.
    """
    cells = checked_codes(codes, forest.domain.sizes, forest.domain.names)
    votes = np.zeros((len(cells), n_classes), dtype=np.int64)
    label_of_node = np.zeros(forest.n_nodes, dtype=np.int64)
    label_of_node[forest.leaves] = labels
    for records, _, nodes in forest.router.blocks(cells):
        chosen = label_of_node[nodes]
        chosen += np.arange(chosen.shape[1]) * n_classes
        counts = np.bincount(chosen.ravel(), minlength=chosen.shape[1] * n_classes)
        votes[records] += counts.reshape(-1, n_classes)
    return votes


def winners(forest: Forest, codes: Codes, votes: Longs, leaf_words: Words) -> Longs:
    """Return the class with the most votes of each record; ties by the record's leaves."""
    best = votes.argmax(axis=1)
    tied = votes == votes.max(axis=1, keepdims=True)
    number = tied.sum(axis=1)
    rows = np.flatnonzero(number > 1)
    for block in record_blocks(len(rows), forest.n_trees):
        part = rows[block]
        leaves, back = np.unique(codes[part], axis=0, return_inverse=True)
        words = leaf_words[forest.apply(leaves)].sum(axis=1, dtype=np.uint64)[back.ravel()]
        pick = (words >> np.uint64(33)) % number[part].astype(np.uint64)
        rank = np.cumsum(tied[part], axis=1) - 1
        best[part] = (tied[part] & (rank == pick[:, None].astype(np.int64))).argmax(axis=1)
    return np.asarray(best)
