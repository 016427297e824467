"""A forest that was released: it predicts, and knows nothing of the records."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import prediction_workload, query_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.estimators.released.released import Released
from mrf_matrix.estimators.training.noise_aware import NoiseAwareForest
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import Release, row_variances
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.voting.leaf_noise import LeafNoise, NoisyLeaves
from mrf_matrix.voting.redrawn_votes import fresh_leaf_noise
from mrf_matrix.voting.vote_draws import vote_terms
from strategies.operators import Operator

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
    noise : Release or LeafNoise
        Where the leaf values' noise follows from: a file holds the noise alone.
    """

    features: tuple[int, ...]
    forest: Forest
    leaf_values: Array
    noise: Release | LeafNoise

    @cached_property
    def leaves(self) -> NoisyLeaves:
        """The leaf values with their noise, which is known without data."""
        return NoisyLeaves(self.forest, self.leaf_values, self.noise)

    @property
    def release(self) -> Release | None:
        """The release that answered the leaves, where it is at hand."""
        return self.noise if isinstance(self.noise, Release) else None

    def vote_variances(self, codes: NDArray[np.int32]) -> Array:
        """Return the expected squared error of every record's weight votes, per class, (b,)."""
        if self.release is None:
            raise ValueError("the release is not at hand: the noise of votes is not known.")
        return row_variances(self.release, self._votes_asked(codes))

    def vote_terms(self, codes: NDArray[np.int32]) -> list[NoiseTerm] | None:
        """Return the weighted noise draws of every record's votes, if they can be afforded."""
        if self.release is None:
            raise ValueError("the release is not at hand: the noise of votes is not known.")
        return vote_terms(self._votes_asked, self.release, codes)

    def redrawn_noise(self, draws: int, generator: np.random.Generator) -> Array:
        """Return fresh errors of the leaf values, shape (o, k, draws)."""
        if self.release is None:
            raise ValueError("the release is not at hand: its noise cannot be drawn again.")
        return fresh_leaf_noise(self.release, self.forest, draws, generator)

    def _votes_asked(self, codes: NDArray[np.int32]) -> Operator:
        queries = query_matrix(Ensemble(self.features, self.forest).view(codes), self.forest.domain)
        return prediction_workload(self.forest, queries)


class ReleasedForestClassifier(Released, NoiseAwareForest):
    """A forest that was released before: it predicts what the fitted classifier predicted.

    It is fitted from the start, by `load_model` or `from_release`, and `fit` refuses: releasing
    again needs a `MatrixForestClassifier` and budget. `sklearn.clone` returns the object itself.
    Prediction is post-processing, so `voting` may be changed at no cost.

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
    voting, shrinkage : str, default="hard", "none"
        The voting rule, and what is done to the leaves before; see `MatrixForestClassifier`.

    Attributes
    ----------
    ensembles_, domain_, classes_, privacy_report_
        As given.
    n_features_in_ : int
        Number of attributes of the domain.
    """

    released_by = "MatrixForestClassifier"
    _claim_rests_on = ("ensembles", "classes", "report")

    def __init__(
        self,
        ensembles: Any,
        domain: Domain,
        classes: NDArray[Any],
        report: PrivacyReport,
        voting: str = "hard",
        shrinkage: str = "none",
    ) -> None:
        self.ensembles = ensembles
        self.domain = domain
        self.classes = classes
        self.report = report
        self.voting = voting
        self.shrinkage = shrinkage
        self._fix_claim()

    @property
    def ensembles_(self) -> tuple[ReleasedEnsemble, ...]:
        """Forests and their leaf values."""
        return tuple(self.ensembles)

    @property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The public classes, sorted."""
        return self.classes

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        trees = sum(one.forest.n_trees for one in self.ensembles)
        return self._described(f"{trees} trees, voting={self.voting!r}")
