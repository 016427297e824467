"""Classifiers that predict by a model, fitted or released before."""

from typing import Any, NoReturn, Self

import numpy as np

from mrf_matrix.base.arrays import Array, Codes, Seed, Values
from mrf_matrix.base.checks import checked_level
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.base import BaseForestClassifier
from mrf_matrix.estimators.parameters import Budget, Outside, Records
from mrf_matrix.kinds.labels import tree_text
from mrf_matrix.kinds.matrix import MatrixPosterior
from mrf_matrix.kinds.model import Model
from mrf_matrix.kinds.private import PrivateSteps
from mrf_matrix.mechanisms import Release
from mrf_matrix.posterior import LabelPosterior
from mrf_matrix.release.plan import Transcript
from mrf_matrix.voting.intervals import Margins, VoteIntervals
from mrf_matrix.voting.voting import ReleasedEnsemble, agreements, checked_draws


class ModelVotes(VoteIntervals, BaseForestClassifier):
    """A classifier that asks a model; nothing it predicts or claims looks at a parameter.

    Attributes
    ----------
    model_ : Model
        A plan, the transcript of its release, and what they imply.
    plan_
        What was announced.
    transcript_ : Transcript
        All that was released, in the order of the plan's steps.
    posterior_
        What it implies.
    privacy_report_ : PrivacyReport
        What is claimed, with every step.
    """

    _learned = "model_"

    @property
    def domain_(self) -> Domain:  # type: ignore[override]
        """The public domain."""
        return self._model.domain

    @property
    def classes_(self) -> Values:  # type: ignore[override]
        """The public classes, sorted."""
        return self._model.classes

    @property
    def plan_(self) -> Any:
        """What was announced, and released."""
        return self._model.plan

    @property
    def posterior_(self) -> Any:
        """What the releases imply, under a model that knows their noise.

        Its classes are in the domain's order.
        """
        model = self._model
        if not model.kind.models_noise:
            raise AttributeError(
                f"{model.kind.name} takes what was released as it is: it has no posterior."
            )
        return model.posterior

    @property
    def transcript_(self) -> Transcript:
        """All that was released; of a fit that failed once it was paid for, all up to then."""
        failed = getattr(self, "failed_", None)
        found: Transcript = (self._model if failed is None else failed).transcript
        return found

    @property
    def tree_(self) -> Any:
        """The tree of labels that was released: cuts, labels and counts; of kinds that have one."""
        return self._labels.partition

    @property
    def _labels(self) -> LabelPosterior:
        model = self._model
        found = getattr(model.posterior, "tree", model.posterior)
        if isinstance(found, LabelPosterior):
            return found
        raise AttributeError(f"kind {model.kind.name!r} has no tree of labels here.")

    def export_text(self) -> str:
        """Draw the tree as text: where it is cut, and the label of each cell.

        With counts also how likely it is, in percent; without what tables beside it add.

        Cuts that leave no code on one side of what was cut before, and those below which both
        sides are the same, are left out.

        Raises
        ------
        AttributeError
            If this model has no tree.

        Examples
        --------
        >>> from mrf_matrix import load_dataset
        >>> from mrf_matrix.estimators import LabelTreeClassifier
        >>> monks = load_dataset("monks_1")
        >>> tree = LabelTreeClassifier(
        ...     monks.domain, epsilon=2, n_records=432, random_state=0,
        ...     noise="research", noise_state=0,  # the same tree every time: not private
        ... )
        >>> print(tree.fit(monks.X, monks.y).export_text())
        ├── a1 = 1
        │   ├── a2 = 1: 1 (97%)
        │   └── a2 in {2, 3}
        │       ├── a5 = 1: 1 (95%)
        │       └── a5 in {2, 3, 4}: 0 (98%)
        └── a1 in {2, 3}
            ├── a2 in {1, 2}
            │   ├── a5 = 1: 1 (97%)
            │   └── a5 in {2, 3, 4}: 0 (76%)
            └── a2 = 3
                ├── a1 in {1, 2}: 0 (80%)
                └── a1 = 3: 1 (98%)
        """
        return tree_text(self._labels, self.domain_)

    @property
    def ensembles_(self) -> tuple[ReleasedEnsemble, ...]:
        """Forest, strategy, release and leaf values of each ensemble, of a matrix forest.

        Columns of leaf values are in the order of the domain's classes.
        """
        posterior = self._model.posterior
        if isinstance(posterior, MatrixPosterior):
            return posterior.ensembles
        raise AttributeError(f"kind {self._model.kind.name!r} has no ensembles of leaves.")

    def voted_by(
        self, voting: str | None = None, shrinkage: str | None = None
    ) -> "ReleasedClassifier":
        """Return the classifier whose trees vote in another way: post-processing, at no cost.

        Parameters
        ----------
        voting, shrinkage : str, optional
            See `MatrixForestClassifier`; by default as they are.

        Raises
        ------
        ValueError
            If the model is of one rule only, or a word is unknown.
        """
        model = self._model
        return ReleasedClassifier(model.kind.voted_by(model, voting, shrinkage))

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
        variances = [one.vote_variances(codes) for one in self.ensembles_]
        return np.asarray(np.sqrt(np.sum(variances, axis=0)))

    def predict_or_abstain(
        self, X: Records, level: float = 0.95, *, n_draws: int = 100, random_state: Seed = None
    ) -> Values:
        """Return labels, masked where noise may have chosen them: the margin's interval holds 0.

        Of a posterior, a label that is given leads with a probability of ``(1 + level) / 2`` or
        more under its model. Of a matrix forest under any other rule than weight voting without
        shrinkage the noise is drawn again, and a label is withheld that less than `level` of the
        redrawn votes agree with; see `mrf_matrix.voting.voting`.

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
            If the level is not between 0 and 1, the draws are too few for it, or the kind has no
            intervals.
        """
        model, wanted = self._model, checked_level(level)
        posterior = model.posterior
        if not isinstance(posterior, MatrixPosterior) or posterior.rule == ("weight", "none"):
            return super().predict_or_abstain(X, wanted)
        draws, codes = checked_draws(n_draws, wanted), self._codes(X)
        best = model.kind.votes(posterior, codes, model.domain.sizes).argmax(axis=1)
        generator = np.random.default_rng(random_state)
        found = agreements(posterior.ensembles, codes, best, posterior.rule, draws, generator)
        return np.ma.masked_array(
            np.asarray(model.domain.classes)[best], mask=(found < wanted * (draws + 1))
        )

    @property
    def spent(self) -> Budget:
        """The budget that was spent on it."""
        budget: Budget = self._model.plan.budget
        return budget

    @property
    def releases_(self) -> tuple[Release, ...]:
        """All that was measured, in the order of the plan's steps."""
        return self.transcript_.releases

    @property
    def release_(self) -> Release:
        """The one measurement, where there is one only."""
        found = self.releases_
        if len(found) != 1:
            raise AttributeError(f"{len(found)} releases were made: see releases_.")
        return found[0]

    def predict_proba(self, X: Records, *, outside: Outside = "refuse") -> Array:
        """Return class probabilities (b, k), averaged over what noise leaves unknown.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.
        outside : {"refuse", "clip", "missing"}
            As `predict`.
        """
        model = self._model
        return model.probabilities(self._codes(self._bring_inside(X, outside)))

    def decision_function(self, X: Records) -> Array:
        """Return the log odds of the second of two classes, (b,), or of each class, (b, k).

        Of several classes each one's odds are against all others.
        """
        return self._model.log_odds(self._codes(X))

    def _margins(self, X: Records, level: float) -> Margins:
        return self._model.margins(self._codes(X), level)

    def _votes(self, X: Records) -> Array:
        return self._model.votes(self._codes(X))


class ReleasedClassifier(ModelVotes):
    """A classifier of a model that was released before, of any kind.

    It comes from `load_model` or `from_release`, is fitted from the start, and `fit` refuses:
    releasing again needs the classifier that it names, and budget. `sklearn.clone` returns the
    object itself.

    Parameters
    ----------
    model : Model
        Its plan, the transcript of its release, and what they imply.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    """

    def __init__(self, model: Model) -> None:
        self.model = self.model_ = model
        self.n_features_in_ = model.domain.n_attributes

    @property
    def released_by(self) -> str:
        """The classifier that releases it anew."""
        return self.model_.kind.estimator

    @property
    def screened_(self) -> tuple[int, ...] | None:
        """Attributes that a private forest kept; None where all are used."""
        plan = self._model.plan
        if not isinstance(plan, PrivateSteps):
            raise AttributeError(f"kind {self.model_.kind.name!r} screens no attributes.")
        return plan.kept_attributes

    def _fit(self, bring: object) -> NoReturn:
        """Refuse: what was released has no records to learn from, and no budget."""
        raise TypeError(
            f"what was released before cannot be fitted: expected a "
            f"{self.model.kind.estimator}(domain, epsilon=...), which makes a new release."
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def _codes(self, X: Records) -> Codes:
        return self._model.domain.encode(X, extra="ignore")

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        report = self.model_.report
        denied = "" if report.is_private else f". {report.statement}"
        return f"ReleasedClassifier({self.model_.kind.name}, {self.model_.plan!r}{denied})"
