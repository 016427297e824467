"""Margins of votes with honest intervals, and labels withheld where they may be noise.

The weight votes of a record are ``V_c = true_c + U_c``, with U independent between classes and of
one law, known exactly and without data. So every margin ``V_a - V_b`` has an error of known law,
whatever the records; `margin_widths` takes its quantiles. Which two classes lead is read off the
noisy votes, so the level is shared among all pairs of classes (Bonferroni): the interval covers
the true margin with at least the level, whichever pair leads.
"""

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Values
from mrf_matrix.base.checks import checked_level
from mrf_matrix.domain.columns import Records

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
