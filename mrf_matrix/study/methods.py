"""The methods that a study compares, each a recipe for a fitted scikit-learn classifier."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier

from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.estimators.matrix_forest import MatrixForestClassifier
from mrf_matrix.estimators.multinomial_forest import MultinomialMatrixForestClassifier
from mrf_matrix.estimators.prediction import BatchPredictionClassifier, SubsampleAggregateClassifier
from mrf_matrix.estimators.private_forest import PrivateForestClassifier
from mrf_matrix.estimators.private_kinds import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    PrivateNaiveBayesClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.forests import Forest, take_trees
from mrf_matrix.planning.plans.baselines import RULES
from strategies import Strategy


@dataclass(frozen=True, eq=False)
class Setting:
    """What one fit of a study is given: the public forest and strategy, the budget, the seeds."""

    domain: Domain  # domain of integer codes
    forest: Forest  # the split's public forest
    # chosen once for the split, by method: for the leaves ("matrix" and the levels'), and for the
    # test records' votes ("batch", "subsample")
    strategies: Mapping[str, Strategy]
    epsilon: float  # budget of the fit
    # voting, neighboring, noise: see `MatrixForestClassifier`
    voting: str
    neighboring: str
    noise: str
    noise_state: int | None  # seed of research noise, None for exact noise
    seed: int  # seed of everything public
    given: Domain  # that the records were encoded by: it knows which codes are in order of value
    n_records: int  # number of training records: public in a study
    delta: float = 0.0  # of its (ε, δ) claim, or 0


@dataclass(frozen=True)
class Method:
    """A way to train a classifier on the same records."""

    # key, label: its name for programs and for people
    key: str
    label: str
    spends: bool  # whether it spends privacy budget; the others are not private
    # makes the unfitted classifier from a `Setting`: it fits and predicts codes of records
    build: Callable[[Setting], ClassifierMixin]

    def privacy(self, noise: str) -> str:
        """Say what a fit of this method is: a release, research noise or not private."""
        if not self.spends:
            return "noise-free, not private"
        if noise != "exact":
            return "research noise, not a release"
        return (
            "exact noise, its own claim"
            if self in (*METHODS, *NAMED_METHODS)
            else "claim by its author, unverified"
        )

    def to_dict(self, noise: str) -> dict[str, Any]:
        return {"key": self.key, "label": self.label, "privacy": self.privacy(noise)}


SUBSAMPLES = 16
"""Trees that share the records in subsample-and-aggregate, as in the paper's Figure 4."""


def _parameters(setting: Setting) -> dict[str, Any]:
    return {
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "forest": setting.forest,
        "neighboring": setting.neighboring,
        "noise": setting.noise,
        "noise_state": setting.noise_state,
        "random_state": setting.seed,
    }


def _shared_forest(setting: Setting, **changes: object) -> MatrixForestClassifier:
    parameters = _parameters(setting) | {"voting": setting.voting} | changes
    return MatrixForestClassifier(setting.domain, **parameters)


def _matrix_forest(setting: Setting) -> MatrixForestClassifier:
    return _shared_forest(setting, strategy=setting.strategies["matrix"])


def _batch_prediction(setting: Setting) -> BatchPredictionClassifier:
    strategy = setting.strategies.get("batch", "auto")
    return BatchPredictionClassifier(setting.domain, strategy=strategy, **_parameters(setting))


def _subsample(setting: Setting, **changes: object) -> SubsampleAggregateClassifier:
    forest = take_trees(setting.forest, range(min(SUBSAMPLES, setting.forest.n_trees)))
    parameters = _parameters(setting) | {"forest": forest} | changes
    return SubsampleAggregateClassifier(setting.domain, **parameters)


def _subsample_optimised(setting: Setting) -> SubsampleAggregateClassifier:
    return _subsample(setting, strategy=setting.strategies.get("subsample", "auto"))


def _two_stage(setting: Setting) -> MultinomialMatrixForestClassifier:
    given = {name: one for name, one in _parameters(setting).items() if name != "forest"}
    return MultinomialMatrixForestClassifier(setting.domain, voting=setting.voting, **given)


def _naive_bayes(setting: Setting) -> PrivateNaiveBayesClassifier:
    names = ("epsilon", "delta", "neighboring", "noise", "noise_state")
    return PrivateNaiveBayesClassifier(
        setting.domain, **{name: getattr(setting, name) for name in names}
    )


def _kind_over_codes(kind: Callable[..., ClassifierMixin], setting: Setting) -> ClassifierMixin:
    """Return a classifier that plans for a public number of records, and draws its own trees."""
    names = ("epsilon", "delta", "n_records", "neighboring", "noise", "noise_state")
    public = {name: getattr(setting, name) for name in names}
    return kind(_domain_of_codes(setting), **public, random_state=setting.seed)


def _domain_of_codes(setting: Setting) -> Domain:
    """Return the domain of codes that is measured as the given one would be."""
    given = setting.given
    return Domain(map(_attribute_of_codes, given.attributes), setting.domain.target)


def _attribute_of_codes(attribute: Attribute) -> Attribute:
    """Return an attribute of codes; falling numbers stand for codes without an order."""
    if not attribute.is_ordered:
        falling = range(attribute.size)[::-1]
        return Attribute(attribute.name, categories=falling, _provenance=attribute.provenance)
    marks = [] if attribute.missing_code is None else [attribute.missing_code]
    return Attribute(
        attribute.name,
        size=attribute.n_known,
        unknown=attribute.unknown,
        missing=attribute.missing,
        missing_values=marks,
        _provenance=attribute.provenance,
    )


def _extra_trees(setting: Setting) -> ClassifierMixin:
    return ExtraTreesClassifier(n_estimators=setting.forest.n_trees, random_state=setting.seed)


def _majority(setting: Setting) -> ClassifierMixin:
    return DummyClassifier(strategy="most_frequent")


def _level_forest(key: str) -> Callable[[Setting], MatrixForestClassifier]:
    return lambda setting: _shared_forest(setting, strategy=setting.strategies[key])


WITHOUT_NOISE: dict[str, Any] = {
    "epsilon": float("inf"), "delta": 0, "allocation": "per_tree", "noise_state": None
}  # fmt: skip


def _kind(word: str, build: Callable[[Setting], ClassifierMixin]) -> Method:
    """Return a kind of private model, whose key and label are the word for it."""
    return Method(word, word, True, build)


METHODS = (
    _kind("auto", partial(_kind_over_codes, PrivateForestClassifier)),
    _kind("matrix", _matrix_forest),
    _kind("batch", _batch_prediction),
    _kind("subsample", _subsample_optimised),
    Method(
        "per_tree", "Laplace on every tree", True, partial(_shared_forest, allocation="per_tree")
    ),
    _kind("naive_bayes", _naive_bayes),
    _kind("tables", partial(_kind_over_codes, PosteriorForestClassifier)),
    Method(
        "disjoint", "disjoint data per tree", True, partial(_shared_forest, allocation="disjoint")
    ),
    Method(
        "subsample_existing",
        "subsample, per query",
        True,
        partial(_subsample, allocation="per_query"),
    ),
    Method("no_noise", "same forest, no privacy", False, partial(_shared_forest, **WITHOUT_NOISE)),
    Method("extra_trees", "scikit-learn ExtraTrees", False, _extra_trees),
    Method("majority", "majority class", False, _majority),
)
"""The methods of a study that names none, in the order of tables and legends."""

LEVEL_METHODS = tuple(
    Method(f"{rule}_levels", f"{rule} levels", True, _level_forest(f"{rule}_levels"))
    for rule in RULES
)
"""The baselines of `mrf_matrix.planning.plans.baselines`."""

NAMED_METHODS = (
    _kind("additive", partial(_kind_over_codes, ResidualForestClassifier)),
    _kind("labels", partial(_kind_over_codes, LabelTreeClassifier)),
    _kind("pool", partial(_kind_over_codes, PooledForestClassifier)),
    _kind("two_stage", _two_stage),
    *LEVEL_METHODS,
)
"""Methods that a study may name beside `METHODS`: the other kinds, and the levels."""


def checked_methods(kind: str | Method | Sequence[str | Method] | None) -> tuple[Method, ...]:
    """Return the methods that were asked for, by key or as one's own; `METHODS` by default.

    Raises TypeError, ValueError if there is none, one is unknown, or two have the same key.
    """
    if kind is None:
        return METHODS
    known = {method.key: method for method in (*METHODS, *NAMED_METHODS)}
    found = []
    for one in [kind] if isinstance(kind, str | Method) else kind:
        if not isinstance(one, Method) and one not in known:
            raise ValueError(
                f"kind={one!r}: expected a Method of your own, or one of {', '.join(known)}."
            )
        found.append(one if isinstance(one, Method) else known[one])
    keys = [method.key for method in found]
    if not keys or len(set(keys)) < len(keys):
        raise ValueError(f"kind: keys are {keys}: expected at least one, and no key twice.")
    return tuple(found)


QUERY_METHODS = {"batch": _batch_prediction, "subsample": _subsample_optimised}
"""The methods whose strategies serve the test records, not the forest."""
