"""Comparison-based random forests as a classifier."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.estimators.shared.needs_records import NeedsRecords
from mrf_matrix.estimators.shared.sklearn_checks import validated_data
from mrf_matrix.forests.growth.private.labels import public_labels
from mrf_matrix.forests.learned.comparison_trees import ComparisonTrees
from mrf_matrix.planning.plans.structure import structure_generator


class ComparisonForestClassifier(NeedsRecords, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """CompRF (Haghiri, Garreau and von Luxburg, 2018): "C", consistent, or "I", supervised.

    Compares Euclidean distances of numeric records; not private, and not a forest over a domain.

    Parameters
    ----------
    n_trees : int, default=100
    supervised : bool, default=False
        False is CompRF-C, True is CompRF-I; see `ComparisonTrees`.
    min_points : int, default=5
    random_state : int, RandomState or None

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ComparisonForestClassifier(n_trees=20, supervised=True, random_state=0)
    >>> bool(forest.fit(X, y).score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        *,
        n_trees: int = 100,
        supervised: bool = False,
        min_points: int = 5,
        random_state: Any = None,
    ) -> None:
        self.n_trees = n_trees
        self.supervised = supervised
        self.min_points = min_points
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the trees and label their leaves by majority, ties at random."""
        X, y = validated_data(self, X, y, of_classes=True, dtype=np.float64)
        self.classes_, labels = np.unique(y, return_inverse=True)
        generator = structure_generator(self.random_state)
        source = ComparisonTrees(self.n_trees, self.supervised, self.min_points)
        self.forest_ = source.grow(X, labels, len(self.classes_), generator)
        self.node_labels_ = public_labels(self.forest_.counts, float("inf"), generator)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return each class's share of the trees, (b, k)."""
        check_is_fitted(self)
        X = validated_data(self, X, dtype=np.float64, reset=False)
        k = len(self.classes_)
        voted = self.node_labels_[self.forest_.apply(X)]
        place = voted + k * np.arange(len(X))[:, None]
        votes = np.bincount(place.ravel(), minlength=len(X) * k).reshape(-1, k)
        return np.asarray(votes / self.n_trees)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that most trees vote for; ties go to the first."""
        shares = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[shares.argmax(axis=1)]
        return labels
