"""`ForestClassifier`: trees of any source that learn from public records, and vote.

Without a domain every distinct value gets a code. Cuts between codes are then cuts between values,
so a forest grown on the codes is the forest grown on the raw values. A value that was not among the
records gets the code of the nearest one: code boundaries lie halfway between neighbouring values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from mrf_matrix.base.arrays import Array, Codes, Longs, Values
from mrf_matrix.base.checks import one_word, structure_generator
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.domain import Attribute, Domain, DomainOrPath
from mrf_matrix.domain.columns import plain_array
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.estimators.base import BaseForestClassifier, commit_on_success
from mrf_matrix.estimators.parameters import RandomState, Records, parameters
from mrf_matrix.estimators.record_source import (
    encode,
    resolve_domain,
    validate_queries,
    validate_training,
)
from mrf_matrix.forests import BreimanTrees, Forest, Grown, GrownTrees
from mrf_matrix.forests.growth.level import public_labels
from mrf_matrix.voting.voting import VOTINGS, Voting, forest_votes, leaf_votes


class TreeSource(Protocol):
    """Anything that grows trees; the names of the arguments of `grow` say from what.

    It may ask for ``domain``, ``codes`` and ``labels`` of the records, ``random_state``,
    ``centres`` (the raw values of the codes) and ``n_jobs``.
    """

    @property
    def grow(self) -> Callable[..., Forest | Grown]:
        """Grow a forest, or one with the class counts of its leaves."""


@dataclass(frozen=True, eq=False)
class ValueCoding:
    """A domain read off public records, and what its codes stand for."""

    domain: Domain
    centres: tuple[Array | None, ...]  # raw value of each code of a numeric column; None for text
    text: tuple[int, ...]  # columns of text: they have no order


def code_values(X: Values, y: Values, names: Sequence[str] | None) -> ValueCoding:
    names = list(names) if names is not None else [f"x{i}" for i in range(X.shape[1])]
    attributes: list[Attribute] = []
    centres: list[Array | None] = []
    for i, name in enumerate(names):
        numbers = as_numbers(X[:, i])
        if numbers is None:
            values = sorted({str(value) for value in X[:, i]})
            attributes.append(Attribute(name, categories=values, unknown="other"))
            centres.append(None)
        else:
            attribute, centre = numeric_attribute(name, np.unique(numbers))
            attributes.append(attribute)
            centres.append(centre)
    target = "class" if "class" not in names else "target of the records"
    classes = Attribute(target, categories=np.unique(y).tolist())
    domain = Domain([one.read_off() for one in attributes], classes.read_off())
    text = tuple(i for i, centre in enumerate(centres) if centre is None)
    return ValueCoding(domain, tuple(centres), text)


def numeric_attribute(name: str, values: Array) -> tuple[Attribute, Array]:
    """Return bins with one of the sorted distinct values each, and the values.

    An attribute needs two edges: one or two values get a last bin that no record is in.
    """
    middle = values[:-1] + np.diff(values) / 2
    edges = np.where(middle > values[:-1], middle, values[1:])  # neighbours have nothing between
    centres = values
    while len(edges) < 2:
        last = max(centres[-1], values[-1])
        edges = np.append(edges, last + max(1.0, abs(last)))
        centres = np.append(centres, edges[-1])
    return Attribute(name, edges=edges.tolist(), outside="open"), centres


def as_numbers(column: Values) -> Array | None:
    """Return a column as floats, or None where it holds texts."""
    if column.dtype.kind in "iufb":
        return column.astype(np.float64)
    if any(isinstance(value, str) for value in column):
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return None


def ready_to_encode(coding: ValueCoding, X: Values) -> dict[str, Values]:
    return {
        name: X[:, i].astype(str).astype(object)
        if coding.centres[i] is None
        else X[:, i].astype(np.float64)
        for i, name in enumerate(coding.domain.names)
    }


@parameters
class PublicParameters:
    """Of forests that learn from public records.

    Parameters
    ----------
    domain : Domain, "from_data" or None
        The schema, with the target's classes. None: every distinct value of the records gets a
        code of its own, so that splits are those of the raw values; text columns are nominal.
    random_state : int, RandomState or None
        Seed of the public structure.
    """

    domain: DomainOrPath = field(default=None, kw_only=False)
    random_state: RandomState = None


class TreesClassifier(BaseForestClassifier):
    """A forest, not private, that learns from public records and lets its trees vote.

    Subclasses say which trees they grow, and may name a domain.

    Attributes
    ----------
    forest_ : Forest
        The forest's structure.
    leaf_values_ : ndarray of shape (o, k)
        Exact class counts of the leaves, where trees were grown without records. A leaf without
        any shares its vote among all classes.
    leaf_labels_ : ndarray of shape (o,)
        The class each leaf votes for, as an index into `classes_`, where trees learned from
        records.
    """

    random_state: RandomState
    forest_: Forest
    _learned = "forest_"
    _needs_domain: ClassVar[bool] = False
    _coding_: ValueCoding | None = None
    _voting_: Voting

    def _source(self, nominal: Sequence[str | int]) -> TreeSource:
        """Return the source that the parameters describe; `nominal` attributes have no order."""
        raise TypeError(f"{type(self).__name__} grows no trees: use one of its subclasses.")

    def _nominal(self) -> str | Sequence[str | int]:
        return ()

    def _label_sharpness(self) -> float:
        """Return B₃ of the leaf labels: infinity is the majority."""
        return float("inf")

    def _voting_rule(self) -> str:
        return "hard"

    @commit_on_success
    def fit(self, X: Records, y: ArrayLike | None = None) -> Self:
        """Grow the forest, and count the records in its leaves or label them; not private.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid.
        """
        one_word("voting", self._voting_rule(), VOTINGS)
        generator = structure_generator(self.random_state)
        self._source(())  # refuses wrong parameters before any work
        codes, labels = self._encode_training(X, y)
        given = {
            "domain": self.domain_,
            "codes": codes,
            "labels": labels,
            "random_state": generator,
            "centres": self._coding_.centres if self._coding_ else None,
            "n_jobs": vars(self).get("n_jobs"),
        }
        grown = grow_source(self._source(self._nominal_attributes()), given)
        if isinstance(grown, Forest):
            counts = leaf_counts(grown, codes, labels, self.domain_.n_classes)
            self._keep(grown)
            self.leaf_values_ = counts[:, sorted_classes(self.domain_)[1]].astype(np.float64)
            return self
        learned: Grown = grown
        drawn = public_labels(learned.parent_counts, self._label_sharpness(), generator)
        self._keep(learned.forest, drawn)
        return self

    def _encode_training(self, X: Records, y: ArrayLike | None) -> tuple[Codes, Codes]:
        """Encode the records by the domain given, or by their own values; keep the domain."""
        if self.domain is not None or self._needs_domain:
            self.domain_, X, y = resolve_domain(self, self.domain, X, y)
            self._coding_ = None
            return encode(self.domain_, X, y)
        values, classes = validate_training(self, X, y)
        coding = code_values(values, classes, getattr(self, "feature_names_in_", None))
        self.domain_, self._coding_ = coding.domain, coding
        codes = coding.domain.encode(ready_to_encode(coding, values))
        return codes, np.searchsorted(np.unique(classes), classes).astype(np.int32)

    def _nominal_attributes(self) -> Sequence[str | int]:
        given = self._nominal()
        if not isinstance(given, str) or given != "text":
            return tuple(given)
        return self._coding_.text if self._coding_ else text_attributes(self.domain_)

    def _keep(self, forest: Forest, labels: Longs | None = None) -> None:
        """Keep a forest, and the labels of its leaves, as class codes, in sorted order."""
        self.classes_, order = sorted_classes(self.domain_)
        self.forest_ = forest
        self._voting_ = one_word("voting", self._voting_rule(), VOTINGS)
        if labels is not None:
            self.leaf_labels_ = np.argsort(order)[labels].astype(np.int32)

    def _codes(self, X: Records) -> Codes:
        if self._coding_ is None:
            return super()._codes(X)
        return self._coding_.domain.encode(
            ready_to_encode(self._coding_, validate_queries(self, X))
        )

    def tree_scores(self, X: Records, y: ArrayLike) -> Array:
        """Return the accuracy of every tree alone, shape (n_trees,).

        A leaf stands for the class of its largest vote, the first in `classes_` of those that
        tie. The largest array is (b, n_trees).

        Parameters
        ----------
        X : frame or array of shape (b, d)
        y : array of shape (b,)

        Raises
        ------
        ValueError
            If the lengths of X and y differ.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from mrf_matrix.estimators import ForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> ForestClassifier(random_state=0).fit(X, y).tree_scores(X, y).shape
        (100,)
        """
        check_is_fitted(self, self._learned)
        leaves = self._leaves(X)
        classes = plain_array("y", y)
        check_consistent_length(leaves, classes)
        labels = getattr(self, "leaf_labels_", None)
        if labels is None:
            labels = self._leaf_votes().argmax(axis=1)
        right = self.classes_[labels][leaves] == classes[:, None]
        return np.asarray(right.mean(axis=0))

    def _leaves(self, X: Records) -> Longs | Codes:
        return self.forest_.apply(self._codes(X))

    def _votes(self, X: Records) -> Array:
        check_is_fitted(self, self._learned)
        return forest_votes(self.forest_, self._codes(X), self._leaf_votes())

    def _leaf_votes(self) -> Array:
        if hasattr(self, "leaf_labels_"):
            return np.eye(len(self.classes_))[self.leaf_labels_]
        return leaf_votes(self.leaf_values_, self._voting_)


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
class ForestClassifier(PublicParameters, TreesClassifier):
    """A forest of trees of any source, learned from public records: **not private**.

    Trees that are grown without records (`RandomTrees`, `PureTrees`, your own) count them in
    their leaves; trees that learn from records label their leaves by majority.

    Parameters
    ----------
    trees : source of trees
        A value with ``grow``, see `TreeSource`: a path source, or trees that learn from records,
        such as `BreimanTrees`, which they are where none are given.
    voting : {"hard", "weight"}
        Of trees grown without records: "hard" for votes for a leaf's largest class, "weight" for
        its class counts.
    n_jobs : int
        Threads of sources that use them.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.forests import PureTrees
    >>> car = load_dataset("car")
    >>> model = ForestClassifier(car.domain, trees=PureTrees(20, 200), random_state=0)
    >>> bool(model.fit(car.X, car.y).score(car.X, car.y) > 0.8)
    True
    """

    trees: TreeSource | None = None
    voting: str = "hard"
    n_jobs: int | None = None

    def _source(self, nominal: Sequence[str | int]) -> TreeSource:
        if self.trees is not None and not hasattr(self.trees, "grow"):
            raise TypeError(
                f"trees is of type {type(self.trees).__name__}: expected a source of trees, such "
                f"as BreimanTrees() or PureTrees(), with a method grow."
            )
        given = BreimanTrees() if self.trees is None else self.trees
        if nominal and isinstance(given, GrownTrees) and not given.nominal:
            return replace(given, nominal=nominal)
        return given

    def _nominal(self) -> str:
        return "text"

    def _voting_rule(self) -> str:
        return self.voting


Trees = TypeVar("Trees")


def source_of(estimator: object, source: type[Trees], **others: object) -> Trees:
    """Return the source whose parameters are those of an estimator, by name, but for `others`."""
    held = vars(estimator)
    named = {one.name: held[one.name] for one in fields(source) if one.name in held}  # type: ignore[arg-type]
    return source(**named | others)


def grow_source(source: TreeSource, given: Mapping[str, object]) -> Forest | Grown:
    asked = signature(source.grow).parameters
    return source.grow(**{name: value for name, value in given.items() if name in asked})


def text_attributes(domain: Domain) -> tuple[int, ...]:
    """Return the attributes whose categories are texts: they are taken to have no order."""
    return tuple(
        i
        for i, attribute in enumerate(domain.attributes)
        if attribute.categories is not None
        and not isinstance(attribute.categories, range)
        and any(isinstance(value, str) for value in attribute.categories)
    )
