"""DP batch training: Algorithms 1 and 3 as a scikit-learn classifier, and two baselines."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.checks import whole_number
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.fit_from_counts import FitsFromCounts
from mrf_matrix.estimators.shared.given_data import GivenRecords, PrivateData
from mrf_matrix.estimators.shared.planned_tables import tables_for
from mrf_matrix.estimators.shared.schema import encode_queries, with_provenance
from mrf_matrix.estimators.shared.spending import noise_stream
from mrf_matrix.estimators.training.noise_aware import NoiseAwareForest
from mrf_matrix.estimators.training.only_ensemble import OnlyEnsemble
from mrf_matrix.estimators.training.trained_ensemble import TrainedEnsemble
from mrf_matrix.estimators.training.training_report import training_report
from mrf_matrix.mechanisms.budgets.budget import budget_or_default
from mrf_matrix.planning.kinds.coins import record_coins
from mrf_matrix.planning.kinds.table_source import TableSource
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.voting.leaf_noise import check_shrinkage


class MatrixForestClassifier(FitsFromCounts, OnlyEnsemble, NoiseAwareForest):
    """Random forest whose leaf values are released once by the matrix mechanism.

    The forest's structure is drawn from the public domain alone. Its decision-path matrix ``T``
    is the workload; a strategy ``A`` is selected without data, the private records are measured
    once, and the leaf values are ``C̃ = T A⁺ (A D + noise)`` (Algorithm 1 of Tajima, Wu and
    Houmansadr, AAAI 2025). Prediction is post-processing: it costs no budget, however often.

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
    n_trees, max_depth, splits
        The random trees of all ensembles, see `RandomTrees`; ignored when ``forest`` is given.
    forest : Forest or path source, or a list of one for each ensemble, optional
        A public forest, or a source with ``grow(domain, random_state)``.
    n_ensembles : int, default=1
        Number of ensembles q (Algorithm 3), each over its own random attributes.
    max_features : int, optional
        Attributes d̄ that each ensemble draws; all of them when not given.
    feature_subsets : list of lists of str or int, optional
        The attributes of each ensemble, by name or position, instead of random ones.
    budget_shares : list of positive numbers, optional
        Shares of the budget, one for each ensemble; equal when not given.
    allocation : {"matrix", "per_tree", "disjoint"}, default="matrix"
        "matrix": this library's mechanism; "per_tree": Laplace (Gaussian) noise on each tree's
        leaves; "disjoint": each record trains one tree only, drawn by its own coin.
    strategy : str, Strategy, Operator or ndarray, or a list of them, default="auto"
        Family name for `strategies.select`, or a strategy matrix for each ensemble. Only for
        "matrix".
    voting : {"hard", "weight", "product", "shares", "posterior"}, default="hard"
        "hard": every tree votes for its leaf's largest class. "weight": trees add leaf values.
        The others know the noise or multiply, see `mrf_matrix.voting.ensemble_votes`.
        Changing it after `fit` costs nothing.
    shrinkage : {"none", "votes", "leaves"}, default="none"
        Shrinks leaves toward their ancestors before they vote, see `shrink_leaves`: as far as
        votes of all trees need, or each leaf on its own.
    n_records : int, optional
        The number of records, where it is public: kept with the plan. Never read off the records.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation of the claim.
    noise : {"exact", "research"}, default="exact"
        "exact": discrete noise from OpenDP, never seedable. "research": the same law from NumPy,
        not a private release.
    noise_state : int or Generator, optional
        Seed of research noise; where there is none, it follows an integer ``random_state`` by a
        stream of its own.
    time_limit : float, default=8.0
        Seconds that ``strategy="auto"`` may work, for each ensemble.
    n_jobs : int, optional
        Processes that select the ensembles' strategies. Noise is always drawn in the parent.
    ledger : PrivacyLedger, optional
        Charged once by every `fit`, after all checks and before the records are measured.
    random_state : int, RandomState or None, default=None
        Seed of the public structure. The coins of "disjoint" follow it with research noise only;
        a private release throws fresh ones.

    Attributes
    ----------
    domain_ : Domain
        The domain in use.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    plan_ : Plan
        What was measured, decided without data: the plan that `plan` gives for the same arguments.
    ensembles_ : tuple of TrainedEnsemble
        Attributes, forest, strategy, release and leaf values of each ensemble: all that was
        learned from the records.
    forest_, strategy_, release_, leaf_values_, leaf_variances_
        Those of the only ensemble, where there is one.
    privacy_report_ : PrivacyReport
        What is claimed, under which relation, with which noise.
    n_features_in_ : int
        Number of features seen by `fit`.

    Notes
    -----
    The expected squared error of the leaf values is ``c(ε) ‖A‖₁² ‖T A⁺‖²_F`` per class, with c
    the variance of the discrete noise at unit scale (about ``2/ε²``); see `expected_error`.
    With q ensembles each has its share of the budget, ε/q unless told otherwise, and the claims
    add up to ε (sequential composition). Fitting twice spends the budget twice.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.training.matrix_forest import MatrixForestClassifier
    >>> car = load_dataset("car")
    >>> forest = MatrixForestClassifier(
    ...     car.domain, epsilon=1.0, n_trees=16, max_depth=3, strategy="identity", random_state=0
    ... )
    >>> forest.fit(car.X, car.y).predict(car.X).shape
    (1728,)
    >>> forest.privacy_report_.noise
    'exact'
    """

    def __init__(
        self,
        domain: Domain | str | None = None,
        *,
        epsilon: Any = None,
        rho: Any = None,
        n_trees: int = 128,
        max_depth: int = 4,
        splits: Any = "multiway",
        forest: Any = None,
        n_ensembles: int = 1,
        max_features: int | None = None,
        feature_subsets: Any = None,
        budget_shares: Any = None,
        allocation: str = "matrix",
        strategy: Any = "auto",
        voting: str = "hard",
        shrinkage: str = "none",
        n_records: int | None = None,
        neighboring: str = "add_remove",
        noise: str = "exact",
        noise_state: Any = None,
        time_limit: float = 8.0,
        n_jobs: int | None = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.rho = rho
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.splits = splits
        self.forest = forest
        self.n_ensembles = n_ensembles
        self.max_features = max_features
        self.feature_subsets = feature_subsets
        self.budget_shares = budget_shares
        self.allocation = allocation
        self.strategy = strategy
        self.voting = voting
        self.shrinkage = shrinkage
        self.n_records = n_records
        self.neighboring = neighboring
        self.noise = noise
        self.noise_state = noise_state
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "MatrixForestClassifier":
        """Measure the records once and keep the noisy leaf values.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        MatrixForestClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid, or the ledger cannot pay (a
            `BudgetError`); nothing is spent then.
        """
        return self._fit(partial(GivenRecords.of, self, X, y))

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        kind = kind_of("training", self.allocation, self.voting)
        check_shrinkage(self.shrinkage)
        records = None if self.n_records is None else whole_number("n_records", self.n_records)
        measuring = self._measuring(budget_or_default(self.epsilon, self.rho))
        measuring.check()
        bill = self._bill()
        bill.check()
        data = bring()
        if kind.is_disjoint:
            data.check_records(f"{type(self).__name__} with allocation='disjoint'")
        structure = structure_generator(self.random_state)
        plan = plan_of(
            kind, data.domain, self._design(), measuring, structure, n_records=records,
            use="study" if bill.budget.is_infinite else "release",
        )  # fmt: skip
        tables = tables_for(plan, data)
        stream = noise_stream(self.noise, bill.noise_state)
        bill.charge()
        self._release(plan, tables, structure, stream)
        return self

    def _release(
        self,
        plan: Plan,
        tables: TableSource,
        structure: np.random.Generator,
        noise_state: Any,
    ) -> None:
        """Measure the records with every ensemble's share of the budget; keep what comes out."""
        domain = plan.domain
        self.plan_, self.domain_ = plan, domain
        self.classes_, order = sorted_classes(domain)
        ensembles = []
        seeds = structure.integers(2**63, size=len(plan.parts))  # whatever the records
        for part, seed in zip(plan.parts, seeds, strict=True):
            coins = record_coins(self.noise, part.mechanism.budget, seed)
            table = plan.kind.table(part.ensemble, tables, coins)
            release = part.release(table, noise=self.noise, noise_state=noise_state)
            release = with_provenance(release, self.domain)
            ensembles.append(TrainedEnsemble.of(part, release, part.answers(release)[:, order]))
        self.ensembles_ = tuple(ensembles)
        releases = [one.release for one in ensembles]
        self.privacy_report_ = training_report(plan.kind, plan.parts, releases)

    def _codes(self, X: Any) -> NDArray[np.int32]:
        check_is_fitted(self, "ensembles_")
        return encode_queries(self, self.domain_, X)
