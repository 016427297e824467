"""A tree of labels that was released: it predicts, and knows nothing of the records."""

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.labelled.votes import LabelVotes
from mrf_matrix.estimators.released.released import Released, released
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.spending import Budget
from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.labels import LabelPlan
from mrf_matrix.labels.posterior import label_posterior
from mrf_matrix.reports.privacy_report import PrivacyReport


@released
class ReleasedLabelTreeClassifier(Released, LabelVotes):
    """A tree of labels that was released before: it predicts what the fitted one predicted.

    It comes from `load_model`, is fitted from the start, and `fit` refuses: releasing again needs
    a `LabelTreeClassifier` and budget. `sklearn.clone` returns the object itself.

    Parameters
    ----------
    plan : LabelPlan
        What was announced; its cuts are those of the tree.
    tree : LabelTree
        The cuts of its nodes, the labels of its cells, and their counts where they were released.

    Attributes
    ----------
    plan_, tree_
        As given.
    posterior_ : LabelPosterior
        What labels and counts imply.
    """

    released_by = "LabelTreeClassifier"
    _claim_rests_on = ("plan", "tree", "report")

    plan: LabelPlan
    tree: LabelTree
    domain: Domain
    report: PrivacyReport

    def _keep(self) -> None:
        self.plan_, self.tree_ = self.plan, self.tree
        self.posterior_ = label_posterior(self.plan, self.tree)
        self.classes_, _ = sorted_classes(self.domain)

    @property
    def spent(self) -> Budget:
        """What was spent on it."""
        return self.plan.budget

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._described(f"{self.tree.n_cells} cells")
