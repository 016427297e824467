"""Margins of votes with honest intervals, and labels withheld where they may be noise.

The weight votes of a record are ``V_c = true_c + U_c``, with U independent between classes and of
one law, known exactly and without data. So every margin ``V_a - V_b`` has an error of known law,
whatever the records; `margin_widths` takes its quantiles. Which two classes lead is read off the
noisy votes, so the level is shared among all pairs of classes (Bonferroni): the interval covers
the true margin with at least the level, whichever pair leads.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Codes, Seed, Values
from mrf_matrix.base.checks import checked_level
from mrf_matrix.domain.columns import Records
from mrf_matrix.voting.ensemble_votes import RedrawableEnsemble, agreements, checked_draws
from mrf_matrix.voting.margin_widths import VotingEnsemble, half_widths
from mrf_matrix.voting.voting import NoiseAwareVoting, Shrinkage

Margins = tuple[NDArray[np.intp], Array, Array, Array]
"""The number of the leading class, its margin over the next, and how far the interval goes below
it and above, each (b,)."""


def leading_margins(votes: Array, half_width: Array) -> Margins:
    """Return margins of votes (b, k), with one width for both sides; one class is always ahead."""
    best = votes.argmax(axis=1)
    if votes.shape[1] == 1:
        return best, np.full(len(votes), np.inf), np.zeros(len(votes)), np.zeros(len(votes))
    leading = np.sort(votes, axis=1)
    return best, leading[:, -1] - leading[:, -2], half_width, half_width


class VoteIntervals:
    """Intervals and abstention for classifiers that know the noise of their margins."""

    classes_: Values

    def _margins(self, X: Records, level: float) -> Margins:
        """Return leading classes, margins and widths at a checked level."""
        raise NotImplementedError

    def vote_intervals(self, X: Records, level: float = 0.95) -> tuple[Array, Array, Array]:
        """Return the margin of the leading class over the next, and how far its interval goes.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms. Classifiers that answer queries in batches release new
            ones first, as `predict` does.
        level : float, default=0.95
            Probability, over the noise, that the interval holds the margin that the same forest
            would have without noise; of a posterior forest, coverage under its model. It is not
            the probability that the label is right.

        Returns
        -------
        margin, below, above : ndarrays of shape (b,)
            The interval goes from ``margin - below`` to ``margin + above``. In votes, by
            `mrf_matrix.voting.margin_widths`, shared among all pairs of classes. Of a posterior
            forest in log odds, with a margin of 0 where a class leads by its averaged probability
            only. No number is negative. Both sides are alike but those of a tree of labels and of
            tables beside one, whose intervals leave out as much below as above.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1, the votes have no intervals (other than weight
            votes of a forest, or one class of a posterior), or new queries cannot be paid.
        """
        _, margin, below, above = self._margins(X, checked_level(level))
        return margin, below, above

    def predict_or_abstain(self, X: Records, level: float = 0.95) -> Values:
        """Return labels, masked where the interval of the margin holds 0: noise may have chosen.

        Of a posterior, a label that is given leads with a probability of ``(1 + level) / 2`` or
        more under its model, for the interval leaves out as much on either side.

        Parameters
        ----------
        X, level
            See `vote_intervals`.

        Returns
        -------
        numpy.ma.MaskedArray of shape (b,)
            Predicted classes; masked is withheld.
        """
        best, margin, below, _ = self._margins(X, checked_level(level))
        return np.ma.masked_array(self.classes_[best], mask=(margin <= below))


class KnownEnsemble(VotingEnsemble, RedrawableEnsemble, Protocol):
    """One ensemble with the release that its noise follows from."""


class WeightVoteIntervals(VoteIntervals):
    """Intervals of the weight votes of ensembles, and redrawn votes under any other rule."""

    def _votes(self, X: Records) -> Array:
        raise NotImplementedError

    def voting_and_shrinkage(self) -> tuple[NoiseAwareVoting, Shrinkage]:
        raise NotImplementedError

    def _codes(self, X: Records) -> Codes:
        raise NotImplementedError

    def _known_ensembles(self) -> Sequence[KnownEnsemble]:
        raise NotImplementedError

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

    def _margins(self, X: Records, level: float) -> Margins:
        voting, shrinkage = self.voting_and_shrinkage()
        if voting != "weight" or shrinkage != "none":
            raise ValueError(
                f"voting={voting!r}, shrinkage={shrinkage!r}: intervals are known for weight votes "
                f"of unbiased leaves only. Expected voting='weight', shrinkage='none'. Both come "
                f"after the measurement of this classifier: set_params(...) costs nothing here."
            )
        votes, ensembles = self._votes(X), self._known_ensembles()
        widths = half_widths(ensembles, self._codes(X), level, votes.shape[1])
        return leading_margins(votes, widths)
