"""Private naive Bayes: the baseline that few, coarse counts make hard to beat at small ε."""

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.shown import shown
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import ForestClassifier, sorted_classes
from mrf_matrix.estimators.shared.fit_from_counts import FitsFromCounts
from mrf_matrix.estimators.shared.fit_from_release import FitsFromRelease
from mrf_matrix.estimators.shared.given_data import GivenRecords, PrivateData
from mrf_matrix.estimators.shared.planned_tables import tables_for
from mrf_matrix.estimators.shared.schema import encode_queries, with_provenance
from mrf_matrix.estimators.shared.spending import noise_stream
from mrf_matrix.estimators.training.training_report import training_report
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockChoice
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of
from mrf_matrix.voting.leaf_evidence import LEAST_TOTAL
from mrf_matrix.voting.naive_bayes import (
    naive_bayes_leaf_logs,
    posterior_shares,
)
from mrf_matrix.voting.voting import forest_votes

Array = NDArray[np.float64]


class PrivateNaiveBayesClassifier(FitsFromCounts, FitsFromRelease, ForestClassifier):
    """Naive Bayes from noisy one-way marginals and class totals, in equal shares of the budget.

    The forest of depth-1 trees, one for each attribute, beside a tree of depth 0 for the class
    totals, all of whose leaves are measured: every record is counted once in each of the d + 1
    trees, so that each of them has the share ``1 / (d + 1)`` of the budget. Their class-conditional
    leaf probabilities are multiplied instead of added. Attributes with a single code are left out.

    Parameters
    ----------
    domain : Domain or "from_data"
        The public schema, with the target's classes. Required. "from_data" reads it off the
        records, which leaks them, and warns.
    epsilon : float, int or Fraction, optional
        Pure-DP budget, spent by `fit`; 1 where no ``rho`` is given either. ``float("inf")`` adds
        no noise.
    rho : float, int or Fraction, optional
        zCDP budget with Gaussian noise, instead of ``epsilon``.
    alpha : float, default=1.0
        Records added to every count of an attribute's code in a class (Laplace smoothing).
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation of the claim.
    noise : {"exact", "research"}, default="exact"
        "exact": discrete noise from OpenDP, never seedable. "research": the same law from NumPy,
        seedable by ``noise_state``; not a private release.
    noise_state : int or Generator, optional
        Seed of research noise.
    ledger : PrivacyLedger, optional
        Charged once by every `fit`, after all checks and before the records are measured.

    Attributes
    ----------
    domain_ : Domain
        The domain in use.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    plan_ : Plan
        What was measured, decided without data.
    forest_ : Forest
        The d stumps and the tree of class totals.
    release_ : Release
        The noisy measurement.
    leaf_values_ : ndarray of shape (o, k)
        Noisy class counts of the leaves, in the order of `classes_`.
    privacy_report_ : PrivacyReport
        What is claimed, under which relation, with which noise.
    n_features_in_ : int
        Number of features seen by `fit`.

    Notes
    -----
    Noisy counts are clipped at zero and smoothed, class totals clipped at half a record: the usual
    repairs, which ignore how noisy the counts are. With ``epsilon=float("inf")`` and ``alpha=1``
    predictions are those of scikit-learn's `CategoricalNB`.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.training.naive_bayes import PrivateNaiveBayesClassifier
    >>> car = load_dataset("car")
    >>> model = PrivateNaiveBayesClassifier(car.domain, epsilon=1.0).fit(car.X, car.y)
    >>> model.predict(car.X).shape
    (1728,)
    >>> model.forest_.n_trees, model.release_.sensitivity
    (7, 7.0)
    """

    mode = "naive_bayes"

    def __init__(
        self,
        domain: Domain | str | None = None,
        *,
        epsilon: Any = None,
        rho: Any = None,
        alpha: float = 1.0,
        neighboring: str = "add_remove",
        noise: str = "exact",
        noise_state: Any = None,
        ledger: Any = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.rho = rho
        self.alpha = alpha
        self.neighboring = neighboring
        self.noise = noise
        self.noise_state = noise_state
        self.ledger = ledger

    def fit(self, X: Any, y: Any) -> "PrivateNaiveBayesClassifier":
        """Measure the marginals and the class totals once.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        PrivateNaiveBayesClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid, or the ledger cannot pay (a
            `BudgetError`); nothing is spent then.
        """
        return self._fit(partial(GivenRecords.of, self, X, y))

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        _checked_alpha(self.alpha)
        bill = self._bill()
        measuring = self._measuring(bill.budget)
        measuring.check()
        bill.check()
        data = bring()
        no_choice = np.random.default_rng(0)  # nothing of it is random
        plan = plan_of(kind_of(self.mode), data.domain, BlockChoice(), measuring, no_choice)
        (part,) = plan.parts
        counts = plan.kind.table(part.ensemble, tables_for(plan, data), no_choice)
        stream = noise_stream(self.noise, bill.noise_state)
        bill.charge()
        release = part.release(counts, noise=self.noise, noise_state=stream)
        self._learn(plan, [with_provenance(release, self.domain)])
        return self

    def _learn(self, plan: Plan, releases: Sequence[Release]) -> None:
        (part,), (self.release_,) = plan.parts, releases
        self.plan_, self.domain_, self.forest_ = plan, plan.domain, part.forest
        self.classes_, order = sorted_classes(plan.domain)
        self.leaf_values_ = part.answers(self.release_)[:, order]
        self.privacy_report_ = training_report(plan.kind, plan.parts, releases)

    def _votes(self, X: Any) -> Array:
        """Return log posteriors, less a constant."""
        check_is_fitted(self, "leaf_values_")
        codes = encode_queries(self, self.domain_, X)
        floor = 0.0 if self.release_.noise == "none" else LEAST_TOTAL
        logs = naive_bayes_leaf_logs(
            self.forest_, self.leaf_values_, _checked_alpha(self.alpha), floor
        )
        absent = np.isneginf(logs).any(axis=0)  # 0 * -inf is no number in a matrix product
        votes = forest_votes(self.forest_, codes, np.where(absent, 0.0, logs))
        return np.where(absent, -np.inf, votes)

    def predict_proba(self, X: Any) -> Array:
        """Return the posterior of each class under independence, from the noisy counts.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.

        Returns
        -------
        ndarray of shape (b, k)
            Probabilities, in the order of `classes_`.
        """
        return posterior_shares(self._votes(X))


def _checked_alpha(alpha: Any) -> float:
    number = isinstance(alpha, int | float | np.integer | np.floating)
    if isinstance(alpha, bool) or not number or not (alpha > 0 and isfinite(alpha)):
        raise ValueError(
            f"alpha={shown(alpha)}: expected a positive number of records, for example 1.0."
        )
    return float(alpha)
