"""A forest that was released: it predicts, and knows nothing of the records."""

from typing import Self

from mrf_matrix.base.arrays import Array, Values
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released import Released, released
from mrf_matrix.estimators.shared.parameters import Outside, Records
from mrf_matrix.estimators.training.matrix_forest import NoiseAwareForest
from mrf_matrix.kinds.matrix import MATRIX, MatrixPosterior, voted_by
from mrf_matrix.kinds.model import Model
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.voting.ensemble import ReleasedEnsemble
from mrf_matrix.voting.intervals import Margins


@released
class ReleasedForestClassifier(Released, NoiseAwareForest):
    """A forest that was released before: it predicts what the fitted classifier predicted.

    It is fitted from the start, by `load_model` or `from_release`, and `fit` refuses: releasing
    again needs a `MatrixForestClassifier` and budget. `sklearn.clone` returns the object itself.
    Prediction is post-processing, so `voting` may be changed at no cost.

    Parameters
    ----------
    ensembles : tuple of ReleasedEnsemble
        Forests and their leaf values.
    classes : ndarray of shape (k,)
        The public classes, sorted.
    voting : str
        The voting rule, see `MatrixForestClassifier`.
    shrinkage : str
        What is done to the leaves before they vote.
    model : Model, optional
        Plan, transcript and what they imply, where the file holds them.

    Attributes
    ----------
    ensembles_, classes_
        As given.
    """

    released_by = "MatrixForestClassifier"
    _claim_rests_on = ("ensembles", "classes", "report")

    ensembles: tuple[ReleasedEnsemble, ...]
    domain: Domain
    classes: Values
    report: PrivacyReport
    voting: str = "hard"
    shrinkage: str = "none"
    model: Model | None = None

    @classmethod
    def of(cls, model: Model) -> Self:
        """Return the classifier of a model."""
        found: MatrixPosterior = model.posterior
        return cls(
            found.ensembles, model.domain, model.classes, model.report,
            voting=found.voting, shrinkage=found.shrinkage, model=model,
        )  # fmt: skip

    @property
    def _model(self) -> Model | None:
        """The model, with votes as they are asked for now; None where leaves alone are known."""
        rule = self.voting_and_shrinkage()
        return None if self.model is None else voted_by(self.model, *rule)

    @property
    def _posterior(self) -> MatrixPosterior:
        return MatrixPosterior(self.ensembles_, *self.voting_and_shrinkage())

    def _votes(self, X: Records) -> Array:
        return self._posterior.votes(self._codes(X))

    def predict_proba(self, X: Records, *, outside: Outside = "refuse") -> Array:
        """Return each class's probability, or its share of the votes, by the voting rule: (b, k).

        Posterior probabilities under the known noise for "posterior", as in naive Bayes for
        "product"; for "shares" the leaves' class shares, on average; for "hard" and "weight" shares
        of votes, which are no probabilities.
        """
        return self._posterior.probabilities(self._codes(self._within(X, outside)))

    def _margins(self, X: Records, level: float) -> Margins:
        return MATRIX.margins(self._posterior, self._codes(X), level)

    def _keep(self) -> None:
        self.ensembles_, self.classes_ = tuple(self.ensembles), self.classes

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        trees = sum(one.forest.n_trees for one in self.ensembles)
        return self._described(f"{trees} trees, voting={self.voting!r}")
