"""What classifiers read from files have in common: fitted from the start, and never again."""

from dataclasses import dataclass
from typing import ClassVar, dataclass_transform

from mrf_matrix.base.arrays import Codes
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import ReleasedBefore
from mrf_matrix.estimators.shared.parameters import Class, Records, described
from mrf_matrix.reports.privacy_report import PrivacyReport


@dataclass_transform(eq_default=False)
def released(cls: type[Class]) -> type[Class]:
    """Return the class as a value of its fields, described with those of `Released`."""
    made = dataclass(eq=False, repr=False)(cls)
    made.__doc__ = described(made)
    return made


class Released(ReleasedBefore):
    """A classifier that was released before, by an estimator that it names.

    Parameters
    ----------
    domain : Domain
        The public domain, with the classes.
    report : PrivacyReport
        What the file claims. It is the word of whoever wrote the file.

    Attributes
    ----------
    domain_, privacy_report_
        As given.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    n_features_in_ : int
        Number of attributes of the domain.
    """

    released_by: ClassVar[str]
    domain: Domain
    report: PrivacyReport

    def __post_init__(self) -> None:
        self.domain_, self.privacy_report_ = self.domain, self.report
        self.n_features_in_ = self.domain.n_attributes
        self._keep()
        self._fix_claim()

    def _keep(self) -> None:
        """Set what else a fitted classifier has."""

    def _codes(self, X: Records) -> Codes:
        self._check_claim()
        return self.domain.encode(X, extra="ignore")

    def _described(self, text: str) -> str:
        """Return the display of a classifier; it says so where nothing is protected."""
        denied = "" if self.report.is_private else f". {self.report.statement}"
        return f"{type(self).__name__}({text}{denied})"
