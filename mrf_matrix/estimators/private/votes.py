"""Intervals by the posterior of whichever forest was taken."""

from copy import copy

from sklearn.utils.validation import check_is_fitted

from mrf_matrix.estimators.labelled.votes import LabelVotes
from mrf_matrix.estimators.residual.votes import ResidualVotes
from mrf_matrix.estimators.shared.fixed_claim import check_claim
from mrf_matrix.estimators.shared.parameters import Records
from mrf_matrix.estimators.training.posterior_votes import OddsVotes, ProbabilityVotes
from mrf_matrix.voting.intervals import Margins


class PrivateVotes(ProbabilityVotes):
    """A classifier that delegates to a forest; subclasses say where the codes come from.

    Attributes
    ----------
    forest_ : PosteriorForestClassifier, ResidualForestClassifier, PooledForestClassifier or
        LabelTreeClassifier: the forest that was taken.
    """

    forest_: OddsVotes | ResidualVotes | LabelVotes

    def _margins(self, X: Records, level: float) -> Margins:
        """Return leading classes, margins in log odds, and widths, as the forest has them."""
        check_is_fitted(self, self._learned)
        check_claim(self)
        forest = copy(self.forest_)  # which believes its votes as far as its own release says
        forest.posterior_ = self.posterior_
        return forest._margins(X, level)
