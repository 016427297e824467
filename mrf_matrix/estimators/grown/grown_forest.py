"""What the classifiers over grown forests share: fit, vote, predict."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.grown.value_coding import ValueCoding, code_values, ready_to_encode
from mrf_matrix.estimators.shared.fixed_claim import FixedClaim
from mrf_matrix.estimators.shared.needs_records import NeedsRecords
from mrf_matrix.estimators.shared.schema import encode, encode_queries, resolve_domain
from mrf_matrix.estimators.shared.sklearn_checks import validated_data
from mrf_matrix.forests import Forest, GrownTrees
from mrf_matrix.forests.growth.private.labels import public_labels
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.voting.label_votes import count_label_votes, winners

Codes = NDArray[np.int32]


class GrownForestClassifier(FixedClaim, NeedsRecords, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the classifiers that grow a forest from records and label its leaves.

    Subclasses name their parameters and say which trees they grow (`_trees`). With
    ``domain=None`` the records are taken for public and every distinct value gets a code of its
    own, so that splits are those of the raw values; text columns are nominal.

    Attributes
    ----------
    domain_ : Domain
    classes_ : ndarray of shape (k,)
        Sorted.
    forest_ : Forest
    leaf_labels_ : ndarray of shape (o,)
        The class each leaf votes for, as an index into `classes_`.
    n_features_in_ : int
    """

    domain: Any
    nominal: Any
    n_jobs: int | None
    random_state: Any

    @abstractmethod
    def _trees(self, nominal: Sequence[str | int]) -> GrownTrees:
        """Return the path source that the parameters describe."""

    def _label_sharpness(self) -> float:
        """Return B₃ of the leaf labels: infinity is the majority."""
        return float("inf")

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the forest and label its leaves; not private.

        Parameters
        ----------
        X : frame or array of shape (N, d)
        y : array of shape (N,)

        Returns
        -------
        self
        """
        generator = structure_generator(self.random_state)
        codes, labels, coding = self._encode_training(X, y)
        self._trees(()).growth  # noqa: B018 - refuses wrong parameters before any work
        grown = self._trees(self._nominal(coding)).grow(
            self.domain_,
            codes,
            labels,
            generator,
            centres=coding.centres if coding else None,
            n_jobs=self.n_jobs,
        )
        self._keep(
            grown.forest,
            public_labels(grown.parent_counts, self._label_sharpness(), generator),
            generator,
        )
        return self

    def _encode_training(self, X: Any, y: Any) -> tuple[Codes, Codes, ValueCoding | None]:
        """Encode the records by the domain given, or by their own values."""
        if self.domain is not None:
            domain, X, y = resolve_domain(self, self.domain, X, y)
            codes, labels = encode(domain, X, y)
            self.domain_, self._coding = domain, None
            return codes, labels, None
        X, y = validated_data(self, X, y, of_classes=True)
        coding = code_values(X, y, getattr(self, "feature_names_in_", None))
        self.domain_, self._coding = coding.domain, coding
        codes = coding.domain.encode(ready_to_encode(coding, X))
        labels = np.searchsorted(np.unique(y), y).astype(np.int32)
        return codes, labels, coding

    def _nominal(self, coding: ValueCoding | None) -> Sequence[str | int]:
        if isinstance(self.nominal, str) and self.nominal == "text":
            return coding.text if coding else text_attributes(self.domain_)
        return tuple(self.nominal)

    def _keep(
        self, forest: Forest, labels: NDArray[np.int64], generator: np.random.Generator
    ) -> None:
        """Keep what prediction needs, with classes in sorted order."""
        self.classes_, order = np.unique(np.asarray(self.domain_.classes), return_index=True)
        self.forest_ = forest
        self.leaf_labels_ = np.argsort(order)[labels].astype(np.int32)
        self._leaf_words = generator.integers(
            np.iinfo(np.uint64).max, size=forest.n_leaves, dtype=np.uint64
        )

    def _encode_queries(self, X: Any) -> Codes:
        check_is_fitted(self)
        self._check_claim()
        if self._coding is not None:
            X = validated_data(self, X, reset=False)
            return self._coding.domain.encode(ready_to_encode(self._coding, X))
        return encode_queries(self, self.domain_, X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that most trees vote for; ties at random, alike for equal records.

        Parameters
        ----------
        X : frame or array of shape (b, d)

        Returns
        -------
        ndarray of shape (b,)
        """
        _, winner = self._vote(X)
        chosen: NDArray[Any] = self.classes_[winner]
        return chosen

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return each class's share of the trees: shares of votes, not calibrated.

        The class that `predict` returns is ahead of those it is tied with by 1e-9 of a vote.

        Parameters
        ----------
        X : frame or array of shape (b, d)

        Returns
        -------
        ndarray of shape (b, k)
            In the order of `classes_`.
        """
        votes, winner = self._vote(X)
        shares = votes.astype(np.float64)
        shares[np.arange(len(shares)), winner] += 1e-9
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _vote(self, X: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return votes (b, k) and winners (b,)."""
        codes = self._encode_queries(X)
        votes = count_label_votes(self.forest_, codes, self.leaf_labels_, len(self.classes_))
        return votes, winners(self.forest_, codes, votes, self._leaf_words)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that records may hold text."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def text_attributes(domain: Domain) -> tuple[int, ...]:
    """Return the attributes whose categories are texts: they are taken to have no order."""
    return tuple(
        i
        for i, attribute in enumerate(domain.attributes)
        if attribute.categories is not None
        and not isinstance(attribute.categories, range)
        and any(isinstance(value, str) for value in attribute.categories)
    )
