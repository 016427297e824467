"""A forest of tables measured one after another, each on what earlier ones leave unexplained."""

from typing import ClassVar

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.parameters import RandomState, parameters
from mrf_matrix.estimators.shared.plan_fit import FitsByPlan
from mrf_matrix.kinds.additive import ADDITIVE, scale_of
from mrf_matrix.kinds.model import Kind
from mrf_matrix.planning.private.plan_of_claim import claim_of, plan_of_claim
from mrf_matrix.residual.sequence import ResidualPlan


@parameters
class ResidualForestClassifier(FitsByPlan):
    r"""Forest of tables of residuals: each table holds what is still unexplained.

    Log odds, of several classes each one's score, are a sum of tables. A table is measured on
    residuals: what the labels have beyond the probabilities that earlier releases imply.
    Attributes that say the same are so counted once. All shares of the budget are fixed before the
    data; see `plan`.

    Parameters
    ----------
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by Gaussian noise under the zCDP budget that
        implies it, or by Laplace noise of ε where that is the smaller.
    n_records : int
        The number of records, where it is public. Not given, it is estimated from the released
        class totals, and the sequence is planned for 2000.
    random_state : int, RandomState or None
        Seed of the public order in which attributes are visited.

    Attributes
    ----------
    plan_ : ResidualPlan
        The sequence of steps that was announced and taken.
    releases_ : tuple of Release
        All that was learned from the records, beside the choices, in the order of the steps.
    scale_ : float
        By how much of the sum of the first pass's effects was believed, as a choice says.
    choices_ : tuple of (tuple of int or None)
        Pairs and triples that were chosen, None where none of them was.
    posterior_ : ResidualPosterior, or SeveralPosterior of several classes
        What the releases imply.
    privacy_report_ : PrivacyReport
        What is claimed, with every release.

    Notes
    -----
    See :doc:`/residual` for the method. It needs records: `suits_residual_forest` says where
    `PosteriorForestClassifier` is to be preferred.

    Examples
    --------
    >>> import numpy as np
    >>> from mrf_matrix import Domain
    >>> from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier
    >>> X = np.random.default_rng(0).integers(0, 3, size=(3000, 4))
    >>> y = (X[:, 0] + X[:, 1] > 2).astype(int)
    >>> domain = Domain.from_sizes([3, 3, 3, 3], n_classes=2)
    >>> forest = ResidualForestClassifier(domain, epsilon=2.0, n_records=3000, random_state=0)
    >>> bool(forest.fit(X, y).score(X, y) > 0.9)
    True
    >>> forest.plan_.spent
    PureDP(epsilon=2)
    """

    n_records: int | None = None
    random_state: RandomState = None
    _kind: ClassVar[Kind] = ADDITIVE

    def _plan(self, domain: Domain) -> ResidualPlan:
        made: ResidualPlan = plan_of_claim("additive", domain, **claim_of(self))
        return made

    @property
    def scale_(self) -> float:
        """By how much of the sum of the first pass's effects was believed."""
        return scale_of(self._model.transcript)

    @property
    def choices_(self) -> tuple[tuple[int, ...] | None, ...]:
        """Pairs and triples that were chosen, None where none of them was."""
        places = [place for (place,) in self._model.transcript.choices[1:]]
        blocks = iter(self.posterior_.blocks[self.domain_.n_attributes :])
        n_none = len(places) - (len(self.posterior_.blocks) - self.domain_.n_attributes)
        none = set(sorted(places)[len(places) - n_none :])  # they stand behind all candidates
        return tuple(None if one in none else next(blocks).attributes for one in places)
