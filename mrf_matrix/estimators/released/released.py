"""What classifiers read from files have in common: fitted from the start, and never again."""

from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.fixed_claim import check_claim
from mrf_matrix.reports.privacy_report import DENIAL, PrivacyReport


class Released:
    """A classifier that was released before, by an estimator that it names.

    Attributes
    ----------
    domain_ : Domain
        The public domain.
    privacy_report_ : PrivacyReport
        What the file claims.
    n_features_in_ : int
        Number of attributes of the domain.
    """

    released_by: ClassVar[str]
    domain: Domain
    report: PrivacyReport

    @property
    def domain_(self) -> Domain:
        """The public domain."""
        return self.domain

    @property
    def privacy_report_(self) -> PrivacyReport:
        """What the file claims."""
        check_claim(self)
        return self.report

    @property
    def n_features_in_(self) -> int:
        """Number of attributes of the domain."""
        return self.domain.n_attributes

    def fit(self, X: Any, y: Any = None) -> NoReturn:
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

    def fit_counts(self, counts: Any) -> NoReturn:
        """Refuse, as `fit`."""
        self.fit(counts)

    def fit_stream(self, batches: Any, *, extra: str = "error", progress: Any = None) -> NoReturn:
        """Refuse, as `fit`."""
        self.fit(batches)

    def _codes(self, X: Any) -> NDArray[np.int32]:
        check_claim(self)
        return self.domain.encode(X, extra="ignore")

    def _described(self, text: str) -> str:
        """Return the display of a classifier; it says so where nothing is protected."""
        denied = self.report.statement.startswith(DENIAL)
        return f"{type(self).__name__}({text}{'. ' + self.report.statement if denied else ''})"

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self
