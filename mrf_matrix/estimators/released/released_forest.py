"""A forest that was released: it predicts, and knows nothing of the records."""

from mrf_matrix.base.arrays import Values
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released import Released, released
from mrf_matrix.estimators.shared.noise_aware import NoiseAwareForest, ReleasedEnsemble
from mrf_matrix.reports.privacy_report import PrivacyReport


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

    def _keep(self) -> None:
        self.ensembles_, self.classes_ = tuple(self.ensembles), self.classes

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        trees = sum(one.forest.n_trees for one in self.ensembles)
        return self._described(f"{trees} trees, voting={self.voting!r}")
