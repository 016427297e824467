"""Margins of weight votes with honest intervals, and labels withheld where they may be noise.

The weight votes of a record are ``V_c = true_c + U_c``, with U independent between classes and of
one law, known exactly and without data. So every margin ``V_a - V_b`` has an error of known law,
whatever the records; `margin_widths` takes its quantiles. Which two classes lead is read off the
noisy votes, so the level is shared among all pairs of classes (Bonferroni): the interval covers
the true margin with at least the level, whichever pair leads.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Array, Codes, Values
from mrf_matrix.voting.margin_widths import half_widths
from mrf_matrix.voting.redrawn_votes import agreements, checked_draws


def checked_level(level: Any) -> float:
    """Return a level between 0 and 1, or refuse by name."""
    number = isinstance(level, int | float | np.integer | np.floating)
    if isinstance(level, bool) or not number or not 0 < level < 1:
        raise ValueError(f"level={level!r}: expected a number between 0 and 1, such as 0.95.")
    return float(level)


class VoteIntervals:
    """Intervals and abstention for forest classifiers that know the noise of their votes."""

    classes_: Values

    def _votes(self, X: Any) -> Array:
        raise NotImplementedError

    def voting_and_shrinkage(self) -> tuple[Any, Any]:
        """Return voting and shrinkage."""
        raise NotImplementedError

    def _codes(self, X: Any) -> Codes:
        raise NotImplementedError

    def _known_ensembles(self) -> Sequence[Any]:
        """Return the ensembles, all with the releases that their noise follows from."""
        raise NotImplementedError

    def expected_vote_error(self, X: Any) -> Array:
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

    def vote_intervals(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Return the margin of the leading class over the next, and its interval's half-width.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        level : float, default=0.95
            Probability, over the noise, that the interval holds the margin that the same forest
            would have without noise. It is not the probability that the label is right.

        Returns
        -------
        margin : ndarray of shape (b,)
            In votes, not negative.
        half_width : ndarray of shape (b,)
            From the exact law of the votes' noise, or a width that is sure to be wider; see
            `mrf_matrix.voting.margin_widths`. Shared among all pairs of classes.

        Raises
        ------
        ValueError
            If `voting` is not "weight" (other votes have no such variance; changing it costs
            nothing), or the level is not between 0 and 1.
        """
        wanted = checked_level(level)
        return self._interval(self._weight_votes(X), X, wanted)

    def predict_or_abstain(
        self, X: Any, level: float = 0.95, *, n_draws: int = 100, random_state: Any = None
    ) -> Any:
        """Return labels, masked where noise may have chosen them.

        Under weight voting without shrinkage, where the interval of the margin holds 0. Under any
        other rule the noise is drawn again, and a label is withheld that less than `level` of the
        redrawn votes agree with; see `mrf_matrix.voting.redrawn_votes`.

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
            votes = self._votes(X)
            margin, half_width = self._interval(votes, X, wanted)
            return np.ma.masked_array(
                self.classes_[votes.argmax(axis=1)], mask=(margin <= half_width)
            )
        draws = checked_draws(n_draws, wanted)
        codes = self._codes(X)
        best = self._votes(X).argmax(axis=1)
        generator = np.random.default_rng(random_state)
        found = agreements(self._known_ensembles(), codes, best, rule, draws, generator)
        return np.ma.masked_array(self.classes_[best], mask=(found < wanted * (draws + 1)))

    def _interval(self, votes: Array, X: Any, level: float) -> tuple[Array, Array]:
        ensembles = self._known_ensembles()
        if votes.shape[1] == 1:
            return np.full(len(votes), np.inf), np.zeros(len(votes))
        leading = np.sort(votes, axis=1)
        widths = half_widths(ensembles, self._codes(X), level, votes.shape[1])
        return leading[:, -1] - leading[:, -2], widths

    def _weight_votes(self, X: Any) -> Array:
        voting, shrinkage = self.voting_and_shrinkage()
        if voting != "weight" or shrinkage != "none":
            raise ValueError(
                f"voting={voting!r}, shrinkage={shrinkage!r}: intervals are known for weight votes "
                f"of unbiased leaves only. Expected voting='weight', shrinkage='none'. Both come "
                f"after the measurement of this classifier: set_params(...) costs nothing here."
            )
        return self._votes(X)
