"""A private forest that was released: it predicts, and knows nothing of the records."""

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.private.votes import PrivateVotes
from mrf_matrix.estimators.released.released import Released, released
from mrf_matrix.estimators.released.released_labels import ReleasedLabelTreeClassifier
from mrf_matrix.estimators.released.released_pooled import ReleasedPooledForestClassifier
from mrf_matrix.estimators.released.released_posterior import ReleasedPosteriorForestClassifier
from mrf_matrix.estimators.released.released_residual import ReleasedResidualForestClassifier
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.residual.step import ResidualStep

ReleasedForest = (
    ReleasedPosteriorForestClassifier
    | ReleasedResidualForestClassifier
    | ReleasedLabelTreeClassifier
    | ReleasedPooledForestClassifier
)


@released
class ReleasedPrivateForestClassifier(Released, PrivateVotes):
    """A private forest that was released before: it predicts what the fitted one predicted.

    It comes from `load_model`, is fitted from the start, and `fit` refuses: releasing again needs
    a `PrivateForestClassifier` and budget. `sklearn.clone` returns the object itself.

    Parameters
    ----------
    forest : released posterior, residual or pooled forest, or tree of labels
        The forest that labels.
    choices : tuple of ResidualStep
        Choices that were made before it.
    screened : tuple of int or None
        Attributes that were kept; None for all.
    delta : float
        The δ that the claim is stated for, where the budget is zCDP.

    Attributes
    ----------
    forest_, screened_
        As given.
    posterior_
        What the forest's releases imply.
    """

    released_by = "PrivateForestClassifier"
    _claim_rests_on = ("forest", "choices", "screened", "report")

    forest: ReleasedForest
    choices: tuple[ResidualStep, ...]
    screened: tuple[int, ...] | None
    delta: float
    domain: Domain
    report: PrivacyReport

    def _keep(self) -> None:
        self.forest_, self.screened_ = self.forest, self.screened
        self.posterior_ = self.forest.posterior_
        self.classes_, _ = sorted_classes(self.domain)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._described(f"{self.forest!r}")
