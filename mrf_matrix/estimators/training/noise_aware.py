"""Forest classifiers that know the noise of their leaves: votes, probabilities, intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.estimators.shared.base import ForestClassifier
from mrf_matrix.voting.ensemble_votes import ensemble_votes, shares_of_votes
from mrf_matrix.voting.intervals import KnownEnsemble, WeightVoteIntervals
from mrf_matrix.voting.leaf_noise import Shrinkage, check_shrinkage
from mrf_matrix.voting.voting import NoiseAwareVoting, check_noise_aware_voting

Array = NDArray[np.float64]


class NoiseAwareForest(WeightVoteIntervals, ForestClassifier):
    """Votes of ensembles whose leaves know their noise; subclasses say where these come from."""

    ensembles_: Any
    voting: Any
    shrinkage: Any

    def _codes(self, X: Any) -> NDArray[np.int32]:
        """Return the codes of records to predict."""
        raise TypeError(f"{type(self).__name__} has no records: use one of its subclasses.")

    def voting_and_shrinkage(self) -> tuple[NoiseAwareVoting, Shrinkage]:
        """Return voting and shrinkage in use."""
        self._check_claim()
        return check_noise_aware_voting(self.voting), check_shrinkage(self.shrinkage)

    def _votes(self, X: Any) -> Array:
        codes = self._codes(X)
        parts = [(one.features, one.leaves) for one in self.ensembles_]
        return ensemble_votes(parts, codes, *self.voting_and_shrinkage())

    def predict_proba(self, X: Any) -> Array:
        """Return each class's probability, or its share of the votes, by the voting rule.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.

        Returns
        -------
        ndarray of shape (b, k)
            In the order of `classes_`. Posterior probabilities under the known noise for
            "posterior", as in naive Bayes for "product"; for "shares" the leaves' class shares,
            on average, which are less sure than they may be; for "hard" and "weight" shares of
            votes, which are no probabilities.
        """
        votes = self._votes(X)
        return shares_of_votes(votes, self.voting_and_shrinkage()[0])

    def _known_ensembles(self) -> Sequence[KnownEnsemble]:
        ensembles: Sequence[KnownEnsemble] = self.ensembles_
        if any(one.release is None for one in ensembles):
            raise ValueError(
                "the release is not part of a model file, so that the noise of votes is not "
                "known: expected the fitted classifier, or from_release(...)."
            )
        return ensembles
