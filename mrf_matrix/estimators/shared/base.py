"""What all classifiers do alike: votes to labels and shares, and fitting from counts."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.domain import Domain, required_domain
from mrf_matrix.estimators.shared.fixed_claim import ClaimAttribute, FixedClaim
from mrf_matrix.estimators.shared.given_data import (
    GivenCounts,
    GivenRecords,
    GivenStream,
    PrivateData,
    needs_records,
)
from mrf_matrix.estimators.shared.parameters import DomainParameters, Labels, Records
from mrf_matrix.estimators.shared.schema import encode_queries
from mrf_matrix.estimators.shared.spending import Budget
from mrf_matrix.mechanisms import CellCounts, LeafCounts
from mrf_matrix.planning.plans.plan_of import Measuring
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.streams import partial_counts
from mrf_matrix.streams.blocks import Progress
from mrf_matrix.voting.intervals import checked_level
from mrf_matrix.voting.voting import vote_shares


class BaseForestClassifier(FixedClaim, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that turns votes into labels; subclasses say where the votes come from."""

    classes_: Labels
    domain_: Domain
    privacy_report_ = ClaimAttribute[PrivacyReport]()
    _learned: ClassVar[str] = "classes_"
    """The attribute that a fit sets last."""

    def fit_counts(self, counts: CellCounts | LeafCounts) -> Self:
        """Refuse: this classifier needs the records themselves, see `fit`."""
        raise needs_records(type(self).__name__)

    def fit_stream(
        self, batches: object, *, extra: str = "error", progress: Progress | None = None
    ) -> Self:
        """Refuse: this classifier needs the records themselves, see `fit`."""
        raise needs_records(type(self).__name__)

    def _codes(self, X: Records) -> Codes:
        """Return the codes of records to predict, shape (b, d)."""
        check_is_fitted(self, self._learned)
        return encode_queries(self, self.domain_, X)

    def _votes(self, X: Records) -> Array:
        """Return the votes of every record, shape (b, k), in the order of `classes_`."""
        raise TypeError(f"{type(self).__name__} has no votes: use one of its subclasses.")

    def predict(self, X: Records) -> Labels:
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
        labels: Labels = self.classes_[votes.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Records) -> Array:
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

    def _measuring(self, budget: Budget) -> Measuring:
        """Return how a plan of this budget is measured, from the parameters of these names."""
        held, names = vars(self), (one.name for one in fields(Measuring))
        return Measuring(budget, **{name: held[name] for name in names if name in held})

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that records may be text: the domain encodes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


class MarginIntervals:
    """Intervals of margins, and labels withheld where they hold zero."""

    classes_: Labels

    def _margins(self, X: Records, level: float) -> tuple[Longs, Array, Array]:
        """Return leading classes, their margins, and the half-widths of the intervals."""
        raise NotImplementedError

    def vote_intervals(self, X: Records, level: float = 0.95) -> tuple[Array, Array]:
        """Return the margin of the leading class over the next, and its interval's half-width.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms; queries without an answer are released first, as by
            `predict`.
        level : float, default=0.95
            Probability that the interval holds the margin: of released votes over the noise, for
            the margin of the same votes without noise; of a posterior under its model. It is not
            the probability that the label is right.

        Returns
        -------
        margin : ndarray of shape (b,)
            Not negative: in votes, or of a posterior in log odds, 0 where a class leads by its
            averaged probability only.
        half_width : ndarray of shape (b,)
            See `mrf_matrix.voting.margin_widths`, shared among all pairs of classes; of a
            posterior by a normal approximation.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1, new queries cannot be paid (a `BudgetError`), or
            a posterior knows one class only.
        """
        return self._margins(X, checked_level(level))[1:]

    def predict_or_abstain(self, X: Records, level: float = 0.95) -> np.ma.MaskedArray:
        """Return labels, masked where the interval of the margin holds 0: noise may have chosen.

        Parameters
        ----------
        X, level
            See `vote_intervals`.

        Returns
        -------
        numpy.ma.MaskedArray of shape (b,)
            Predicted classes; masked is withheld.
        """
        best, margin, width = self._margins(X, checked_level(level))
        return np.ma.masked_array(self.classes_[best], mask=margin <= width)


def sorted_classes(domain: Domain) -> tuple[Labels, NDArray[np.intp]]:
    """Return the domain's classes as scikit-learn wants them, sorted, and their codes' order."""
    classes, order = np.unique(np.asarray(domain.classes), return_index=True)
    return classes, order


class FitsFromCounts(BaseForestClassifier, DomainParameters):
    """A classifier whose `fit` needs the counts of the records only.

    Subclasses say how they fit whatever data are given.
    """

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        """Check the parameters, bring the data, plan, and measure."""
        raise TypeError(f"{type(self).__name__} measures nothing: use one of its subclasses.")

    def fit(self, X: Records, y: ArrayLike) -> Self:
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
        return self._fit(partial(GivenRecords.of, self, X, y))

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
        return self._fit(partial(GivenCounts.of, self, counts))

    def fit_stream(
        self, batches: object, *, extra: str = "error", progress: Progress | None = None
    ) -> Self:
        """Fit from batches, files or folders that are read once and never held together.

        Parameters
        ----------
        batches, extra, progress
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
        return self._fit(partial(GivenStream.of, self, batches, extra, progress))

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
