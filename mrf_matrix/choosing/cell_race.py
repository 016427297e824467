"""A forest over every cell of its domain, trained on one table of cells after another.

All of a race is public, and made before anything is measured: tables come later.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.choosing.cell_recovery import CellRecovery
from mrf_matrix.forests import Forest
from mrf_matrix.voting.ensemble_votes import what_leaves_say, with_prior
from mrf_matrix.voting.leaf_evidence import evidence_scale
from mrf_matrix.voting.leaf_noise import LeafNoise, NoisyLeaves, Shrinkage, noise_of_release
from mrf_matrix.voting.voting import NoiseAwareVoting
from strategies.operators import check_allocation

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CellRace:
    """What does not change from table to table.

    Attributes
    ----------
    leaves : NoisyLeaves
        Without values; its noise is the release's.
    reached : csr_array of shape (n, o)
        Hands leaves down to cells; its transpose, the path matrix, adds cells up to leaves.
    scale : float
        See `evidence_scale`.
    """

    leaves: NoisyLeaves
    reached: sparse.csr_array
    scale: float

    @classmethod
    def of(cls, forest: Forest, recovery: CellRecovery) -> "CellRace":
        """Send every cell down every tree.

        Raises
        ------
        RowSpaceError
            If the release does not determine the forest's leaves.
        MemoryCapError
            If the leaves of all cells in all trees are too many.
        """
        n, classes = len(recovery.codes), recovery.n_classes
        check_allocation("leaves of all cells", (n, 2 * forest.n_trees))
        numbers = forest.apply(recovery.codes)
        ends = np.arange(0, numbers.size + 1, forest.n_trees)
        reached = sparse.csr_array(
            (np.ones(numbers.size), numbers.ravel(), ends), shape=(n, forest.n_leaves)
        )
        noise = noise_of_release(forest, recovery.blank_release())
        empty = NoisyLeaves(forest, np.zeros((forest.n_leaves, classes)), noise)
        scale = evidence_scale([(tuple(range(forest.domain.n_attributes)), forest)])
        return cls(empty, reached, scale)

    def trained(self, table: Array, factor: float = 1.0) -> NoisyLeaves:
        """Return the leaves of a table of cells (n, k) with noise of `factor` times the variance.

        By the release's own cells these are its answers to the leaves.
        """
        noise: LeafNoise = self.leaves.noise if factor == 1.0 else self.leaves.noise.times(factor)
        return self.leaves.with_values(np.asarray(self.reached.T @ table), noise)

    def labels(
        self, table: Array, factor: float, rules: Sequence[tuple[NoiseAwareVoting, Shrinkage]]
    ) -> list[Labels]:
        """Train on a table and return the label of every cell under each rule, each (n,).

        Parameters
        ----------
        table : ndarray of shape (n, k)
        factor : float
            Variance of its noise, as a multiple of the release's.
        rules : sequence of (voting, shrinkage)
        """
        leaves = self.trained(table, factor)
        said = [what_leaves_say(leaves, voting, shrinkage) for voting, shrinkage in rules]
        summed = np.asarray(self.reached @ np.hstack([words.table for words in said]))
        k, noisy = table.shape[1], leaves.is_noisy
        return [
            with_prior(summed[:, i * k : i * k + k], [words], rule[0], self.scale, noisy=noisy)
            .argmax(axis=1)
            .astype(np.int64)
            for i, (words, rule) in enumerate(zip(said, rules, strict=True))
        ]
