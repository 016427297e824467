"""Sources of grown trees, each criterion and choice once, and records to grow them from."""

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.forests import BreimanTrees, MultinomialTrees

SIZES = (5, 3, 7, 2)
SOURCES = [
    MultinomialTrees(12),
    MultinomialTrees(12, criterion="entropy", nominal=(0, 3)),
    MultinomialTrees(12, b1=0, b2=0, split_pure=True),
    MultinomialTrees(12, b1=float("inf"), b2=float("inf"), partition_rate=2.0),
    BreimanTrees(12),
    BreimanTrees(12, "entropy", nominal=("x1",)),
    MultinomialTrees(12, max_depth=2),
]


def records_to_grow_from():
    """Return a domain, codes and labels that follow two of four attributes."""
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 400) for size in SIZES], axis=1)
    labels = (codes[:, 0] + codes[:, 2] + rng.integers(0, 4, 400)) // 5
    return Domain.from_sizes(SIZES, int(labels.max()) + 1), codes, labels
