"""A forest that was released: it predicts, and knows nothing of the records."""

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.base import ForestClassifier
from mrf_matrix.estimators.privacy_report import PrivacyReport
from mrf_matrix.estimators.voting import check_voting, forest_votes, leaf_votes
from mrf_matrix.forests import Forest
from mrf_matrix.planning.ensembles import Ensemble

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReleasedEnsemble:
    """One forest with its released leaf values.

    Attributes
    ----------
    features : tuple of int
        Positions of its attributes in the domain.
    forest : Forest
        Its structure, over these attributes.
    leaf_values : ndarray of shape (o, k)
        Noisy class counts of the leaves, in the order of the classifier's `classes_`.
    """

    features: tuple[int, ...]
    forest: Forest
    leaf_values: Array


class ReleasedForestClassifier(ForestClassifier):
    """A forest read from a model file: it predicts what the fitted classifier predicted.

    It is fitted from the start, by `load_model`, and `fit` refuses: releasing again needs a
    `MatrixForestClassifier` and budget. `sklearn.clone` returns the object itself. Prediction is
    post-processing, so `voting` may be changed at no cost.

    Parameters
    ----------
    ensembles : tuple of ReleasedEnsemble
        Forests and their leaf values.
    domain : Domain
        The public domain.
    classes : ndarray of shape (k,)
        The public classes, sorted.
    report : PrivacyReport
        What the file claims. It is the word of whoever wrote the file.
    voting : {"hard", "weight"}, default="hard"
        The voting rule.

    Attributes
    ----------
    ensembles_, domain_, classes_, privacy_report_
        As given.
    n_features_in_ : int
        Number of attributes of the domain.
    """

    def __init__(
        self,
        ensembles: Any,
        domain: Domain,
        classes: NDArray[Any],
        report: PrivacyReport,
        voting: str = "hard",
    ) -> None:
        self.ensembles = ensembles
        self.domain = domain
        self.classes = classes
        self.report = report
        self.voting = voting

    @property
    def ensembles_(self) -> tuple[ReleasedEnsemble, ...]:
        """Forests and their leaf values."""
        return tuple(self.ensembles)

    @property
    def domain_(self) -> Domain:
        """The public domain."""
        return self.domain

    @property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The public classes, sorted."""
        return self.classes

    @property
    def privacy_report_(self) -> PrivacyReport:
        """What the file claims."""
        return self.report

    @property
    def n_features_in_(self) -> int:
        """Number of attributes of the domain."""
        return self.domain.n_attributes

    def fit(self, X: Any, y: Any = None) -> NoReturn:
        """Refuse: a released forest has no records to learn from, and no budget.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            "a forest read from a model file cannot be fitted: expected a "
            "MatrixForestClassifier(domain, epsilon=...), which makes a new release."
        )

    def _votes(self, X: Any) -> Array:
        rule = check_voting(self.voting)
        codes = self.domain.encode(X, extra="ignore")
        votes = np.zeros((len(codes), len(self.classes)))
        for one in self.ensembles:
            seen = Ensemble(one.features, one.forest).view(codes)
            votes += forest_votes(one.forest, seen, leaf_votes(one.leaf_values, rule))
        return votes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> "ReleasedForestClassifier":
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        trees = sum(one.forest.n_trees for one in self.ensembles)
        return f"ReleasedForestClassifier({trees} trees, voting={self.voting!r})"
