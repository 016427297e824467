"""A posterior forest that was released: it predicts, and knows nothing of the records."""

from functools import cached_property

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released import Released, released
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.spending import Budget
from mrf_matrix.estimators.training.posterior_votes import PosteriorVotes
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockPart, tables_of
from mrf_matrix.posterior import ProductPosterior, product_posterior
from mrf_matrix.reports.privacy_report import PrivacyReport


@released
class ReleasedPosteriorForestClassifier(Released, PosteriorVotes):
    """A posterior forest that was released before: it predicts what the fitted one predicted.

    It comes from `load_model`, is fitted from the start, and `fit` refuses: releasing again needs
    a `PosteriorForestClassifier` and budget. The posterior follows from the release, and is
    computed when it is first asked for. `sklearn.clone` returns the object itself.

    Parameters
    ----------
    measurement : BlockPart
        Blocks, trees and strategy.
    release : Release
        The noisy answers of that strategy.

    Attributes
    ----------
    measurement_, release_, forest_
        As given.
    posterior_ : ProductPosterior
        What the release implies.
    """

    released_by = "PosteriorForestClassifier"
    _claim_rests_on = ("measurement", "release", "report")

    measurement: BlockPart
    release: Release
    domain: Domain
    report: PrivacyReport

    def _keep(self) -> None:
        self.measurement_, self.release_ = self.measurement, self.release
        self.forest_ = self.measurement.forest
        self.classes_, _ = sorted_classes(self.domain)

    @cached_property
    def posterior_(self) -> ProductPosterior:  # type: ignore[override]
        """What the release implies."""
        _, order = sorted_classes(self.domain)
        tables, totals = tables_of(self.measurement, self.release, order)
        return product_posterior(tables, self.domain.ordered, totals)

    @property
    def spent(self) -> Budget:
        """What was spent on it."""
        return self.release.budget

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._described(f"{len(self.measurement.blocks)} blocks")
