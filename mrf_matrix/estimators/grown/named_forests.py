"""Forests that count records in a number of leaves: those of convergence rates. Not private."""

from collections.abc import Sequence

from mrf_matrix.estimators.grown.forest_classifier import PublicParameters, TreesClassifier
from mrf_matrix.estimators.grown.tree_sources import source_of
from mrf_matrix.estimators.shared.parameters import parameters
from mrf_matrix.forests import PureTrees, SimplifiedBreimanTrees


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
