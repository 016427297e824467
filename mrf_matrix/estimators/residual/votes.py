"""Labels and probabilities by the posterior of a residual forest."""

import numpy as np
from scipy.stats import norm

from mrf_matrix.base.arrays import Array
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.parameters import Outside, Records
from mrf_matrix.posterior import ResidualPosterior, SeveralPosterior
from mrf_matrix.voting.intervals import Margins, VoteIntervals


class ResidualVotes(VoteIntervals, BaseForestClassifier):
    """A classifier that has log odds, or scores; subclasses say where they and the codes come from.

    Attributes
    ----------
    posterior_ : ResidualPosterior or SeveralPosterior
        What releases imply.
    """

    posterior_: ResidualPosterior | SeveralPosterior
    _learned = "posterior_"

    def predict_proba(self, X: Records, *, outside: Outside = "refuse") -> Array:
        """Return class probabilities, those of the posterior means of all effects.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        outside : {"refuse", "clip", "missing"}
            As `predict`.

        Returns
        -------
        ndarray of shape (b, k)
            Probabilities, in the order of `classes_`.
        """
        codes = self._codes(self._within(X, outside))  # tells first whether there is a posterior
        return self.posterior_.probabilities(codes)

    def decision_function(self, X: Records) -> Array:
        """Return the log odds that `predict_proba` states.

        Of the second of two classes, shape (b,); of several of each against all others, (b, k).

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        """
        codes = self._codes(X)
        return self.posterior_.log_odds(codes)

    def _margins(self, X: Records, level: float) -> Margins:
        """Return leading classes, margins in log odds, and widths under the model."""
        codes = self._codes(X)
        first, ahead, variances = self.posterior_.leading(codes)
        widths = float(norm.ppf(0.5 + level / 2)) * np.sqrt(variances)
        return first, ahead, widths, widths

    def _votes(self, X: Records) -> Array:
        odds = self.decision_function(X)
        return odds if odds.ndim == 2 else np.column_stack([np.zeros_like(odds), odds])
