"""Labels and probabilities of two classes by the posterior of a residual forest."""

import numpy as np
from scipy.stats import norm
from sklearn.utils import Tags

from mrf_matrix.base.arrays import Array
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.parameters import Records
from mrf_matrix.posterior import ResidualPosterior
from mrf_matrix.voting.intervals import Margins, VoteIntervals


class ResidualVotes(VoteIntervals, BaseForestClassifier):
    """A classifier that has log odds; subclasses say where they and the codes come from.

    Attributes
    ----------
    posterior_ : ResidualPosterior
        What releases imply.
    """

    posterior_: ResidualPosterior
    _learned = "posterior_"

    def predict_proba(self, X: Records) -> Array:
        """Return class probabilities, averaged over what noise leaves unknown.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.

        Returns
        -------
        ndarray of shape (b, 2)
            Probabilities, in the order of `classes_`.
        """
        codes = self._codes(X)  # tells first whether there is a posterior
        return self.posterior_.probabilities(codes)

    def decision_function(self, X: Records) -> Array:
        """Return the log odds of the second class that `predict_proba` states, shape (b,).

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        """
        codes = self._codes(X)
        return self.posterior_.log_odds(codes)

    def _margins(self, X: Records, level: float) -> Margins:
        """Return leading classes, margins in log odds, and half-widths under the model.

        A label that only averaging brings forward has a margin of 0, and is withheld.
        """
        codes = self._codes(X)
        posterior = self.posterior_
        first = (posterior.log_odds(codes) > 0).astype(np.int64)
        ahead = np.where(first == 1, 1.0, -1.0) * (posterior.base + posterior.effects(codes))
        widths = float(norm.ppf(0.5 + level / 2)) * np.sqrt(posterior.variances(codes))
        return first, np.maximum(ahead, 0.0), widths + np.maximum(-ahead, 0.0)

    def _votes(self, X: Records) -> Array:
        odds = self.decision_function(X)
        return np.column_stack([np.zeros_like(odds), odds])

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that there are two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
