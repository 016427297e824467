"""Subsample-and-aggregate: disjoint data per tree, votes released under privacy."""

from typing import Any

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.prediction.private_prediction import PrivatePredictionClassifier
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.kinds.words import kind_of


class SubsampleAggregateClassifier(PrivatePredictionClassifier):
    """Forest whose trees see disjoint records, and whose votes are released under privacy.

    Every record goes to one tree of each ensemble, by its own coin, so that adding a
    record moves no other. `fit` **keeps private counts** (of the leaves, C) and spends nothing.
    `predict` takes the workload ``W = Q Tᵀ`` over leaves, selects a strategy A for it without
    data, and returns the labels with the most votes in ``W A⁺ (A C + noise)`` (Tajima, Wu and
    Houmansadr, AAAI 2025, "Optimizing Subsample-and-Aggregate Framework"). The existing mechanism
    (Dwork and Feldman, 2018) divides the budget among the queries instead.

    Parameters
    ----------
    domain : Domain or "from_data"
        The public schema, with the target's classes. Required.
    epsilon, rho, n_batches
        The budget of everything that this fit will ever answer, see `BatchPredictionClassifier`.
    n_trees, max_depth, splits, forest
        The random trees, see `BatchPredictionClassifier`.
    n_ensembles, max_features, feature_subsets, budget_shares
        Several ensembles, see `MatrixForestClassifier`; each has its own coins, and their votes
        add up.
    allocation : {"matrix", "per_query"}, default="matrix"
        "matrix": a strategy for all queries together. "per_query": every distinct query gets an
        equal part of the budget (the baseline).
    strategy : str, Strategy, Operator or ndarray, or a list of them, default="auto"
        Only for "matrix".
    voting : {"weight", "hard"}, default="weight"
        "weight": trees add their leaves' class counts; sensitivity ``‖A‖``. "hard": trees vote
        for their leaf's largest class; one record moves one leaf's vote from one class to
        another, so the noise doubles (see `with_hard_votes`), and a change after `fit` is refused:
        the table that was counted is of one voting. A leaf without records
        does not vote, and ties within a leaf are broken by a public preference drawn for each
        leaf.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation of the claim.
    noise, noise_state, time_limit, n_jobs, ledger, keep_records_in_pickle
        See `BatchPredictionClassifier`.
    random_state : int, RandomState or None, default=None
        Seed of the public structure: attributes and trees. Coins and preferences among ties
        follow it with research noise only; a private release throws fresh ones.

    Attributes
    ----------
    domain_, classes_, ensembles_, batches_, privacy_report_, n_features_in_
        See `BatchPredictionClassifier`.

    Notes
    -----
    The private table is over leaves, not cells: a record counts in one leaf only. A coin belongs
    to a record's place in the data, so under "add_remove" a record and its coin come or go
    together.

    Examples
    --------
    >>> from mrf_matrix import SubsampleAggregateClassifier, load_dataset
    >>> car = load_dataset("car")
    >>> model = SubsampleAggregateClassifier(
    ...     car.domain, n_trees=16, max_depth=3, voting="hard", random_state=0
    ... ).fit(car.X, car.y)
    >>> model.plan(car.X).parts[0].mechanism.squared_factor  # of a factor of two
    4
    """

    _claim_rests_on = ("voting",)

    def __init__(
        self,
        domain: Domain | str | None = None,
        *,
        epsilon: Any = None,
        rho: Any = None,
        n_batches: int = 1,
        n_trees: int = 16,
        max_depth: int = 4,
        splits: Any = "multiway",
        forest: Any = None,
        n_ensembles: int = 1,
        max_features: int | None = None,
        feature_subsets: Any = None,
        budget_shares: Any = None,
        allocation: str = "matrix",
        strategy: Any = "auto",
        voting: str = "weight",
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
        self.allocation = allocation
        self.strategy = strategy
        self.voting = voting
        self.neighboring = neighboring
        self.noise = noise
        self.noise_state = noise_state
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.ledger = ledger
        self.keep_records_in_pickle = keep_records_in_pickle
        self.random_state = random_state

    def _kind(self) -> Kind:
        return kind_of("subsample", self.allocation, self.voting)

    def _note(self, kind: Kind) -> str:
        return (
            f"the queries are public; {kind.voting} voting; the fitted object holds private counts"
        )
