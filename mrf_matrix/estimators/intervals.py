"""Margins of weight votes with honest intervals, and labels withheld where they may be noise.

The weight votes of a record are ``V_c = true_c + U_c``, with U independent between classes and of
one variance v, known exactly and without data. So every margin ``V_a - V_b`` has an error of
variance ``2 v``, whatever the records. Its law lies between that of a difference of two Laplace
draws, where a single draw makes up the vote, and the normal law, where many do (and always under
Gaussian noise): the half-width takes the wider of their quantiles. Which two classes lead is read
off the noisy votes, so the level is shared among all pairs of classes (Bonferroni): the interval
covers the true margin with at least the level, whichever pair leads.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from mrf_matrix.mechanisms.noise import DiscreteGaussian, NoiseLaw, NoNoise

Array = NDArray[np.float64]


def margin_quantile(level: float, n_classes: int, *, gaussian: bool) -> float:
    """Return the half-width of a margin's interval in standard deviations of its error.

    Parameters
    ----------
    level : float
        Coverage, between 0 and 1, of all pairs of classes together.
    n_classes : int
    gaussian : bool
        Whether the noise is Gaussian: then the normal law is the law.

    Examples
    --------
    >>> round(margin_quantile(0.95, 2, gaussian=True), 3)
    1.96
    >>> round(margin_quantile(0.95, 2, gaussian=False), 3)
    2.057
    """
    missed = (1 - level) / max(1, n_classes * (n_classes - 1) // 2)
    normal = float(-ndtri(missed / 2))
    return normal if gaussian else max(normal, _laplace_difference(missed))


def _laplace_difference(missed: float) -> float:
    """Return the two-sided quantile of a difference of two Laplace draws, in its deviations.

    With draws of scale 1 the difference exceeds u with probability ``(1 + u / 2) exp(-u)`` on
    both sides together; its variance is 4.
    """

    def excess(u: float) -> float:
        return float(np.log1p(u / 2) - u - np.log(missed))

    return float(brentq(excess, 0.0, 4 - 2 * np.log(missed))) / 2


def checked_level(level: Any) -> float:
    """Return a level between 0 and 1, or refuse by name."""
    number = isinstance(level, int | float | np.integer | np.floating)
    if isinstance(level, bool) or not number or not 0 < level < 1:
        raise ValueError(f"level={level!r}: expected a number between 0 and 1, such as 0.95.")
    return float(level)


class VoteIntervals:
    """Intervals and abstention for forest classifiers that know the noise of their votes."""

    classes_: NDArray[Any]

    def _votes(self, X: Any) -> Array:
        raise NotImplementedError

    def voting_and_shrinkage(self) -> tuple[Any, Any]:
        """Return voting and shrinkage."""
        raise NotImplementedError

    def _vote_noise(self, X: Any) -> tuple[Array, tuple[NoiseLaw, ...]]:
        """Return the variance of every record's weight votes, (b,), and the laws behind it."""
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
        return np.sqrt(self._vote_noise(X)[0])

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
            From the exact variance of the votes; normal quantile under Gaussian noise, the wider
            of the normal and the Laplace quantile else. Shared among all pairs of classes.

        Raises
        ------
        ValueError
            If `voting` is not "weight" (other votes have no such variance; changing it costs
            nothing), or the level is not between 0 and 1.
        """
        wanted = checked_level(level)
        return self._interval(self._weight_votes(X), X, wanted)

    def predict_or_abstain(self, X: Any, level: float = 0.95) -> Any:
        """Return labels, masked where the interval of the margin holds 0: noise may have chosen.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        level : float, default=0.95
            See `vote_intervals`.

        Returns
        -------
        numpy.ma.MaskedArray of shape (b,)
            Predicted classes; masked is withheld.
        """
        wanted = checked_level(level)
        votes = self._weight_votes(X)
        margin, half_width = self._interval(votes, X, wanted)
        labels = self.classes_[votes.argmax(axis=1)]
        return np.ma.masked_array(labels, mask=(margin <= half_width))

    def _interval(self, votes: Array, X: Any, level: float) -> tuple[Array, Array]:
        variances, laws = self._vote_noise(X)
        if votes.shape[1] == 1:
            return np.full(len(votes), np.inf), np.zeros(len(votes))
        leading = np.sort(votes, axis=1)
        gaussian = all(isinstance(law, DiscreteGaussian | NoNoise) for law in laws)
        quantile = margin_quantile(level, votes.shape[1], gaussian=gaussian)
        return leading[:, -1] - leading[:, -2], quantile * np.sqrt(2 * variances)

    def _weight_votes(self, X: Any) -> Array:
        voting, shrinkage = self.voting_and_shrinkage()
        if voting != "weight" or shrinkage != "none":
            raise ValueError(
                f"voting={voting!r}, shrinkage={shrinkage!r}: intervals are known for weight votes "
                f"of unbiased leaves only. Expected voting='weight', shrinkage='none': "
                f"set_params(...) costs nothing."
            )
        return self._votes(X)
