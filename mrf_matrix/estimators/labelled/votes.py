"""Labels, probabilities and intervals of a tree of labels."""

import numpy as np

from mrf_matrix.estimators.shared.parameters import Records
from mrf_matrix.estimators.training.posterior_votes import ProbabilityVotes
from mrf_matrix.posterior import LabelPosterior
from mrf_matrix.voting.intervals import Margins


class LabelVotes(ProbabilityVotes):
    """A classifier that has labels of cells; subclasses say where they and the codes come from.

    Attributes
    ----------
    posterior_ : LabelPosterior
        What the labels imply.
    """

    posterior_: LabelPosterior

    def _margins(self, X: Records, level: float) -> Margins:
        """Return leading classes, margins in log odds, and half-widths: the same for all cells."""
        codes = self._codes(X)
        said, first = self.posterior_.said, self.posterior_.said_at(codes)
        margins = np.full(len(codes), said.log_odds)
        return first, margins, np.full(len(codes), said.half_width(level))
