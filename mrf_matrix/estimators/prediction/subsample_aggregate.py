"""Subsample-and-aggregate: disjoint data per tree, votes released under privacy."""

from mrf_matrix.estimators.prediction.private_prediction import PrivatePredictionClassifier
from mrf_matrix.estimators.shared.parameters import parameters
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.kinds.words import kind_of


@parameters
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
    allocation : {"matrix", "per_query"}
        "matrix": a strategy for all queries together. "per_query": every distinct query gets an
        equal part of the budget (the baseline).
    voting : {"weight", "hard"}
        "weight": trees add their leaves' class counts; sensitivity ``‖A‖``. "hard": trees vote
        for their leaf's largest class; one record moves one leaf's vote from one class to
        another, so the noise doubles (see `with_hard_votes`). A leaf without records
        does not vote, and ties within a leaf are broken by a public preference drawn for each
        leaf.
    random_state : int, RandomState or None
        Seed of the public structure: attributes and trees. Coins and preferences among ties
        follow it with research noise only; a private release throws fresh ones.

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

    n_trees: int = 16
    allocation: str = "matrix"
    voting: str = "weight"

    def _kind(self) -> Kind:
        return kind_of("subsample", self.allocation, self.voting)

    def _note(self, kind: Kind) -> str:
        return (
            f"the queries are public; {kind.voting} voting; the fitted object holds private counts"
        )
