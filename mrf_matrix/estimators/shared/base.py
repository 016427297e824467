"""What every forest classifier here does alike: votes to labels and shares."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.fixed_claim import ClaimAttribute, FixedClaim
from mrf_matrix.estimators.shared.needs_records import NeedsRecords
from mrf_matrix.estimators.shared.spending import Bill, Budget, bill_of
from mrf_matrix.forests.sources.ensembles import EnsembleDesign
from mrf_matrix.mechanisms.budgets.budget import budget_or_default
from mrf_matrix.planning.plans.measuring import Measuring
from mrf_matrix.voting.voting import vote_shares

Array = NDArray[np.float64]


class ForestClassifier(FixedClaim, NeedsRecords, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that turns votes into labels; subclasses say where the votes come from."""

    classes_: NDArray[Any]
    privacy_report_: Any = ClaimAttribute()

    def _votes(self, X: Any) -> Array:
        """Return the votes of every record, shape (b, k), in the order of `classes_`."""
        raise TypeError(f"{type(self).__name__} has no votes: use one of its subclasses.")

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the most votes for each record; ties go to the first class.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.

        Returns
        -------
        ndarray of shape (b,)
            Predicted classes.
        """
        votes = self._votes(X)
        labels: NDArray[Any] = self.classes_[votes.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Return each class's share of the votes: shares, not calibrated probabilities.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.

        Returns
        -------
        ndarray of shape (b, k)
            Shares, in the order of `classes_`.
        """
        return vote_shares(self._votes(X))

    def _bill(self, what: str = "fit", budget: Budget | None = None) -> Bill:
        """Return what a release costs, from the estimator's parameters of these names.

        The budget is the whole of ``epsilon`` or ``rho``, ε = 1 of neither, unless a part is given.
        """
        mine: Any = self
        whole = budget_or_default(epsilon=mine.epsilon, rho=mine.rho) if budget is None else budget
        return bill_of(self, whole, what)

    def _design(self) -> EnsembleDesign:
        """Return the design of the ensembles from the estimator's parameters of these names."""
        names = EnsembleDesign.__dataclass_fields__
        return EnsembleDesign(**{name: getattr(self, name) for name in names})

    def _measuring(self, budget: Budget) -> Measuring:
        """Return how a plan of this budget is measured, from the parameters of these names."""
        names = ("neighboring", "budget_shares", "strategy", "time_limit", "n_jobs")
        held = vars(self)
        return Measuring(budget, **{name: held[name] for name in names if name in held})

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that records may be text: the domain encodes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def sorted_classes(domain: Domain) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the domain's classes as scikit-learn wants them, sorted, and their codes' order."""
    classes, order = np.unique(np.asarray(domain.classes), return_index=True)
    return classes, order
