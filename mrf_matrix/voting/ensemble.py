"""One ensemble of a forest as it was released: leaf values that know their noise."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrf_matrix.base.arrays import Array, Codes, Ints
from mrf_matrix.compilation import path_matrix, prediction_workload, query_matrix
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.forests import Forest
from mrf_matrix.forests.forest import seen_columns
from mrf_matrix.mechanisms import Release, row_variances
from mrf_matrix.voting.ensemble_votes import fresh_leaf_noise
from mrf_matrix.voting.leaf_noise import NoisyLeaves
from mrf_matrix.voting.margin_widths import vote_terms
from strategies import Strategy
from strategies.operators import Operator


@dataclass(frozen=True, eq=False)
class ReleasedEnsemble:
    """What a release leaves of one ensemble; nothing in it is private."""

    features: tuple[int, ...]  # positions of its attributes in the domain
    forest: Forest  # its structure, over these attributes
    # (o, k): noisy class counts of the leaves, in the order of the domain's classes
    leaf_values: Array
    release: Release  # the noisy measurement
    strategy: Strategy | None = None  # the strategy in use, where there was one
    # whether the release holds the leaves themselves, as the baselines' do; else it answers them
    leaves_measured: bool = False

    @cached_property
    def leaves(self) -> NoisyLeaves:
        """The leaf values with their noise, which is known without data."""
        noise = self._own_variance if self.leaves_measured else self.release
        return NoisyLeaves(self.forest, self.leaf_values, noise)

    @property
    def leaf_variances(self) -> Array:
        """Noise variance of every leaf value, in each class, shape (o,)."""
        return self.leaves.variances

    def vote_variances(self, codes: Codes) -> Array:
        """Return the expected squared error of every record's weight votes, per class, (b,)."""
        if self._own_weights is not None:
            squares = self._own_weights[self._reached(codes)] ** 2
            return np.asarray(self.release.variance * squares.sum(axis=1))
        return row_variances(self.release, self._votes_asked(codes))

    def vote_terms(self, codes: Codes) -> list[NoiseTerm] | None:
        """Return the weighted noise draws of every record's votes, if they can be afforded."""
        if self._own_weights is not None:
            weights = self._own_weights[self._reached(codes)]
            return [NoiseTerm.of(row, self.release.law) for row in weights]
        return vote_terms(self._votes_asked, self.release, codes)

    def redrawn_noise(self, draws: int, generator: np.random.Generator) -> Array:
        """Return fresh errors of the leaf values, shape (o, k, draws)."""
        answered = None if self.leaves_measured else self.forest
        return fresh_leaf_noise(self.release, answered, draws, generator)

    @cached_property
    def _own_weights(self) -> Array | None:
        """Weight of each leaf's own noise draw, (o,); None where leaves are answered together."""
        if self.leaves_measured:
            return np.full(self.forest.n_leaves, 1 / float(self.release.scale))
        recovery = self.release.mechanism.rounded.recovery
        found = recovery.own_multiples(path_matrix(self.forest))
        return None if found is None else np.abs(found)

    def _reached(self, codes: Codes) -> Ints:
        return self.forest.apply(seen_columns(codes, self.features))

    @property
    def _own_variance(self) -> float:
        """Variance of a leaf that was measured itself."""
        return self.release.variance / float(self.release.scale) ** 2

    def _votes_asked(self, codes: Codes) -> Operator:
        queries = query_matrix(seen_columns(codes, self.features), self.forest.domain)
        return prediction_workload(self.forest, queries)
