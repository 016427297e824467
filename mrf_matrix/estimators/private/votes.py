"""Labels, probabilities and log odds by the posterior of whichever forest was taken."""

from typing import Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.estimators.residual.votes import ResidualVotes
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.fixed_claim import check_claim
from mrf_matrix.estimators.shared.parameters import Records
from mrf_matrix.estimators.training.posterior_votes import PosteriorVotes
from mrf_matrix.voting.intervals import Margins, VoteIntervals
from mrf_matrix.voting.voting import once_a_cell

LEAST = np.finfo(np.float64).tiny


class Posterior(Protocol):
    """What a release implies: `ProductPosterior` or `ResidualPosterior`."""

    def probabilities(self, codes: Codes) -> Array:
        """Return class probabilities, shape (b, k)."""


class PrivateVotes(VoteIntervals, BaseForestClassifier):
    """A classifier that has a posterior of any kind; subclasses say where the codes come from.

    Attributes
    ----------
    posterior_ : ProductPosterior or ResidualPosterior
        What the releases imply.
    """

    posterior_: Posterior
    forest_: PosteriorVotes | ResidualVotes
    _learned = "posterior_"

    def predict_proba(self, X: Records) -> Array:
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
        return once_a_cell(self.posterior_.probabilities, codes, self.domain_.sizes, dear=False)

    def predict_log_proba(self, X: Records) -> Array:
        """Return logarithms of `predict_proba`, shape (b, k)."""
        return np.asarray(np.log(np.maximum(self.predict_proba(X), LEAST)))

    def decision_function(self, X: Records) -> Array:
        """Return the log odds of the second of two classes, (b,), or of each class, (b, k).

        Of several classes each one's odds are against all others.
        """
        shares = self.predict_proba(X)
        logs = np.log(np.maximum(shares, LEAST))
        if shares.shape[1] == 2:
            return np.asarray(logs[:, 1] - logs[:, 0])
        return np.asarray(logs - np.log(np.maximum(1 - shares, LEAST)))

    def _margins(self, X: Records, level: float) -> Margins:
        """Return leading classes, margins in log odds, and half-widths, as the forest has them."""
        check_is_fitted(self, self._learned)
        check_claim(self)
        return self.forest_._margins(X, level)

    def _votes(self, X: Records) -> Array:
        return self.predict_log_proba(X)
