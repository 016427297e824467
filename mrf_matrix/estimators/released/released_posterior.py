"""A posterior forest that was released: it predicts, and knows nothing of the records."""

from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released import Released
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.training.posterior_votes import PosteriorVotes
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockPart, tables_of
from mrf_matrix.posterior import ProductPosterior, product_posterior
from mrf_matrix.reports.privacy_report import PrivacyReport


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
    domain : Domain
        The public domain, with the classes as its target.
    report : PrivacyReport
        What the file claims. It is the word of whoever wrote the file.

    Attributes
    ----------
    measurement_, release_, domain_, forest_, privacy_report_
        As given.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    posterior_ : ProductPosterior
        What the release implies.
    n_features_in_ : int
        Number of attributes of the domain.
    """

    released_by = "PosteriorForestClassifier"
    _claim_rests_on = ("measurement", "release", "report")

    def __init__(
        self,
        measurement: BlockPart,
        release: Release,
        domain: Domain,
        report: PrivacyReport,
    ) -> None:
        self.measurement = measurement
        self.release = release
        self.domain = domain
        self.report = report
        self._fix_claim()

    @property
    def measurement_(self) -> BlockPart:
        """Blocks, trees and strategy."""
        return self.measurement

    @property
    def release_(self) -> Release:
        """The noisy measurement, ready to be asked anything else."""
        return self.release

    @property
    def forest_(self) -> Forest:
        """The trees of the blocks, and the tree of class totals."""
        return self.measurement.forest

    @property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The public classes, sorted."""
        return sorted_classes(self.domain)[0]

    @cached_property
    def posterior_(self) -> ProductPosterior:  # type: ignore[override]
        """What the release implies."""
        _, order = sorted_classes(self.domain)
        tables, totals = tables_of(self.measurement, self.release, order)
        return product_posterior(tables, self.domain.ordered, totals)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return self._described(f"{len(self.measurement.blocks)} blocks")
