"""DP batch training: Algorithms 1 and 3 as a scikit-learn classifier, and its baselines."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mrf_matrix.base.arrays import Array, Seed, Values
from mrf_matrix.base.checks import checked_level, one_word, public_records, structure_generator
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.asked_data import asked_data
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.fit_from_release import FitsFromRelease
from mrf_matrix.estimators.shared.given_data import PrivateData, check_before_release
from mrf_matrix.estimators.shared.model_face import FitsByPlan
from mrf_matrix.estimators.shared.parameters import (
    EnsembleParameters,
    Records,
    SeedParameters,
    StrategyParameters,
    parameters,
)
from mrf_matrix.estimators.shared.spending import bill_of
from mrf_matrix.forests import Forest
from mrf_matrix.kinds.matrix import MATRIX, MatrixPlan, matrix_plan, voted_by
from mrf_matrix.kinds.model import Kind, Model
from mrf_matrix.mechanisms import Release
from mrf_matrix.voting.ensemble import ReleasedEnsemble
from mrf_matrix.voting.ensemble_votes import agreements, checked_draws
from mrf_matrix.voting.intervals import VoteIntervals
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES, NoiseAwareVoting, Shrinkage
from strategies import Strategy


class NoiseAwareForest(VoteIntervals, BaseForestClassifier):
    """Intervals of ensembles' weight votes, and redrawn votes under any other rule."""

    ensembles_: tuple[ReleasedEnsemble, ...]
    voting: str
    shrinkage: str

    def voting_and_shrinkage(self) -> tuple[NoiseAwareVoting, Shrinkage]:
        """Return voting and shrinkage in use."""
        self._check_claim()
        voting = one_word("voting", self.voting, NOISE_AWARE_VOTINGS)
        return voting, one_word("shrinkage", self.shrinkage, SHRINKAGES)

    def _known_ensembles(self) -> Sequence[ReleasedEnsemble]:
        for one in self.ensembles_:
            _ = one.release  # refuses where the noise is not known
        return self.ensembles_

    def expected_vote_error(self, X: Records) -> Array:
        """Return the root-mean-square error that noise causes in each record's weight votes.

        Known without private data: from strategy, records and budget alone.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records to predict, in the domain's terms.

        Returns
        -------
        ndarray of shape (b,)
            In records per class, summed over the trees of all ensembles.
        """
        codes = self._codes(X)
        variances = [one.vote_variances(codes) for one in self._known_ensembles()]
        return np.asarray(np.sqrt(np.sum(variances, axis=0)))

    def predict_or_abstain(
        self, X: Records, level: float = 0.95, *, n_draws: int = 100, random_state: Seed = None
    ) -> Values:
        """Return labels, masked where noise may have chosen them.

        Under weight voting without shrinkage, where the interval of the margin holds 0. Under any
        other rule the noise is drawn again, and a label is withheld that less than `level` of the
        redrawn votes agree with; see `mrf_matrix.voting.ensemble_votes`.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        level : float, default=0.95
            See `vote_intervals`; else the share of redrawn votes that must agree.
        n_draws : int, default=100
            Redrawn votes. Not used where intervals are known.
        random_state : int or Generator, optional
            Seed of the redrawn noise. Not used where intervals are known.

        Returns
        -------
        numpy.ma.MaskedArray of shape (b,)
            Predicted classes; masked is withheld.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1, the draws are too few for it, or the release is
            not at hand, as in a forest from a model file.
        """
        wanted = checked_level(level)
        rule = self.voting_and_shrinkage()
        if rule == ("weight", "none"):
            return super().predict_or_abstain(X, wanted)
        draws = checked_draws(n_draws, wanted)
        codes = self._codes(X)
        best = self._votes(X).argmax(axis=1)
        generator = np.random.default_rng(random_state)
        found = agreements(self._known_ensembles(), codes, best, rule, draws, generator)
        return np.ma.masked_array(self.classes_[best], mask=(found < wanted * (draws + 1)))


@parameters
class MatrixForestClassifier(
    SeedParameters,
    StrategyParameters,
    EnsembleParameters,
    FitsByPlan,
    FitsFromRelease,
    NoiseAwareForest,
):
    """Random forest whose leaf values are released once by the matrix mechanism.

    The forest's structure is drawn from the public domain alone. Its decision-path matrix ``T``
    is the workload; a strategy ``A`` is selected without data, the private records are measured
    once, and the leaf values are ``C̃ = T A⁺ (A D + noise)`` (Algorithm 1 of Tajima, Wu and
    Houmansadr, AAAI 2025). Prediction is post-processing: it costs no budget, however often.

    Parameters
    ----------
    allocation : {"matrix", "per_tree", "disjoint", "uniform_levels", "geometric_levels", \
"optimal_levels"}
        "matrix": this library's mechanism; "per_tree": Laplace (Gaussian) noise on each tree's
        leaves; "disjoint": each record trains one tree only, drawn by its own coin; the others:
        all nodes of the trees, with the literature's weights for each level.
    optimise_for : {"auto", "leaves", "votes"}
        What strategies make small: the error of the leaves, or of the weight votes of all cells
        (up to 4096), which serves binary splits with ``voting="weight"`` better. "auto": under ρ
        the paths themselves, the optimum of all votes, and under ε the leaves; see
        :doc:`/objectives`.
    voting : {"hard", "weight", "product", "shares", "posterior"}
        "hard": every tree votes for its leaf's largest class. "weight": trees add leaf values.
        The others know the noise or multiply, see `mrf_matrix.voting.ensemble_votes`.
        Changing it after `fit` costs nothing.
    shrinkage : {"none", "votes", "leaves"}
        Shrinks leaves toward their ancestors before they vote, see `shrink_leaves`: as far as
        votes of all trees need, or each leaf on its own.
    n_records : int
        The number of records, where it is public: kept with the plan. Never read off the records.
    random_state : int, RandomState or None
        Seed of the public structure. The coins of "disjoint" follow it with research noise only;
        a private release throws fresh ones.

    Attributes
    ----------
    plan_ : Plan
        What was measured, decided without data: the plan that `plan` gives for the same arguments.
    ensembles_ : tuple of ReleasedEnsemble
        Attributes, forest, strategy, release and leaf values of each ensemble: all that was
        learned from the records.
    releases_ : tuple of Release
        The noisy measurements, one for each ensemble; kept also where the fit fails after them.
    forest_, strategy_, release_, leaf_values_, leaf_variances_
        Those of the only ensemble, where there is one.

    Notes
    -----
    The expected squared error of the leaf values is ``c(ε) ‖A‖₁² ‖T A⁺‖²_F`` per class, with c
    the variance of the discrete noise at unit scale (about ``2/ε²``); see `expected_error`.
    With q ensembles each has its share of the budget, ε/q unless told otherwise, and the claims
    add up to ε (sequential composition). Fitting twice spends the budget twice.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.training.matrix_forest import MatrixForestClassifier
    >>> car = load_dataset("car")
    >>> forest = MatrixForestClassifier(
    ...     car.domain, epsilon=1.0, n_trees=16, max_depth=3, strategy="identity", random_state=0
    ... )
    >>> forest.fit(car.X, car.y).predict(car.X).shape
    (1728,)
    >>> forest.privacy_report_.noise
    'exact'
    """

    allocation: str = "matrix"
    optimise_for: str = "auto"
    voting: str = "hard"
    shrinkage: str = "none"
    n_records: int | None = None
    _kind: ClassVar[Kind] = MATRIX

    def _plan(self, domain: Domain) -> MatrixPlan:
        return matrix_plan(
            domain,
            self._design(),
            self._measuring(self._budget),
            structure_generator(self.random_state),
            n_records=public_records(self.n_records),
            noise=self.noise,
            allocation=self.allocation,
            voting=self.voting,
            shrinkage=one_word("shrinkage", self.shrinkage, SHRINKAGES),
        )

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        bill_of(self, self._budget).check()  # before strategies are searched
        return super()._fit(bring)

    def _asked(self, given: PrivateData, plan: MatrixPlan) -> Any:
        """Return what the plan is asked of, once its release would fit: **private**."""
        if plan.kind.is_disjoint:
            given.check_records(f"{type(self).__name__} with allocation={self.allocation!r}")
        check_before_release(plan, self.time_limit)
        return asked_data(plan, given)

    @property
    def _model(self) -> Model:
        """The model, with votes as they are asked for now: post-processing."""
        model, (voting, shrinkage) = super()._model, self.voting_and_shrinkage()
        return voted_by(model, voting, shrinkage)

    @property
    def ensembles_(self) -> tuple[ReleasedEnsemble, ...]:  # type: ignore[override]
        """All that was learned, of each ensemble."""
        found: tuple[ReleasedEnsemble, ...] = self._model.posterior.ensembles
        return found

    @property
    def forest_(self) -> Forest:
        """Structure of the only ensemble's forest."""
        return self._only("forest_").forest

    @property
    def strategy_(self) -> Strategy | None:
        """Strategy of the only ensemble; None for the baselines."""
        return self._only("strategy_").strategy

    @property
    def release_(self) -> Release:
        """Noisy measurement of the only ensemble."""
        return self._only("release_").release

    @property
    def leaf_values_(self) -> Array:
        """Noisy class counts of the only ensemble's leaves, shape (o, k)."""
        return self._only("leaf_values_").leaf_values

    @property
    def leaf_variances_(self) -> Array:
        """Noise variance of the only ensemble's leaf values, known without data, shape (o,)."""
        return self._only("leaf_variances_").leaf_variances

    def _only(self, name: str) -> ReleasedEnsemble:
        ensembles: tuple[ReleasedEnsemble, ...] = getattr(self, "ensembles_", ())
        if len(ensembles) != 1:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: it is not fitted, or has several "
                f"ensembles. Look at each of ensembles_."
            )
        return ensembles[0]
