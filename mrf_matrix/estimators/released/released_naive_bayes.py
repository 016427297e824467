"""A naive Bayes classifier that was released: it predicts, and knows nothing of the records."""

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released import Released, released
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.spending import Budget
from mrf_matrix.estimators.training.naive_bayes_votes import NaiveBayesVotes
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockPart
from mrf_matrix.reports.privacy_report import PrivacyReport


@released
class ReleasedNaiveBayesClassifier(Released, NaiveBayesVotes):
    """Naive Bayes that was released before: it predicts what the fitted classifier predicted.

    It comes from `load_model`, is fitted from the start, and `fit` refuses: releasing again needs
    a `PrivateNaiveBayesClassifier` and budget. `sklearn.clone` returns the object itself.

    Parameters
    ----------
    measurement : BlockPart
        The tables of single attributes.
    release : Release
        Their noisy counts.
    alpha : float
        Records added to every count: post-processing, which may be changed.

    Attributes
    ----------
    release_, forest_
        As given.
    leaf_values_ : ndarray of shape (o, k)
        Noisy class counts of the leaves, in the order of `classes_`.
    """

    released_by = "PrivateNaiveBayesClassifier"
    _claim_rests_on = ("measurement", "release", "report")

    measurement: BlockPart
    release: Release
    domain: Domain
    report: PrivacyReport
    alpha: float = 1.0

    def _keep(self) -> None:
        self.release_, self.forest_ = self.release, self.measurement.forest
        self.classes_, order = sorted_classes(self.domain)
        self.leaf_values_ = self.measurement.answers(self.release)[:, order]

    @property
    def spent(self) -> Budget:
        """What was spent on it."""
        return self.release.budget

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._described(f"{self.forest_.n_trees - 1} attributes")
