"""DP batch prediction: Algorithms 2 and 3 as a scikit-learn classifier."""

from typing import Any

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.prediction.private_prediction import PrivatePredictionClassifier
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.kinds.words import kind_of


class BatchPredictionClassifier(PrivatePredictionClassifier):
    """Random forest that releases noisy votes for a batch of queries, all optimised together.

    `fit` **keeps the private records** (as counts of cells) and spends nothing. `predict` builds
    the workload ``W = Q Tᵀ T`` of the queries' weight votes, selects a strategy A for it without
    data, measures the records once and returns the labels with the most votes in
    ``W A⁺ (A D + noise)`` (Algorithm 2 of Tajima, Wu and Houmansadr, AAAI 2025). Queries are
    public. An answer once released is given again at no cost, so that `predict` after
    `predict_proba` is free, and a query that occurs several times in a batch is measured once,
    with its weight.

    Parameters
    ----------
    domain : Domain or "from_data"
        The public schema, with the target's classes. Required. "from_data" reads it off the
        records, which leaks them, and warns.
    epsilon : float, int or Fraction, optional
        Pure-DP budget of everything that this fit will ever answer. ``float("inf")`` adds no
        noise and is not used up.
    rho : float, int or Fraction, optional
        zCDP budget with Gaussian noise, instead of ``epsilon``.
    n_batches : int, default=1
        Batches of new queries that the budget is divided into, equally. Each call with queries
        that have no answer yet is one batch; a call beyond them raises `BudgetError`.
    n_trees, max_depth, splits
        The random trees of all ensembles together, see `RandomTrees`. Ignored when ``forest`` is
        given.
    forest : Forest or path source, or a list of one for each ensemble, optional
        A public forest, or a source with ``grow(domain, random_state)``.
    n_ensembles, max_features, feature_subsets, budget_shares
        Several ensembles, see `MatrixForestClassifier`; their votes add up.
    strategy : str, Strategy, Operator or ndarray, or a list of them, default="auto"
        Family name for `strategies.select`, or a strategy matrix for each ensemble, which must
        determine the votes of the batch.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation of the claim.
    noise, noise_state
        See `MatrixForestClassifier`.
    time_limit : float, default=1.0
        Seconds that ``strategy="auto"`` may work, for each ensemble and batch.
    n_jobs : int, optional
        Processes that select the ensembles' strategies. Noise is always drawn in the parent.
    ledger : PrivacyLedger, optional
        Charged by every batch of new queries, just before the records are measured.
    keep_records_in_pickle : bool, default=False
        Pickling or copying the fitted object raises, for it holds the records. True allows it;
        then every copy holds them, and may spend the budget again.
    random_state : int, RandomState or None, default=None
        Seed of the public structure.

    Attributes
    ----------
    domain_ : Domain
        The domain in use.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    ensembles_ : tuple of Ensemble
        Attributes and forest of each ensemble.
    batches_ : tuple of VoteBatch
        What was released so far: plan, noisy measurements, votes (classes in the domain's order).
    privacy_report_ : PrivacyReport
        What is claimed for all batches so far.
    n_features_in_ : int
        Number of features seen by `fit`.

    Notes
    -----
    The expected squared error of the votes of query r is ``c(ε) ‖A‖₁² ‖(W A⁺)_r‖²`` per class,
    known without data: see `plan`. With q ensembles each has its share of the budget and their
    claims add up (sequential composition), as do those of the batches. Splitting a batch in two
    costs more than a factor of two in noise: ask all queries at once.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.prediction.batch_prediction import BatchPredictionClassifier
    >>> car = load_dataset("car")
    >>> model = BatchPredictionClassifier(
    ...     car.domain, epsilon=2.0, n_trees=16, strategy="identity", random_state=0
    ... ).fit(car.X, car.y)
    >>> queries = car.X[:100]
    >>> model.plan(queries).budget
    PureDP(epsilon=2)
    >>> labels = model.predict(queries)
    >>> shares = model.predict_proba(queries)  # the same answers again: free
    >>> len(model.batches_)
    1
    """

    def __init__(
        self,
        domain: Domain | str | None = None,
        *,
        epsilon: Any = None,
        rho: Any = None,
        n_batches: int = 1,
        n_trees: int = 128,
        max_depth: int = 4,
        splits: Any = "multiway",
        forest: Any = None,
        n_ensembles: int = 1,
        max_features: int | None = None,
        feature_subsets: Any = None,
        budget_shares: Any = None,
        strategy: Any = "auto",
        neighboring: str = "add_remove",
        noise: str = "exact",
        noise_state: Any = None,
        time_limit: float = 1.0,
        n_jobs: int | None = None,
        ledger: Any = None,
        keep_records_in_pickle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.rho = rho
        self.n_batches = n_batches
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.splits = splits
        self.forest = forest
        self.n_ensembles = n_ensembles
        self.max_features = max_features
        self.feature_subsets = feature_subsets
        self.budget_shares = budget_shares
        self.strategy = strategy
        self.neighboring = neighboring
        self.noise = noise
        self.noise_state = noise_state
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.ledger = ledger
        self.keep_records_in_pickle = keep_records_in_pickle
        self.random_state = random_state

    def _kind(self) -> Kind:
        return kind_of("prediction")
