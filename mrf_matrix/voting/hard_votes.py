"""The votes of leaves in hard voting; their noise is `mrf_matrix.error.vote_noise`."""

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms import CellCounts


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
    return CellCounts(counts.codes, votes, counts.sizes)
