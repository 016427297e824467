"""Labels and probabilities by noisy counts of single attributes, multiplied."""

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.shown import shown
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.parameters import Outside, Records
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release
from mrf_matrix.voting.leaf_evidence import LEAST_TOTAL
from mrf_matrix.voting.naive_bayes import naive_bayes_leaf_logs, posterior_shares
from mrf_matrix.voting.voting import forest_votes


class NaiveBayesVotes(BaseForestClassifier):
    """A classifier that has noisy counts of stumps; subclasses say where they come from.

    Attributes
    ----------
    forest_ : Forest
        A stump an attribute, and the tree of class totals.
    release_ : Release
        The noisy measurement.
    leaf_values_ : ndarray of shape (o, k)
        Noisy class counts of the leaves, in the order of `classes_`.
    """

    alpha: float
    forest_: Forest
    release_: Release
    leaf_values_: Array
    _learned = "leaf_values_"

    def _votes(self, X: Records) -> Array:
        """Return log posteriors, less a constant."""
        codes = self._codes(X)
        floor = 0.0 if self.release_.noise == "none" else LEAST_TOTAL
        logs = naive_bayes_leaf_logs(
            self.forest_, self.leaf_values_, checked_alpha(self.alpha), floor
        )
        absent = np.isneginf(logs).any(axis=0)  # 0 * -inf is no number in a matrix product
        votes = forest_votes(self.forest_, codes, np.where(absent, 0.0, logs))
        return np.where(absent, -np.inf, votes)

    def predict_proba(self, X: Records, *, outside: Outside = "refuse") -> Array:
        """Return the posterior of each class under independence, (b, k), from the noisy counts."""
        return posterior_shares(self._votes(self._within(X, outside)))


LEAST_ALPHA, LARGEST_ALPHA = 1e-100, 1e100


def checked_alpha(alpha: object) -> float:
    """Return a number of records within `LEAST_ALPHA` and `LARGEST_ALPHA`, or refuse."""
    if isinstance(alpha, int | float | np.integer | np.floating) and not isinstance(alpha, bool):
        number = float(alpha)
        if LEAST_ALPHA <= number <= LARGEST_ALPHA:
            return number
    raise ValueError(
        f"alpha={shown(alpha)}: expected a positive number of records from {LEAST_ALPHA} to "
        f"{LARGEST_ALPHA}, for example 1.0."
    )
