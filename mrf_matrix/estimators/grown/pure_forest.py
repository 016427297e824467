"""Pure and simplified Breiman forests as scikit-learn classifiers, without privacy.

The forests of Gao, Xu and Zhou (2020), whose finite-sample bounds are in `mrf_matrix.forests`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.compilation import leaf_counts
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import ForestClassifier, sorted_classes
from mrf_matrix.estimators.shared.schema import encode, encode_queries, resolve_domain
from mrf_matrix.forests import Forest, PureTrees, SimplifiedBreimanTrees
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.voting.voting import check_voting, forest_votes, leaf_votes

Codes = NDArray[np.int32]


class PlainForestClassifier(ForestClassifier):
    """A forest, not private, that counts its records exactly and lets its trees vote.

    Subclasses say how the forest is grown. A leaf without records shares its vote among all
    classes; ties of the forest go to the first class.

    Attributes
    ----------
    domain_ : Domain
        The domain in use.
    classes_ : ndarray of shape (k,)
        The domain's classes, sorted.
    forest_ : Forest
        The forest's structure.
    leaf_values_ : ndarray of shape (o, k)
        Exact class counts of the leaves.
    n_features_in_ : int
        Number of features seen by `fit`.
    """

    domain: Any
    voting: str
    random_state: Any

    def fit(self, X: Any, y: Any) -> "PlainForestClassifier":
        """Grow the forest and count the records of each class in its leaves.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        PlainForestClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid.
        """
        check_voting(self.voting)
        domain, X, y = resolve_domain(self, self.domain, X, y)
        codes, labels = encode(domain, X, y)
        self.forest_ = self._grow(domain, codes, labels, structure_generator(self.random_state))
        counts = leaf_counts(self.forest_, codes, labels, domain.n_classes)
        self.domain_ = domain
        self.classes_, order = sorted_classes(domain)
        self.leaf_values_ = counts[:, order].astype(np.float64)
        return self

    def _grow(
        self, domain: Domain, codes: Codes, labels: Codes, generator: np.random.Generator
    ) -> Forest:
        raise TypeError(
            f"{type(self).__name__} grows no forest of its own: use PureForestClassifier or "
            f"SimplifiedBreimanForestClassifier."
        )

    def _votes(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        codes = encode_queries(self, self.domain_, X)
        votes = leaf_votes(self.leaf_values_, check_voting(self.voting))
        return forest_votes(self.forest_, codes, votes)


class PureForestClassifier(PlainForestClassifier):
    """Forest of pure random trees: k leaves, split at random, majority votes.

    **Not private**: the structure is drawn from the public domain alone, but leaf counts are
    exact. For a private release of the same forest use
    ``MatrixForestClassifier(domain, forest=PureTrees(...))``, which at ``epsilon=float("inf")``
    makes the same predictions.

    Parameters
    ----------
    domain : Domain or "from_data"
        The schema, with the target's classes. Required.
    n_trees, n_leaves, splits
        See `PureTrees`.
    voting : {"hard", "weight"}, default="hard"
        "hard": every tree votes for its leaf's largest class (the paper's forest). "weight": trees
        add leaf counts.
    random_state : int, RandomState or None, default=None
        Seed of the structure.

    Attributes
    ----------
    domain_, classes_, forest_, leaf_values_, n_features_in_
        As in `PlainForestClassifier`.

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

    def __init__(
        self,
        domain: Domain | str | None = None,
        *,
        n_trees: int = 100,
        n_leaves: int = 64,
        splits: str = "uniform",
        voting: str = "hard",
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.n_trees = n_trees
        self.n_leaves = n_leaves
        self.splits = splits
        self.voting = voting
        self.random_state = random_state

    def _grow(
        self, domain: Domain, codes: Codes, labels: Codes, generator: np.random.Generator
    ) -> Forest:
        trees = PureTrees(self.n_trees, self.n_leaves, self.splits)  # type: ignore[arg-type]
        return trees.grow(domain, generator)


class SimplifiedBreimanForestClassifier(PlainForestClassifier):
    """Forest of simplified Breiman trees: midpoints of longest sides, pure cells kept.

    **Not private, and cannot be made so by noise on the leaves**: the structure shows which cells
    are pure, see `SimplifiedBreimanTrees`.

    Parameters
    ----------
    domain : Domain or "from_data"
        The schema, with the target's classes. Required.
    n_trees, n_leaves
        See `SimplifiedBreimanTrees`.
    voting : {"hard", "weight"}, default="hard"
        "hard": every tree votes for its leaf's largest class (the paper's forest). "weight": trees
        add leaf counts.
    random_state : int, RandomState or None, default=None
        Seed of the draws among longest sides.

    Attributes
    ----------
    domain_, classes_, forest_, leaf_values_, n_features_in_
        As in `PlainForestClassifier`.

    References
    ----------
    Gao, Xu and Zhou, Towards Convergence Rate Analysis of Random Forests for Classification
    (2020), Algorithm 1.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> car = load_dataset("car")
    >>> model = SimplifiedBreimanForestClassifier(car.domain, n_trees=20, n_leaves=200)
    >>> model.fit(car.X, car.y).forest_.data_dependent
    True
    """

    def __init__(
        self,
        domain: Domain | str | None = None,
        *,
        n_trees: int = 100,
        n_leaves: int = 64,
        voting: str = "hard",
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.n_trees = n_trees
        self.n_leaves = n_leaves
        self.voting = voting
        self.random_state = random_state

    def _grow(
        self, domain: Domain, codes: Codes, labels: Codes, generator: np.random.Generator
    ) -> Forest:
        trees = SimplifiedBreimanTrees(self.n_trees, self.n_leaves)
        return trees.grow(domain, codes, labels, generator)
