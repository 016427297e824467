"""Forests that papers compare with, by name. None is private."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from rivals.bernoulli import BernoulliTrees
from rivals.breiman import BreimanVariants
from rivals.comparison_trees import ComparisonTrees
from rivals.denil import DenilTrees
from rivals.oblique.oblique_trees import ObliqueTrees, Split
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.checks import structure_generator
from mrf_matrix.estimators.forest_classifier import (
    LearnedForestClassifier,
    TreesClassifier,
    source_of,
)
from mrf_matrix.estimators.parameters import RandomState, parameters
from mrf_matrix.estimators.record_source import validate_queries, validate_training
from mrf_matrix.forests.growth.level import public_labels


@parameters
class BreimanForestClassifier(LearnedForestClassifier):
    """Breiman's random forest, with majority vote, and its variants "SE" and "M".

    Parameters
    ----------
    variant, max_features, b1, b2
        See `BreimanVariants`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(BreimanForestClassifier(n_trees=20, random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    variant: str = ""
    max_features: int | Literal["sqrt"] = "sqrt"
    b1: float = 10.0
    b2: float = 10.0

    def _source(self, nominal: Sequence[str | int]) -> BreimanVariants:
        return source_of(self, BreimanVariants, nominal=nominal)


@parameters
class DenilForestClassifier(LearnedForestClassifier):
    """The consistent forest of Denil, Matheson and de Freitas (2014).

    Parameters
    ----------
    mean_features, partition_rate, range_points
        See `DenilTrees`.
    """

    mean_features: float | None = None
    partition_rate: float = 1.0
    range_points: int = 1000

    def _source(self, nominal: Sequence[str | int]) -> DenilTrees:
        return source_of(self, DenilTrees, nominal=nominal)


@parameters
class BernoulliForestClassifier(LearnedForestClassifier):
    """Bernoulli random forests (Wang et al., 2018).

    Parameters
    ----------
    p_attribute, p_cut, partition_rate
        See `BernoulliTrees`.
    """

    p_attribute: float = 0.05
    p_cut: float = 0.05
    partition_rate: float = 1.0

    def _source(self, nominal: Sequence[str | int]) -> BernoulliTrees:
        return source_of(self, BernoulliTrees, nominal=nominal)


@parameters
class NumericTreesClassifier(TreesClassifier):
    """A forest whose trees split raw numbers: none over a domain. Subclasses say which.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seed of the trees.
    """

    random_state: RandomState = None

    def fit(self, X, y=None):
        """Grow the forest, and label its leaves by majority; not private."""
        values, classes = validate_training(self, X, y, dtype=np.float64)
        self.classes_, labels = np.unique(classes, return_inverse=True)
        generator = structure_generator(self.random_state)
        self.forest_ = self._source(()).grow(values, labels, len(self.classes_), generator)
        self.leaf_labels_ = public_labels(self.forest_.counts, float("inf"), generator)
        return self

    def _leaves(self, X):
        return self.forest_.apply(
            validate_queries(self, X, dtype=np.float64).astype(np.float64, copy=False)
        )

    def _votes(self, X):
        check_is_fitted(self, self._learned)
        leaves = self._leaves(X)
        place = self.leaf_labels_[leaves] + len(self.classes_) * np.arange(len(leaves))[:, None]
        votes = np.bincount(place.ravel(), minlength=len(leaves) * len(self.classes_))
        return votes.reshape(len(leaves), -1).astype(np.float64)


@parameters
class ComparisonForestClassifier(NumericTreesClassifier):
    """CompRF (Haghiri, Garreau and von Luxburg, 2018): "C", consistent, or "I", supervised.

    Compares Euclidean distances of numeric records; not private, and not a forest over a domain.

    Parameters
    ----------
    n_trees, supervised, min_points
        See `ComparisonTrees`: ``supervised=False`` is CompRF-C, True is CompRF-I.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ComparisonForestClassifier(n_trees=20, supervised=True, random_state=0)
    >>> bool(forest.fit(X, y).score(X, y) > 0.9)
    True
    """

    n_trees: int = 100
    supervised: bool = False
    min_points: int = 5

    def _source(self, nominal: Sequence[str | int]) -> ComparisonTrees:
        return source_of(self, ComparisonTrees)


@parameters
class ObliqueForestClassifier(NumericTreesClassifier):
    """Rotation forests and forests of proximal planes (Zhang and Suganthan, 2014, 2015).

    Nodes are cut by hyperplanes over numeric attributes; not private, and not a forest over a
    domain.

    Parameters
    ----------
    n_trees, split, min_points, max_features, ridge
        See `ObliqueTrees`: RoF-PCA is "pca", RoF-LDA "lda", MPSVM-T, -P and -N are "mpsvm_t",
        "mpsvm_p" and "mpsvm_n", HobRaF is "hobraf" (with ``min_points=1``, as its figures say).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ObliqueForestClassifier(n_trees=20, split="lda", random_state=0)
    >>> bool(forest.fit(X, y).score(X, y) > 0.95)
    True
    """

    n_trees: int = 100
    split: Split = "pca"
    min_points: int = 5
    max_features: int | Literal["sqrt"] = "sqrt"
    ridge: float = 0.01

    def _source(self, nominal: Sequence[str | int]) -> ObliqueTrees:
        return source_of(self, ObliqueTrees)
