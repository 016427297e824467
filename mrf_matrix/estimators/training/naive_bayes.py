"""Private naive Bayes: the baseline that few, coarse counts make hard to beat at small ε."""

from typing import ClassVar

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import public_records
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.parameters import parameters
from mrf_matrix.estimators.shared.plan_fit import FitsByPlan
from mrf_matrix.forests import Forest
from mrf_matrix.kinds.model import Kind
from mrf_matrix.kinds.naive_bayes import (
    NAIVE_BAYES,
    NaiveBayesPlan,
    checked_alpha,
    naive_bayes_plan,
    smoothed,
)
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.planning.blocks.law import blocks_budget
from mrf_matrix.planning.plans.plan import Plan


@parameters
class PrivateNaiveBayesClassifier(FitsByPlan):
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
    _kind: ClassVar[Kind] = NAIVE_BAYES

    @property
    def _budget(self) -> PureDP | ZCDP:
        """Of the noise law that serves the claim best."""
        if not self.delta:
            return super()._budget
        claim = self.epsilon, self.delta, self.rho
        return blocks_budget(claim, self.domain, None, None, self.neighboring)

    def _plan(self, domain: Domain) -> NaiveBayesPlan:
        return naive_bayes_plan(
            domain,
            self._budget,
            n_records=public_records(self.n_records),
            neighboring=self.neighboring,
            delta=float(self.delta),
            alpha=checked_alpha(self.alpha),
        )

    def _plan_of_parties(self, plan: Plan) -> NaiveBayesPlan:
        return smoothed(plan, checked_alpha(self.alpha))

    @property
    def forest_(self) -> Forest:
        """The stumps and the tree of class totals."""
        forest: Forest = self._model.posterior.forest
        return forest

    @property
    def leaf_values_(self) -> Array:
        """Noisy class counts of the leaves, in the order of `classes_`."""
        return self._model.sorted(self._model.posterior.leaf_values)
