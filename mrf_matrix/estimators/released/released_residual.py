"""A residual forest that was released: it predicts, and knows nothing of the records."""

from dataclasses import dataclass

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released import Released
from mrf_matrix.estimators.residual.votes import ResidualVotes
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.spending import Budget
from mrf_matrix.mechanisms import Release
from mrf_matrix.posterior import ResidualPosterior, SeveralPosterior
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.residual import ResidualPlan


@dataclass(eq=False, repr=False)
class ReleasedResidualForestClassifier(Released, ResidualVotes):
    """A residual forest that was released before: it predicts what the fitted one predicted.

    It comes from `load_model`, is fitted from the start, and `fit` refuses: releasing again needs
    a `ResidualForestClassifier` and budget. `sklearn.clone` returns the object itself.

    Parameters
    ----------
    plan : ResidualPlan
        The steps that were taken.
    releases : tuple of Release
        What each step that measures a table released.
    scale : float
        By how much of the sum of the first pass's effects was believed.
    choices : tuple of (tuple of int or None)
        Pairs and triples that were chosen.
    posterior : ResidualPosterior or SeveralPosterior
        What the releases imply.
    domain : Domain
        The public schema, with the classes.
    report : PrivacyReport
        What the file claims. It is the word of whoever wrote the file.

    Attributes
    ----------
    plan_, releases_, scale_, choices_, posterior_, privacy_report_
        As given.
    domain_ : Domain
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    n_features_in_ : int
        Number of attributes of the domain.
    """

    released_by = "ResidualForestClassifier"
    _claim_rests_on = ("plan", "releases", "scale", "choices", "posterior", "report")

    plan: ResidualPlan
    releases: tuple[Release, ...]
    scale: float
    choices: tuple[tuple[int, ...] | None, ...]
    posterior: ResidualPosterior | SeveralPosterior
    domain: Domain
    report: PrivacyReport

    def _keep(self) -> None:
        self.plan_, self.releases_ = self.plan, self.releases
        self.scale_, self.choices_ = self.scale, self.choices
        self.posterior_ = self.posterior
        self.classes_, _ = sorted_classes(self.domain)

    @property
    def spent(self) -> Budget:
        """What was spent on it."""
        return self.plan.budget

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._described(f"{len(self.posterior.blocks)} tables")
