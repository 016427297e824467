"""DP batch training: Algorithms 1 and 3 as a scikit-learn classifier, and two baselines."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.allocation import (
    TrainedEnsemble,
    Training,
    allocate,
    checked_allocation,
)
from mrf_matrix.estimators.answering import Answering
from mrf_matrix.estimators.base import ForestClassifier, sorted_classes
from mrf_matrix.estimators.disjoint import record_coins
from mrf_matrix.estimators.ensembles import structure_generator as structure_generator
from mrf_matrix.estimators.schema import encode, encode_queries, resolve_domain
from mrf_matrix.estimators.spending import Bill, budget_shares_of, noise_stream
from mrf_matrix.estimators.training_report import training_report
from mrf_matrix.estimators.voting import check_voting, forest_votes, leaf_votes
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release, as_budget
from mrf_matrix.planning.ensembles import Ensemble
from strategies import Strategy

Array = NDArray[np.float64]


class MatrixForestClassifier(ForestClassifier):
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
    epsilon : float, int or Fraction, default=1.0
        Pure-DP budget, spent by `fit`. ``float("inf")`` adds no noise.
    rho : float, int or Fraction, optional
        zCDP budget with Gaussian noise, instead of ``epsilon`` (set ``epsilon=None``).
    n_trees, max_depth, splits
        The random trees of all ensembles together, see `RandomTrees`. Ignored when ``forest`` is
        given.
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
        "matrix": this library's mechanism. "per_tree": Laplace (Gaussian) noise on every tree's
        leaves. "disjoint": each record trains one tree only, drawn by its own coin.
    strategy : str, Strategy, Operator or ndarray, or a list of them, default="auto"
        Family name for `strategies.select`, or a strategy matrix for each ensemble. Only for
        "matrix".
    voting : {"hard", "weight"}, default="hard"
        "hard": every tree votes for its leaf's largest class. "weight": trees add leaf values.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation of the claim.
    noise : {"exact", "research"}, default="exact"
        "exact": discrete noise from OpenDP, never seedable. "research": the same law from NumPy,
        seedable by ``noise_state``; not a private release.
    noise_state : int or Generator, optional
        Seed of research noise.
    time_limit : float, default=8.0
        Seconds that ``strategy="auto"`` may work, for each ensemble.
    n_jobs : int, optional
        Processes that select the ensembles' strategies. Noise is always drawn in the parent.
    ledger : PrivacyLedger, optional
        Charged once by every `fit`, after all checks and before the records are measured.
    random_state : int, RandomState or None, default=None
        Seed of the public structure: attributes and trees. The coins of "disjoint" follow it
        with research noise only; a private release throws fresh ones.

    Attributes
    ----------
    domain_ : Domain
        The domain in use.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    ensembles_ : tuple of TrainedEnsemble
        Attributes, forest, strategy, release and leaf values of each ensemble: all that was
        learned from the records.
    forest_, strategy_, release_, leaf_values_
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
    >>> from mrf_matrix import MatrixForestClassifier, load_dataset
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
        epsilon: Any = 1.0,
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
        check_voting(self.voting)
        checked_allocation(self.allocation)
        bill = self._bill()
        bill.check()
        domain, X, y = resolve_domain(self, self.domain, X, y)
        structure = structure_generator(self.random_state)
        private = not bill.budget.is_infinite
        ensembles = self._design().grow(domain, structure, use="release" if private else "study")
        trainings = self._train(ensembles, structure)
        codes, labels = encode(domain, X, y)
        bill.charge()
        stream = noise_stream(self.noise, self.noise_state)
        self._release(trainings, domain, codes, labels, structure, stream)
        return self

    def _release(
        self,
        trainings: Sequence[Training],
        domain: Domain,
        codes: NDArray[np.int32],
        labels: NDArray[np.int32],
        coins: np.random.Generator,
        noise_state: Any,
    ) -> None:
        """Measure the records with every ensemble's share of the budget; keep what comes out."""
        self.domain_ = domain
        self.classes_, order = sorted_classes(domain)
        ensembles = []
        seeds = coins.integers(2**63, size=len(trainings))  # whatever the records
        for training, seed in zip(trainings, seeds, strict=True):
            coin = record_coins(self.noise, training.answering.mechanism.budget, seed)
            table = training.table(codes, labels, domain.n_classes, coin)
            release, values = training.answering.release(
                table, noise=self.noise, noise_state=noise_state
            )
            ensembles.append(training.trained(release, values[:, order]))
        self.ensembles_ = tuple(ensembles)
        report = training_report(trainings, ensembles)
        self.privacy_report_ = report.over(self.domain)

    def _bill(self) -> Bill:
        return Bill(
            ledger=self.ledger,
            budget=as_budget(epsilon=self.epsilon, rho=self.rho),
            what=f"{type(self).__name__}.fit",
            neighboring=self.neighboring,
            noise=self.noise,
            noise_state=self.noise_state,
        )

    def _train(
        self, ensembles: Sequence[Ensemble], structure: np.random.Generator
    ) -> tuple[Training, ...]:
        budget = as_budget(epsilon=self.epsilon, rho=self.rho)
        return allocate(
            ensembles,
            self.allocation,
            budget_shares_of(budget, self.budget_shares, len(ensembles)),
            structure,
            strategy=self.strategy,
            neighboring=self.neighboring,
            time_limit=self.time_limit,
            n_jobs=self.n_jobs,
        )

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
        """Noisy class counts of the only ensemble's leaves, shape (o, k)."""
        return self._only("leaf_values_").leaf_values

    def _only(self, name: str) -> TrainedEnsemble:
        ensembles: tuple[TrainedEnsemble, ...] = getattr(self, "ensembles_", ())
        if len(ensembles) != 1:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: it is not fitted, or has several "
                f"ensembles. Look at each of ensembles_."
            )
        return ensembles[0]

    def _votes(self, X: Any) -> Array:
        check_is_fitted(self, "ensembles_")
        rule = check_voting(self.voting)
        codes = encode_queries(self, self.domain_, X)
        votes = np.zeros((len(codes), len(self.classes_)))
        for one in self.ensembles_:
            seen = Ensemble(one.features, one.forest).view(codes)
            votes += forest_votes(one.forest, seen, leaf_votes(one.leaf_values, rule))
        return votes

    def expected_vote_error(self, X: Any) -> Array:
        """Return the root-mean-square error that noise causes in each record's weight votes.

        Known without private data: from strategy, records and budget alone.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records to predict, in the domain's terms.

        Returns
        -------
        ndarray of shape (b,)
            In records per class, summed over the trees of all ensembles.
        """
        check_is_fitted(self, "ensembles_")
        codes = encode_queries(self, self.domain_, X)
        variances = np.zeros(len(codes))
        for one in self.ensembles_:
            ensemble = Ensemble(one.features, one.forest)
            answering = Answering(one.release.matrix, one.strategy, one.release.mechanism)
            kind = checked_allocation(self.allocation)
            variances += Training(ensemble, kind, answering).vote_variances(codes)
        return np.sqrt(variances)
