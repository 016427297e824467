"""Labels and probabilities of two classes by the posterior of a residual forest."""

import numpy as np
from sklearn.utils import Tags

from mrf_matrix.base.arrays import Array
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.parameters import Records
from mrf_matrix.posterior import ResidualPosterior


class ResidualVotes(BaseForestClassifier):
    """A classifier that has log odds; subclasses say where they and the codes come from.

    Attributes
    ----------
    posterior_ : ResidualPosterior
        What releases imply.
    """

    posterior_: ResidualPosterior

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

    def _votes(self, X: Records) -> Array:
        odds = self.decision_function(X)
        return np.column_stack([np.zeros_like(odds), odds])

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that there are two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
