"""Labels, probabilities and intervals of a tree and tables that are asked together."""

from dataclasses import replace

from sklearn.utils.validation import check_is_fitted

from mrf_matrix.estimators.labelled.votes import LabelVotes
from mrf_matrix.estimators.training.posterior_votes import AskedPosterior, OddsVotes
from mrf_matrix.posterior import PooledPosterior, ProductPosterior


class PooledVotes(OddsVotes):
    """A classifier that has a tree and tables; subclasses say where they and the codes come from.

    Attributes
    ----------
    posterior_ : PooledPosterior
        What both imply.
    tree_ : LabelTreeClassifier, or a released one
        The tree.
    """

    posterior_: PooledPosterior
    tree_: LabelVotes

    def _asked(self) -> PooledPosterior:
        tables = self.posterior_.tables
        if isinstance(tables, ProductPosterior):
            return replace(self.posterior_, tables=AskedPosterior.of(tables))
        return self.posterior_

    def export_text(self) -> str:
        """Draw the tree as text, without what the tables add."""
        check_is_fitted(self, self._learned)
        self._check_claim()
        return self.tree_.export_text()
