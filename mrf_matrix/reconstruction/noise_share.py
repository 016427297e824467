"""How much of a leaf's noise is left in the average over trees: known without data."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Seed
from mrf_matrix.base.checks import whole_number
from mrf_matrix.compilation import path_matrix, prediction_workload, query_matrix
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from mrf_matrix.reconstruction.pooling import pool_releases


def vote_noise_share(
    forest: Forest,
    releases: Release | Sequence[Release],
    *,
    n_cells: int = 128,
    random_state: Seed = 0,
) -> float:
    """Return the variance of a mean over trees as a share of the variance of one leaf.

    For random cells x of the domain, ``|| (1/τ) Σ_t T_t(x) A⁺ ||²`` over the mean of
    ``|| T_t(x) A⁺ ||²``, where ``T_t(x)`` is the leaf of tree t that holds x. It is 1 where all
    trees ask the same leaf, and 1/τ where their noises are independent. Only the strategies
    matter, not their answers.

    Parameters
    ----------
    forest : Forest
    releases : Release or sequence of Release
    n_cells : int, default=128
        Random cells.
    random_state : None, int or numpy.random.Generator, default=0
        Draws the cells, which are public.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> from strategies.operators import Identity
    >>> counts = count_cells(np.zeros((5, 2), int), np.zeros(5, int), sizes=(4, 4), n_classes=1)
    >>> release = measure(Identity(16, (4, 4)), counts, PureDP(1), noise="research")
    >>> trees = RandomTrees(n_trees=1, max_depth=1)
    >>> vote_noise_share(trees.grow(Domain.from_sizes([4, 4]), random_state=0), release)
    1.0
    """
    n_cells = whole_number("n_cells", n_cells)
    generator = np.random.default_rng(random_state)
    sizes = forest.domain.sizes
    cells = np.stack([generator.integers(0, size, n_cells) for size in sizes], axis=1)
    matrix = pool_releases(releases).matrix
    paths = path_matrix(forest)
    votes = recovered_squares(prediction_workload(paths, query_matrix(cells, sizes)), matrix)
    distinct, number, _ = paths.unique_rows()
    leaves = recovered_squares(distinct, matrix)[number][forest.apply(cells)]
    return float(min(1.0, votes.mean() / forest.n_trees**2 / leaves.mean()))
