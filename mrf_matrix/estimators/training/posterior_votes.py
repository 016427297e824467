"""Labels, probabilities and intervals by a posterior, wherever it comes from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import ForestClassifier
from mrf_matrix.estimators.training.asked_posterior import AskedPosterior
from mrf_matrix.posterior import ProductPosterior
from mrf_matrix.voting.intervals import Margins, VoteIntervals
from mrf_matrix.voting.voting import once_a_cell

Array = NDArray[np.float64]


class PosteriorVotes(VoteIntervals, ForestClassifier):
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
        domain: Domain = self.domain_  # set by fit, or a property
        return once_a_cell(self.posterior_.probabilities, codes, domain.sizes, dear=False)

    def _margins(self, X: object, level: float) -> Margins:
        """Return classes, margins in log odds and half-widths: normal, of the posterior.

        Averaging pulls log odds toward those of the class totals, so that the class of the largest
        probability may be behind by log odds. The margin is 0 then, and its interval the least
        that holds the one of the log odds: it covers as often or more, and the label is withheld.
        The margin of averaged probabilities would not do: its sign is not that of the log odds.
        """
        quantile = float(norm.ppf(0.5 + level / 2))
        codes = self._codes(X)
        posterior = AskedPosterior.of(self.posterior_)
        shares = posterior.probabilities(codes)
        if shares.shape[1] < 2:
            raise ValueError("the domain names one class: expected two, for a margin.")
        # Ties go to the first class, as in predict: sort the classes backwards, then the shares.
        order = shares.shape[1] - 1 - np.argsort(shares[:, ::-1], axis=1, kind="stable")
        first, second = order[:, -1], order[:, -2]
        odds = np.take_along_axis(posterior.log_odds(codes), order[:, -2:], axis=1)
        half_widths = quantile * np.sqrt(posterior.margin_variances(codes, first, second))
        ahead = odds[:, 1] - odds[:, 0]
        behind = np.maximum(-ahead, 0.0)
        return first, np.maximum(ahead, 0.0), half_widths + behind
