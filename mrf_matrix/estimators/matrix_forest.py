"""DP batch training: Algorithms 1 and 3 as a scikit-learn classifier, and its baselines."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import checked_n_records, one_word, structure_generator
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.parameters import ForestParameters, parameters
from mrf_matrix.estimators.plan_fit import FitsByPlan, check_before_release
from mrf_matrix.estimators.record_source import PrivateData, asked_data
from mrf_matrix.forests import Forest
from mrf_matrix.kinds.matrix import MATRIX, MatrixPlan, matrix_plan
from mrf_matrix.kinds.model import Kind
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.ledger.payers import budget_request
from mrf_matrix.voting.voting import SHRINKAGES, ReleasedEnsemble
from strategies import Strategy


@parameters
class MatrixForestClassifier(ForestParameters, FitsByPlan):
    """Random forest whose leaf values are released once by the matrix mechanism.

    The forest's structure is drawn from the public domain alone. Its decision-path matrix ``T``
    is the workload; a strategy ``A`` is selected without data, the private records are measured
    once, and the leaf values are ``C̃ = T A⁺ (A D + noise)`` (Algorithm 1 of Tajima, Wu and
    Houmansadr, AAAI 2025). Prediction is post-processing: it costs no budget, however often.

    Parameters
    ----------
    allocation : {"matrix", "per_tree", "disjoint", "uniform_levels", "geometric_levels", \
"optimal_levels"}
        "matrix": this library's mechanism; "per_tree": Laplace (Gaussian) noise on each tree's
        leaves; "disjoint": each record trains one tree only, drawn by its own coin; the others:
        all nodes of the trees, with the literature's weights for each level.
    optimise_for : {"auto", "leaves", "votes"}
        What strategies make small: the error of the leaves, or of the weight votes of all cells
        (up to 4096), which serves binary splits with ``voting="weight"`` better. "auto": under ρ
        the paths themselves, the optimum of all votes, and under ε the leaves; see
        :doc:`/objectives`.
    voting : {"hard", "weight", "product", "shares", "posterior"}
        "hard": every tree votes for its leaf's largest class. "weight": trees add leaf values.
        The others know the noise or multiply, see `mrf_matrix.voting.voting`.
        After `fit` another one costs nothing: see `voted_by`.
    shrinkage : {"none", "votes", "leaves"}
        Shrinks leaves toward their ancestors before they vote, see `shrink_leaves`: as far as
        votes of all trees need, or each leaf on its own.
    n_records : int
        The number of records, where it is public: kept with the plan. Never read off the records.
    random_state : int, RandomState or None
        Seed of the public structure. The coins of "disjoint" follow it with research noise only;
        a private release throws fresh ones.

    Attributes
    ----------
    plan_ : Plan
        What was measured, decided without data: the plan that `plan` gives for the same arguments.
    ensembles_ : tuple of ReleasedEnsemble
        Attributes, forest, strategy, release and leaf values of each ensemble: all that was
        learned from the records.
    releases_ : tuple of Release
        The noisy measurements, one for each ensemble; kept also where the fit fails after them.
    forest_, strategy_, release_, leaf_values_, leaf_variances_
        Those of the only ensemble, where there is one.

    Notes
    -----
    The expected squared error of the leaf values is ``c(ε) ‖A‖₁² ‖T A⁺‖²_F`` per class, with c
    the variance of the discrete noise at unit scale (about ``2/ε²``); see `expected_error`.
    With q ensembles each has its share of the budget, ε/q unless told otherwise, and the claims
    add up to ε (sequential composition). Fitting twice spends the budget twice.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators import MatrixForestClassifier
    >>> car = load_dataset("car")
    >>> forest = MatrixForestClassifier(
    ...     car.domain, epsilon=1.0, n_trees=16, max_depth=3, strategy="identity", random_state=0
    ... )
    >>> forest.fit(car.X, car.y).predict(car.X).shape
    (1728,)
    >>> forest.privacy_report_.noise
    'exact'
    """

    allocation: str = "matrix"
    optimise_for: str = "auto"
    voting: str = "hard"
    shrinkage: str = "none"
    n_records: int | None = None
    _kind: ClassVar[Kind] = MATRIX

    def _plan(self, domain: Domain) -> MatrixPlan:
        return matrix_plan(
            domain,
            self._design(),
            self._measurement_spec(self._budget),
            structure_generator(self.random_state),
            n_records=checked_n_records(self.n_records),
            noise=self.noise,
            allocation=self.allocation,
            voting=self.voting,
            shrinkage=one_word("shrinkage", self.shrinkage, SHRINKAGES),
        )

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        budget_request(self, self._budget).check()  # before strategies are searched
        return super()._fit(bring)

    def _plan_data(self, given: PrivateData, plan: MatrixPlan) -> Any:
        """Return what the plan is asked of, once its release would fit: **private**."""
        if plan.kind.is_disjoint:
            given.check_records(f"{type(self).__name__} with allocation={plan.allocation!r}")
        check_before_release(plan, self.time_limit)
        return asked_data(plan, given)

    @property
    def forest_(self) -> Forest:
        """Structure of the only ensemble's forest."""
        return self._only("forest_").forest

    @property
    def strategy_(self) -> Strategy | None:
        """Strategy of the only ensemble; None for the baselines."""
        return self._only("strategy_").strategy

    @property
    def release_(self) -> Release:
        """Noisy measurement of the only ensemble."""
        return self._only("release_").release

    @property
    def leaf_values_(self) -> Array:
        """Noisy class counts of the only ensemble's leaves, in the order of `classes_`, (o, k)."""
        return self._model.sort_columns(self._only("leaf_values_").leaf_values)

    @property
    def leaf_variances_(self) -> Array:
        """Noise variance of the only ensemble's leaf values, known without data, shape (o,)."""
        return self._only("leaf_variances_").leaf_variances

    def _only(self, name: str) -> ReleasedEnsemble:
        ensembles: tuple[ReleasedEnsemble, ...] = getattr(self, "ensembles_", ())
        if len(ensembles) != 1:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: it is not fitted, or has several "
                f"ensembles. Look at each of ensembles_."
            )
        return ensembles[0]
