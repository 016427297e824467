"""Private naive Bayes: the baseline that few, coarse counts make hard to beat at small ε."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from mrf_matrix.estimators.shared.base import MeasuresOnce, sorted_classes
from mrf_matrix.estimators.shared.fit_from_release import FitsFromRelease
from mrf_matrix.estimators.shared.fixed_claim import keeping, release_note
from mrf_matrix.estimators.shared.given_data import PrivateData
from mrf_matrix.estimators.shared.parameters import parameters
from mrf_matrix.estimators.shared.reports import plan_report
from mrf_matrix.estimators.shared.spending import Prepared
from mrf_matrix.estimators.training.naive_bayes_votes import NaiveBayesVotes, checked_alpha
from mrf_matrix.mechanisms import ZCDP, PureDP, Release
from mrf_matrix.planning.blocks.block_design import BlockChoice
from mrf_matrix.planning.blocks.law import blocks_budget
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan import Plan

FITTED = ("domain_", "classes_", "forest_", "leaf_values_", "privacy_report_")
"""What follows from the release of a fit."""


@parameters
class PrivateNaiveBayesClassifier(FitsFromRelease, MeasuresOnce, NaiveBayesVotes):
    """Naive Bayes from noisy one-way marginals and class totals, in equal shares of the budget.

    The forest of depth-1 trees, one for each attribute, beside a tree of depth 0 for the class
    totals, all of whose leaves are measured: every record is counted once in each of the d + 1
    trees, so that each of them has the share ``1 / (d + 1)`` of the budget. Their class-conditional
    leaf probabilities are multiplied instead of added. Attributes with a single code are left out.

    Parameters
    ----------
    alpha : float
        Records added to every count of an attribute's code in a class (Laplace smoothing).
    n_records : int
        The number of records, where it is public: noise is weighed against it in the report.
    noise_state : int or Generator
        Seed of research noise.

    Attributes
    ----------
    plan_ : Plan
        What was measured, decided without data.
    forest_ : Forest
        The d stumps and the tree of class totals.
    release_ : Release
        The noisy measurement.
    leaf_values_ : ndarray of shape (o, k)
        Noisy class counts of the leaves, in the order of `classes_`.

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

    alpha: float = 1.0
    n_records: int | None = None
    _mode = "naive_bayes"

    @property
    def _budget(self) -> PureDP | ZCDP:
        """Of the noise law that serves the claim best."""
        if not self.delta:
            return super()._budget
        claim = self.epsilon, self.delta, self.rho
        return blocks_budget(claim, self.domain, None, None, self.neighboring)

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        checked_alpha(self.alpha)
        measuring = self._prepared_measurement(kind_of("naive_bayes"), BlockChoice(), bring)
        Prepared(measuring.bill, lambda: self._learn(*measuring.release())).pay()
        return self

    def _learn(self, plan: Plan, releases: Sequence[Release]) -> None:
        """Keep what follows from the release of a plan: post-processing."""
        (part,), (release,) = plan.parts, releases
        with keeping(self, FITTED, release_note("forest_"), plan_=plan, release_=release):
            self.domain_, self.forest_ = plan.domain, part.forest
            self.classes_, order = sorted_classes(plan.domain)
            self.leaf_values_ = part.answers(release)[:, order]
            self.privacy_report_ = partial(plan_report, plan, releases)
