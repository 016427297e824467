"""A residual forest that was released: it predicts, and knows nothing of the records."""

from typing import Any

from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released import Released
from mrf_matrix.estimators.residual.votes import ResidualVotes
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.mechanisms import Release
from mrf_matrix.posterior import ResidualPosterior
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.residual import ResidualPlan


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
    choices : tuple of (tuple of int or None)
        Pairs and triples that were chosen.
    posterior : ResidualPosterior
        What the releases imply.
    domain : Domain
        The public schema, with the classes.
    report : PrivacyReport
        What the file claims. It is the word of whoever wrote the file.

    Attributes
    ----------
    plan_, releases_, choices_, posterior_, privacy_report_
        As given.
    domain_ : Domain
    classes_ : ndarray of shape (2,)
        The public classes, sorted.
    n_features_in_ : int
        Number of attributes of the domain.
    """

    released_by = "ResidualForestClassifier"

    _claim_rests_on = ("plan", "releases", "choices", "posterior", "report")

    def __init__(
        self,
        plan: ResidualPlan,
        releases: tuple[Release, ...],
        choices: tuple[tuple[int, ...] | None, ...],
        posterior: ResidualPosterior,
        domain: Domain,
        report: PrivacyReport,
    ) -> None:
        self.plan = plan
        self.releases = releases
        self.choices = choices
        self.posterior = posterior
        self.report = report
        self.domain = domain
        self._fix_claim()

    @property
    def plan_(self) -> ResidualPlan:
        """The steps that were taken."""
        return self.plan

    @property
    def releases_(self) -> tuple[Release, ...]:
        """What each step that measures a table released."""
        return self.releases

    @property
    def choices_(self) -> tuple[tuple[int, ...] | None, ...]:
        """Pairs and triples that were chosen."""
        return self.choices

    @property
    def posterior_(self) -> ResidualPosterior:  # type: ignore[override]
        """What the releases imply."""
        return self.posterior

    @property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The public classes, sorted."""
        return sorted_classes(self.domain)[0]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._described(f"{len(self.posterior.blocks)} tables")
