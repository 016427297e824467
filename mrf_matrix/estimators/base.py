"""Behaviour shared by all classifiers: fits, and votes to labels and shares."""

from collections.abc import Callable
from copy import copy
from dataclasses import fields
from functools import partial, wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

import mrf_matrix.reports as reports
from mrf_matrix.base.arrays import Array, Codes, Values
from mrf_matrix.base.files import PLAIN, FileFormat
from mrf_matrix.base.work import keep_draws
from mrf_matrix.domain import Domain, DomainOrPath, required_domain
from mrf_matrix.domain.columns import checked_table, plain_array
from mrf_matrix.estimators.count_source import CountedTables, StreamSource
from mrf_matrix.estimators.parameters import Budget, Outside, Records
from mrf_matrix.estimators.record_source import PrivateData, RecordSource, validate_queries
from mrf_matrix.files.model_file import save_model
from mrf_matrix.forests.random_trees import EnsembleDesign
from mrf_matrix.kinds.model import Model
from mrf_matrix.mechanisms import CellCounts, LeafCounts
from mrf_matrix.mechanisms.budget import claimed_budget
from mrf_matrix.planning.plans.plan_kind import MeasurementSpec
from mrf_matrix.release.plan import needs_records
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.streams import partial_counts
from mrf_matrix.streams.counting import Progress
from mrf_matrix.voting.evidence import vote_shares

if TYPE_CHECKING:
    from mrf_matrix.reports.page import ReportPage


Fit = TypeVar("Fit", bound=Callable[..., Any])


def commit_on_success(fit: Fit) -> Fit:
    """Return `fit` so that it works on a copy, whose state the object takes once it succeeds.

    The copy has the parameters as they stand at the call, so two fits of one object at the same
    time leave the one or the other. A fit that fails before it pays leaves the object as it was.
    One that fails later leaves its `failed_` alone.
    """

    @wraps(fit)
    def fit_copy(self: Any, *args: Any, **keywords: Any) -> Any:
        if "sample_weight" in keywords:
            raise TypeError(
                f"{type(self).__name__}.{fit.__name__} takes no sample_weight: every record counts "
                f"once, and noise and claim are for that. Leave it out."
            )
        draft = object.__new__(type(self))
        draft.__dict__ = _unfitted_state(self)
        try:
            with keep_draws():
                fit(draft, *args, **keywords)
        except BaseException:
            if "failed_" in vars(draft):
                self.__dict__ = _unfitted_state(self) | {"failed_": vars(draft)["failed_"]}
            raise
        self.__dict__ = vars(draft) | self.get_params(deep=False)  # as they stand by now
        return self

    return cast(Fit, fit_copy)


def _unfitted_state(estimator: BaseEstimator) -> dict[str, object]:
    """Return what no fit sets: names of what fits set end in an underscore."""
    return {name: value for name, value in vars(estimator).items() if not name.endswith("_")}


class BaseForestClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that turns votes into labels; subclasses say where the votes come from.

    What is fitted stands in attributes whose names end in an underscore: no parameter that is
    changed later touches it.

    Attributes
    ----------
    domain_ : Domain
        The domain in use.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    n_features_in_ : int
        Number of features seen by `fit`.
    """

    domain: DomainOrPath = None
    classes_: Values
    domain_: Domain
    model_: Model
    _learned: ClassVar[str] = "classes_"
    """The attribute that a fit sets last."""

    @property
    def _model(self) -> Model:
        check_is_fitted(self, self._learned)
        if "model_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} released nothing: it claims nothing.")
        return self.model_

    @property
    def privacy_report_(self) -> PrivacyReport:
        """What is claimed, with every step."""
        return self._model.report

    @property
    def report_(self) -> "ReportPage":
        """All that was released, as a page: shown in a notebook, ``to_html()`` for a file.

        With a ledger, an evaluation or a model file's hash: `mrf_matrix.reports.model_report`.
        """
        return reports.model_report(self)

    def save(self, path: "str | PathLike[str]", *, allow_nonprivate: bool = False) -> None:
        """Write the fitted model to a file that `mrf_matrix.load_model` reads; no pickle.

        Parameters and errors as `mrf_matrix.save_model`.
        """
        save_model(self, path, allow_nonprivate=allow_nonprivate)

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        """Check the parameters, bring the data, plan, and measure; here refuse all but records."""
        raise needs_records(type(self).__name__)

    @commit_on_success
    def fit(self, X: Records, y: ArrayLike | None = None) -> Self:
        """Measure private records once, or keep them for the queries to come: see the class.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid, or the ledger cannot pay (a
            `BudgetError`); nothing is spent then.
        """
        return self._fit(partial(RecordSource.of, self, self.domain, X, y))

    @commit_on_success
    def fit_counts(self, counts: CellCounts | LeafCounts) -> Self:
        """Fit from counts that were made elsewhere, in batches, on a cluster, or by hand.

        The release has the same law as that of `fit` on the records themselves, and without noise
        it is the same.

        Parameters
        ----------
        counts : CellCounts or LeafCounts
            Private counts over the estimator's domain: of `count_stream`, `count_dask`,
            `partial_counts` or sums of them. Those of `count_leaves` will do where leaves of that
            forest are all that is measured.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If they are no counts, of another domain, or do not hold what is measured; or as `fit`
            for parameters and budget. Nothing is spent then.
        """
        return self._fit(partial(CountedTables.of, self, self.domain, counts))

    @commit_on_success
    def fit_stream(
        self,
        batches: object,
        *,
        extra: str = "error",
        progress: Progress | None = None,
        file_format: FileFormat = PLAIN,
    ) -> Self:
        """Fit from batches, files or folders that are read once and never held together.

        Parameters
        ----------
        batches, extra, progress, file_format
            See `mrf_matrix.count_stream`.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            As `fit`; a batch that does not fit the domain is named. Nothing is spent then.

        Notes
        -----
        Where the domain is too large for a table of all its cells, only what is measured is
        counted: the leaves of a forest, or the cells of each ensemble's attributes.
        """
        read = batches, extra, progress, file_format
        return self._fit(partial(StreamSource.of, self, self.domain, *read))

    def partial_counts(self, X: Records, y: ArrayLike) -> CellCounts:
        """Count a batch of records over the estimator's domain, without fitting anything.

        The counts of several batches add, ``+``, and `fit_counts` takes the sum.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        CellCounts
            Private.
        """
        return partial_counts(X, y, required_domain(self.domain))

    def _codes(self, X: Records) -> Codes:
        """Return the codes of records to predict, shape (b, d).

        Raises ValueError if it is not fitted (`NotFittedError`), or the records do not fit.
        """
        check_is_fitted(self, self._learned)
        return self._encode(X, self.domain_)

    def _encode(self, X: Records, domain: Domain) -> Codes:
        if hasattr(self, "_is_read_off_"):
            X = validate_queries(self, X)
        checked_table(X, domain.names)  # its refusal advises what predict takes
        return domain.encode(X)

    def _bring_inside(self, X: Records, outside: Outside) -> Records:
        """Return queries with every value inside the domain, or as they are."""
        if outside == "refuse":
            return X
        check_is_fitted(self, self._learned)
        found: Records = self.domain_.within(X, outside)
        return found

    def _votes(self, X: Records) -> Array:
        raise TypeError(f"{type(self).__name__} has no votes: use one of its subclasses.")

    def predict(self, X: Records, *, outside: Outside = "refuse") -> Values:
        """Return the class with the most votes for each record; ties go to the first class.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        outside : {"refuse", "clip", "missing"}
            What becomes of values that have no code, dates of next year say: see `Domain.encode`.

        Returns
        -------
        ndarray of shape (b,)
            Predicted classes.
        """
        votes = self._votes(self._bring_inside(X, outside))
        labels: Values = self.classes_[votes.argmax(axis=1)]
        return labels

    def score(self, X: Records, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of records whose class is predicted, as scikit-learn's classifiers do.

        Raises TypeError if ``y`` is a masked array, whose masked classes are none.
        """
        if isinstance(y, np.ndarray):
            plain_array("y", y)
        return float(super().score(X, y, sample_weight))

    def predict_proba(self, X: Records, *, outside: Outside = "refuse") -> Array:
        """Return each class's share of the votes, (b, k): shares, not calibrated probabilities.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        outside : {"refuse", "clip", "missing"}
            As `predict`.
        """
        return vote_shares(self._votes(self._bring_inside(X, outside)))

    def predict_log_proba(self, X: Records) -> Array:
        """Return the logarithms of `predict_proba`, shape (b, k); of 0 minus infinity."""
        shares = self.predict_proba(X)
        return np.log(shares, out=np.full_like(shares, -np.inf), where=shares > 0)

    @property
    def _budget(self) -> Budget:
        """ε, ρ, or the ρ that (ε, δ) takes; ε = 1 where neither is given."""
        held = vars(self)
        return claimed_budget(held["epsilon"], held["delta"], held["rho"])

    def _design(self) -> EnsembleDesign:
        held = vars(self)
        return EnsembleDesign(**{one.name: held[one.name] for one in fields(EnsembleDesign)})

    def _measurement_spec(self, budget: Budget) -> MeasurementSpec:
        held, names = vars(self), (one.name for one in fields(MeasurementSpec))
        given = {name: held[name] for name in names if name in held}
        told = {
            "delta": float(held.get("delta", 0)),
            "budget_shares": copy(given.get("budget_shares")),
        }
        return MeasurementSpec(budget, **(given | told))

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that records may be text: the domain encodes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
