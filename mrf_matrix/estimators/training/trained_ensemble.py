"""What a training release leaves of one ensemble."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import prediction_workload, query_matrix
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import Release, row_variances
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.voting.leaf_noise import NoisyLeaves
from mrf_matrix.voting.redrawn_votes import fresh_leaf_noise
from mrf_matrix.voting.vote_draws import vote_terms
from strategies import Strategy
from strategies.operators import Operator

Array = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """What a training release leaves of one ensemble; nothing in it is private.

    Attributes
    ----------
    features : tuple of int
        Positions of its attributes in the domain.
    forest : Forest
        Its structure, over these attributes.
    strategy : Strategy or None
        The strategy in use; None for the baselines.
    release : Release
        The noisy measurement.
    leaf_values : ndarray of shape (o, k)
        Noisy class counts of the leaves, in the order of the estimator's `classes_`.
    """

    features: tuple[int, ...]
    forest: Forest
    strategy: Strategy | None
    release: Release
    leaf_values: Array

    @classmethod
    def of(cls, part: PlanPart, release: Release, leaf_values: Array) -> "TrainedEnsemble":
        """Return what a part's release leaves of its ensemble."""
        ensemble = part.ensemble
        return cls(ensemble.features, ensemble.forest, part.strategy, release, leaf_values)

    @cached_property
    def leaves(self) -> NoisyLeaves:
        """The leaf values with their noise, which is known without data."""
        if self.strategy is not None:
            return NoisyLeaves(self.forest, self.leaf_values, self.release)
        own = self.release.variance / float(self.release.scale) ** 2  # leaves measured themselves
        return NoisyLeaves(self.forest, self.leaf_values, own)

    @property
    def leaf_variances(self) -> Array:
        """Noise variance of every leaf value, in each class, shape (o,)."""
        return self.leaves.variances

    def vote_variances(self, codes: Codes) -> Array:
        """Return the expected squared error of every record's weight votes, per class, (b,)."""
        if self.strategy is None:  # every leaf has its own noise
            own = self.release.variance / float(self.release.scale) ** 2
            return np.full(len(codes), own * self.forest.n_trees)
        return row_variances(self.release, self._votes_asked(codes))

    def vote_terms(self, codes: Codes) -> list[NoiseTerm] | None:
        """Return the weighted noise draws of every record's votes, if they can be afforded."""
        if self.strategy is None:
            weights = np.full(self.forest.n_trees, 1 / float(self.release.scale))
            return [NoiseTerm.of(weights, self.release.law)] * len(codes)
        return vote_terms(self._votes_asked, self.release, codes)

    def redrawn_noise(self, draws: int, generator: np.random.Generator) -> Array:
        """Return fresh errors of the leaf values, shape (o, k, draws)."""
        answered = None if self.strategy is None else self.forest
        return fresh_leaf_noise(self.release, answered, draws, generator)

    def _votes_asked(self, codes: Codes) -> Operator:
        queries = query_matrix(Ensemble(self.features, self.forest).view(codes), self.forest.domain)
        return prediction_workload(self.forest, queries)
