"""A pooled forest that was released: it predicts, and knows nothing of the records."""

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.pooled.votes import PooledVotes
from mrf_matrix.estimators.released.released import Released, released
from mrf_matrix.estimators.released.released_labels import ReleasedLabelTreeClassifier
from mrf_matrix.estimators.released.released_posterior import ReleasedPosteriorForestClassifier
from mrf_matrix.estimators.released.released_residual import ReleasedResidualForestClassifier
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.spending import Budget
from mrf_matrix.mechanisms.budgets.budget import total_budget
from mrf_matrix.posterior import PooledPosterior
from mrf_matrix.reports.privacy_report import PrivacyReport


@released
class ReleasedPooledForestClassifier(Released, PooledVotes):
    """A pooled forest that was released before: it predicts what the fitted one predicted.

    It comes from `load_model`, is fitted from the start, and `fit` refuses: releasing again needs
    a `PooledForestClassifier` and budget. `sklearn.clone` returns the object itself.

    Parameters
    ----------
    tree : ReleasedLabelTreeClassifier
        The tree.
    tables : ReleasedPosteriorForestClassifier or ReleasedResidualForestClassifier
        The tables.
    delta : float
        The δ that the claim is stated for; 0 for none.

    Attributes
    ----------
    tree_, tables_
        As given.
    posterior_ : PooledPosterior
        What both imply.
    """

    released_by = "PooledForestClassifier"
    _claim_rests_on = ("tree", "tables", "report")

    tree: ReleasedLabelTreeClassifier
    tables: ReleasedPosteriorForestClassifier | ReleasedResidualForestClassifier
    delta: float
    domain: Domain
    report: PrivacyReport

    def _keep(self) -> None:
        self.tree_, self.tables_ = self.tree, self.tables
        self.posterior_ = PooledPosterior.of(self.tree.posterior_, self.tables.posterior_)
        self.classes_, _ = sorted_classes(self.domain)

    @property
    def spent(self) -> Budget:
        """What was spent on it."""
        return total_budget((self.tree.spent, self.tables.spent))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._described(f"{self.tree!r}, {self.tables!r}")
