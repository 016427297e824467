"""Faces of forests that know the noise of their leaves."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Array, Seed, Values
from mrf_matrix.base.checks import checked_level, one_word
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.parameters import Records
from mrf_matrix.voting.ensemble import ReleasedEnsemble
from mrf_matrix.voting.ensemble_votes import agreements, checked_draws
from mrf_matrix.voting.intervals import VoteIntervals
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES, NoiseAwareVoting, Shrinkage


class NoiseAwareForest(VoteIntervals, BaseForestClassifier):
    """Intervals of ensembles' weight votes, and redrawn votes under any other rule."""

    ensembles_: tuple[ReleasedEnsemble, ...]
    voting: str
    shrinkage: str

    def voting_and_shrinkage(self) -> tuple[NoiseAwareVoting, Shrinkage]:
        """Return voting and shrinkage in use."""
        self._check_claim()
        voting = one_word("voting", self.voting, NOISE_AWARE_VOTINGS)
        return voting, one_word("shrinkage", self.shrinkage, SHRINKAGES)

    def _known_ensembles(self) -> Sequence[ReleasedEnsemble]:
        for one in self.ensembles_:
            _ = one.release  # refuses where the noise is not known
        return self.ensembles_

    def expected_vote_error(self, X: Records) -> Array:
        """Return the root-mean-square error that noise causes in each record's weight votes.

        Known without private data: from strategy, records and budget alone.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records to predict, in the domain's terms.

        Returns
        -------
        ndarray of shape (b,)
            In records per class, summed over the trees of all ensembles.
        """
        codes = self._codes(X)
        variances = [one.vote_variances(codes) for one in self._known_ensembles()]
        return np.asarray(np.sqrt(np.sum(variances, axis=0)))

    def predict_or_abstain(
        self, X: Records, level: float = 0.95, *, n_draws: int = 100, random_state: Seed = None
    ) -> Values:
        """Return labels, masked where noise may have chosen them.

        Under weight voting without shrinkage, where the interval of the margin holds 0. Under any
        other rule the noise is drawn again, and a label is withheld that less than `level` of the
        redrawn votes agree with; see `mrf_matrix.voting.ensemble_votes`.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        level : float, default=0.95
            See `vote_intervals`; else the share of redrawn votes that must agree.
        n_draws : int, default=100
            Redrawn votes. Not used where intervals are known.
        random_state : int or Generator, optional
            Seed of the redrawn noise. Not used where intervals are known.

        Returns
        -------
        numpy.ma.MaskedArray of shape (b,)
            Predicted classes; masked is withheld.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1, the draws are too few for it, or the release is
            not at hand, as in a forest from a model file.
        """
        wanted = checked_level(level)
        rule = self.voting_and_shrinkage()
        if rule == ("weight", "none"):
            return super().predict_or_abstain(X, wanted)
        draws = checked_draws(n_draws, wanted)
        codes = self._codes(X)
        best = self._votes(X).argmax(axis=1)
        generator = np.random.default_rng(random_state)
        found = agreements(self._known_ensembles(), codes, best, rule, draws, generator)
        return np.ma.masked_array(self.classes_[best], mask=(found < wanted * (draws + 1)))
