"""Labels, probabilities and intervals by a posterior, wherever it comes from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mrf_matrix.estimators.base import ForestClassifier
from mrf_matrix.posterior import ProductPosterior

Array = NDArray[np.float64]


class PosteriorVotes(ForestClassifier):
    """A classifier that has a posterior; subclasses say where it and the codes come from.

    Attributes
    ----------
    posterior_ : ProductPosterior
        What a release implies.
    """

    posterior_: ProductPosterior

    def _codes(self, X: Any) -> NDArray[np.int32]:
        """Return the codes of records to predict, shape (b, d)."""
        raise TypeError(f"{type(self).__name__} has no domain: use one of its subclasses.")

    def _votes(self, X: Any) -> Array:
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities, averaged over what noise leaves unknown.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.

        Returns
        -------
        ndarray of shape (b, k)
            Probabilities, in the order of `classes_`.
        """
        codes = self._codes(X)  # tells first whether there is a posterior
        return self.posterior_.probabilities(codes)

    def vote_intervals(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Return how far the leading class is ahead, and how sure that is.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        level : float, default=0.95
            Coverage of the interval under the model: a normal approximation of the posterior.

        Returns
        -------
        margins, half_widths : ndarrays of shape (b,)
            In log odds of the leading class against the next.

        Raises
        ------
        ValueError
            If there is one class only, or the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level={level!r}: expected a number between 0 and 1.")
        codes = self._codes(X)
        logs = np.log(np.maximum(self.posterior_.probabilities(codes), 1e-300))
        if logs.shape[1] < 2:
            raise ValueError("the domain names one class: expected two, for a margin.")
        order = np.argsort(logs, axis=1, kind="stable")
        first, second = order[:, -1], order[:, -2]
        rows = np.arange(len(codes))
        odds = self.posterior_.log_odds(codes)
        margins = odds[rows, first] - odds[rows, second]
        errors = np.sqrt(self.posterior_.margin_variances(codes, first, second))
        return margins, errors * float(norm.ppf(0.5 + level / 2))

    def predict_or_abstain(self, X: Any, level: float = 0.95) -> Any:
        """Return labels, masked where the interval of the margin holds zero.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        level : float, default=0.95
            See `vote_intervals`.

        Returns
        -------
        numpy.ma.MaskedArray of shape (b,)
        """
        margins, half_widths = self.vote_intervals(X, level)
        return np.ma.masked_array(self.predict(X), mask=margins <= half_widths)
