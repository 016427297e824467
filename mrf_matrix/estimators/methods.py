"""The methods that a study compares, each a recipe for a fitted scikit-learn classifier."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.matrix_forest import MatrixForestClassifier
from mrf_matrix.forests import Forest
from strategies import Strategy


@dataclass(frozen=True, eq=False)
class Setting:
    """What one fit of a study is given: the public forest and strategy, the budget, the seeds.

    Attributes
    ----------
    domain : Domain
        Domain of integer codes.
    forest : Forest
        The split's public forest.
    strategy : Strategy
        The strategy selected for it.
    epsilon : float
        Budget of the fit.
    voting, neighboring, noise : str
        See `MatrixForestClassifier`.
    noise_state : int or None
        Seed of research noise, None for exact noise.
    seed : int
        Seed of everything public.
    """

    domain: Domain
    forest: Forest
    strategy: Strategy
    epsilon: float
    voting: str
    neighboring: str
    noise: str
    noise_state: int | None
    seed: int


@dataclass(frozen=True)
class Method:
    """A way to train a classifier on the same records.

    Attributes
    ----------
    key, label : str
        Its name for programs and for people.
    spends : bool
        Whether it spends privacy budget; the others are not private.
    build : callable
        Makes the unfitted classifier from a `Setting`.
    """

    key: str
    label: str
    spends: bool
    build: Callable[[Setting], ClassifierMixin]

    def privacy(self, noise: str) -> str:
        """Say what a fit of this method is: a release, research noise or not private."""
        if not self.spends:
            return "noise-free, not private"
        return "private release" if noise == "exact" else "research noise, not a release"

    def to_dict(self, noise: str) -> dict[str, Any]:
        """Return the method as plain values, ready for JSON."""
        return {"key": self.key, "label": self.label, "privacy": self.privacy(noise)}


def _forest(setting: Setting, **changes: Any) -> MatrixForestClassifier:
    parameters: dict[str, Any] = {
        "epsilon": setting.epsilon,
        "forest": setting.forest,
        "voting": setting.voting,
        "neighboring": setting.neighboring,
        "noise": setting.noise,
        "noise_state": setting.noise_state,
        "random_state": setting.seed,
    }
    return MatrixForestClassifier(setting.domain, **(parameters | changes))


def _matrix(setting: Setting) -> MatrixForestClassifier:
    return _forest(setting, strategy=setting.strategy)


def _per_tree(setting: Setting) -> MatrixForestClassifier:
    return _forest(setting, allocation="per_tree")


def _disjoint(setting: Setting) -> MatrixForestClassifier:
    return _forest(setting, allocation="disjoint")


def _without_noise(setting: Setting) -> MatrixForestClassifier:
    return _forest(setting, epsilon=float("inf"), allocation="per_tree", noise_state=None)


def _extra_trees(setting: Setting) -> ClassifierMixin:
    return ExtraTreesClassifier(n_estimators=setting.forest.n_trees, random_state=setting.seed)


def _majority(setting: Setting) -> ClassifierMixin:
    return DummyClassifier(strategy="most_frequent")


METHODS = (
    Method("matrix", "matrix mechanism", True, _matrix),
    Method("per_tree", "Laplace on every tree", True, _per_tree),
    Method("disjoint", "disjoint data per tree", True, _disjoint),
    Method("no_noise", "same forest, no privacy", False, _without_noise),
    Method("extra_trees", "scikit-learn ExtraTrees", False, _extra_trees),
    Method("majority", "majority class", False, _majority),
)
"""All methods, in the order of tables and legends."""
