"""Labels, probabilities and intervals of a tree and tables that are asked together."""

from dataclasses import replace
from typing import Protocol

from sklearn.utils.validation import check_is_fitted

from mrf_matrix.domain import Domain
from mrf_matrix.domain.coarser import coarser_places
from mrf_matrix.estimators.labelled.votes import LabelVotes
from mrf_matrix.estimators.training.posterior_votes import AskedPosterior, OddsVotes
from mrf_matrix.posterior import PooledPosterior, ProductPosterior
from mrf_matrix.posterior.pooled import TablesPosterior


class Tables(Protocol):
    """Fitted tables: those of a fit, or released ones."""

    domain_: Domain

    @property
    def posterior_(self) -> TablesPosterior:
        """What they imply."""


def posterior_of_parts(tree: LabelVotes, tables: Tables) -> PooledPosterior:
    """Return what a tree and tables imply together, whose codes may be fewer."""
    given, seen = tree.domain_, tables.domain_
    places = None
    if seen != given:
        places = coarser_places(given.attributes, seen.attributes)
    return PooledPosterior.of(tree.posterior_, tables.posterior_, places)


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
