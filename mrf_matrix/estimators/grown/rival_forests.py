"""The forests that the multinomial one is compared with, as classifiers. None is private."""

from collections.abc import Sequence
from typing import Any

from mrf_matrix.estimators.grown.grown_forest import GrownForestClassifier
from mrf_matrix.forests import BernoulliTrees, BreimanTrees, DenilTrees


class BreimanForestClassifier(GrownForestClassifier):
    """Breiman's random forest, with majority vote, and its variants "SE" and "M".

    Parameters
    ----------
    domain, nominal, n_jobs, random_state
        See `MultinomialForestClassifier`.
    n_trees, criterion, min_points, max_depth, max_features, variant, b1, b2
        See `BreimanTrees`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(BreimanForestClassifier(n_trees=20, random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        domain: Any = None,
        *,
        n_trees: int = 100,
        variant: str = "",
        max_features: Any = "sqrt",
        b1: float = 10.0,
        b2: float = 10.0,
        criterion: str = "gini",
        min_points: int = 5,
        max_depth: int | None = None,
        nominal: Any = "text",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.n_trees = n_trees
        self.variant = variant
        self.max_features = max_features
        self.b1 = b1
        self.b2 = b2
        self.criterion = criterion
        self.min_points = min_points
        self.max_depth = max_depth
        self.nominal = nominal
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _trees(self, nominal: Sequence[str | int]) -> BreimanTrees:
        return BreimanTrees(
            self.n_trees,
            self.criterion,  # type: ignore[arg-type]
            self.min_points,
            self.max_depth,
            nominal,
            max_features=self.max_features,
            variant=self.variant,  # type: ignore[arg-type]
            b1=self.b1,
            b2=self.b2,
        )


class DenilForestClassifier(GrownForestClassifier):
    """The consistent forest of Denil, Matheson and de Freitas (2014).

    Parameters
    ----------
    domain, nominal, n_jobs, random_state
        See `MultinomialForestClassifier`.
    n_trees, criterion, min_points, max_depth, mean_features, partition_rate, range_points
        See `DenilTrees`.
    """

    def __init__(
        self,
        domain: Any = None,
        *,
        n_trees: int = 100,
        mean_features: float | None = None,
        partition_rate: float = 1.0,
        range_points: int = 1000,
        criterion: str = "gini",
        min_points: int = 5,
        max_depth: int | None = None,
        nominal: Any = "text",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.n_trees = n_trees
        self.mean_features = mean_features
        self.partition_rate = partition_rate
        self.range_points = range_points
        self.criterion = criterion
        self.min_points = min_points
        self.max_depth = max_depth
        self.nominal = nominal
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _trees(self, nominal: Sequence[str | int]) -> DenilTrees:
        return DenilTrees(
            self.n_trees,
            self.criterion,  # type: ignore[arg-type]
            self.min_points,
            self.max_depth,
            nominal,
            mean_features=self.mean_features,
            partition_rate=self.partition_rate,
            range_points=self.range_points,
        )


class BernoulliForestClassifier(GrownForestClassifier):
    """Bernoulli random forests (Wang et al., 2018).

    Parameters
    ----------
    domain, nominal, n_jobs, random_state
        See `MultinomialForestClassifier`.
    n_trees, criterion, min_points, max_depth, p_attribute, p_cut, partition_rate
        See `BernoulliTrees`.
    """

    def __init__(
        self,
        domain: Any = None,
        *,
        n_trees: int = 100,
        p_attribute: float = 0.05,
        p_cut: float = 0.05,
        partition_rate: float = 1.0,
        criterion: str = "gini",
        min_points: int = 5,
        max_depth: int | None = None,
        nominal: Any = "text",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.n_trees = n_trees
        self.p_attribute = p_attribute
        self.p_cut = p_cut
        self.partition_rate = partition_rate
        self.criterion = criterion
        self.min_points = min_points
        self.max_depth = max_depth
        self.nominal = nominal
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _trees(self, nominal: Sequence[str | int]) -> BernoulliTrees:
        return BernoulliTrees(
            self.n_trees,
            self.criterion,  # type: ignore[arg-type]
            self.min_points,
            self.max_depth,
            nominal,
            p_attribute=self.p_attribute,
            p_cut=self.p_cut,
            partition_rate=self.partition_rate,
        )
