"""Forests of one kind of trees each, by name, to be compared with. None is private."""

from collections.abc import Sequence
from typing import Literal

from mrf_matrix.estimators.grown.forest_classifier import PublicParameters, TreesClassifier
from mrf_matrix.estimators.grown.tree_sources import source_of
from mrf_matrix.estimators.shared.parameters import SeedParameters, parameters
from mrf_matrix.forests import (
    BernoulliTrees,
    BreimanTrees,
    ComparisonTrees,
    DenilTrees,
    ObliqueTrees,
    PureTrees,
    SimplifiedBreimanTrees,
)
from mrf_matrix.forests.oblique.oblique_trees import Split


@parameters
class LearnedForestClassifier(PublicParameters, TreesClassifier):
    """A forest whose trees learn cuts from records, and label their leaves; subclasses say which.

    Parameters
    ----------
    n_trees : int
        Number of trees.
    criterion : {"gini", "entropy"}
        Impurity that cuts decrease.
    min_points : int
        Minimum leaf size k.
    max_depth : int
        Splits on a path; no limit by default.
    nominal : "text" or sequence of (str or int)
        Attributes without an order, cut as "this code or not"; "text": those of texts.
    n_jobs : int
        Threads that grow trees.
    random_state : int, RandomState or None
        Seed of growing.
    """

    n_trees: int = 100
    criterion: str = "gini"
    min_points: int | None = 5
    max_depth: int | None = None
    nominal: str | Sequence[str | int] = "text"
    n_jobs: int | None = None

    def _nominal(self) -> str | Sequence[str | int]:
        return self.nominal


@parameters
class BreimanForestClassifier(LearnedForestClassifier):
    """Breiman's random forest, with majority vote, and its variants "SE" and "M".

    Parameters
    ----------
    variant, max_features, b1, b2
        See `BreimanTrees`.

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

    def _source(self, nominal: Sequence[str | int]) -> BreimanTrees:
        return source_of(self, BreimanTrees, nominal=nominal)


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
class CountingForestClassifier(PublicParameters, TreesClassifier):
    """A forest over a domain that counts its records in a number of leaves; subclasses say how.

    Parameters
    ----------
    domain : Domain or "from_data"
        The schema, with the target's classes. Required.
    n_trees, n_leaves
        See the source of the trees.
    voting : {"hard", "weight"}
        "hard": every tree votes for its leaf's largest class (the paper's forest). "weight": trees
        add leaf counts.
    """

    n_trees: int = 100
    n_leaves: int = 64
    voting: str = "hard"
    _needs_domain = True

    def _voting(self) -> str:
        return self.voting


@parameters
class SimplifiedBreimanForestClassifier(CountingForestClassifier):
    """Forest of simplified Breiman trees: midpoints of longest sides, pure cells kept.

    **Not private, and cannot be made so by noise on the leaves**: the structure shows which cells
    are pure, see `SimplifiedBreimanTrees`.

    References
    ----------
    Gao, Xu and Zhou, Towards Convergence Rate Analysis of Random Forests for Classification
    (2020), Algorithm 1.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> car = load_dataset("car")
    >>> model = SimplifiedBreimanForestClassifier(car.domain, n_trees=20, n_leaves=200)
    >>> model.fit(car.X, car.y).forest_.is_data_dependent
    True
    """

    def _source(self, nominal: Sequence[str | int]) -> SimplifiedBreimanTrees:
        return source_of(self, SimplifiedBreimanTrees)


@parameters
class PureForestClassifier(CountingForestClassifier):
    """Forest of pure random trees: k leaves, split at random, majority votes.

    **Not private**: the structure is drawn from the public domain alone, but leaf counts are
    exact. For a private release of the same forest use
    ``MatrixForestClassifier(domain, forest=PureTrees(...))``, which at ``epsilon=float("inf")``
    makes the same predictions.

    Parameters
    ----------
    splits : {"uniform", "midpoint"}
        See `PureTrees`.

    References
    ----------
    Gao, Xu and Zhou, Towards Convergence Rate Analysis of Random Forests for Classification
    (2020), section 3.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> car = load_dataset("car")
    >>> model = PureForestClassifier(car.domain, n_trees=20, n_leaves=200, random_state=0)
    >>> bool(model.fit(car.X, car.y).score(car.X, car.y) > 0.8)
    True
    """

    splits: str = "uniform"

    def _source(self, nominal: Sequence[str | int]) -> PureTrees:
        return source_of(self, PureTrees)


@parameters
class ComparisonForestClassifier(SeedParameters, TreesClassifier):
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
class ObliqueForestClassifier(SeedParameters, TreesClassifier):
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
