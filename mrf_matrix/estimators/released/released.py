"""What classifiers read from files have in common: fitted from the start, and never again."""

from dataclasses import dataclass
from typing import ClassVar, NoReturn, Self, dataclass_transform

from mrf_matrix.base.arrays import Codes
from mrf_matrix.base.file_format import PLAIN, FileFormat
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.parameters import Class, Records, described
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.streams.blocks import Progress


@dataclass_transform(eq_default=False)
def released(cls: type[Class]) -> type[Class]:
    """Return the class as a value of its fields, described with those of `Released`."""
    made = dataclass(eq=False, repr=False)(cls)
    made.__doc__ = described(made)
    return made


class Released(BaseForestClassifier):
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

    def fit(self, X: object, y: object = None) -> NoReturn:
        """Refuse: a released forest has no records to learn from, and no budget.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            f"a forest read from a model file cannot be fitted: expected a "
            f"{self.released_by}(domain, epsilon=...), which makes a new release."
        )

    def fit_counts(self, counts: object) -> NoReturn:
        """Refuse, as `fit`."""
        self.fit(counts)

    def fit_stream(
        self,
        batches: object,
        *,
        extra: str = "error",
        progress: Progress | None = None,
        file_format: FileFormat = PLAIN,
    ) -> NoReturn:
        """Refuse, as `fit`."""
        self.fit(batches)

    def _codes(self, X: Records) -> Codes:
        self._check_claim()
        return self.domain.encode(X, extra="ignore")

    def _described(self, text: str) -> str:
        """Return the display of a classifier; it says so where nothing is protected."""
        denied = "" if self.report.is_private else f". {self.report.statement}"
        return f"{type(self).__name__}({text}{denied})"

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self
