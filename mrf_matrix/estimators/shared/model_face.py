"""Classifiers that ask a model: fitted ones, which release it, and those that were released."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from mrf_matrix.base.arrays import Array, Codes, Seed, Values
from mrf_matrix.base.provenance import NOTHING, Provenance, Spending, parts_of
from mrf_matrix.domain import Domain, required_domain, will_be_read_off
from mrf_matrix.estimators.shared.asked_data import asked_data
from mrf_matrix.estimators.shared.base import BaseForestClassifier, FitsFromCounts, ReleasedBefore
from mrf_matrix.estimators.shared.fixed_claim import ClaimRecord, check_claim, keep_if_fit_fails
from mrf_matrix.estimators.shared.given_data import (
    GivenRecords,
    PrivateData,
    check_before_release,
)
from mrf_matrix.estimators.shared.parameters import Outside, Records
from mrf_matrix.estimators.shared.spending import (
    Budget,
    BudgetParameters,
    NoiseParameters,
    bill_of,
    noise_stream,
    paid,
)
from mrf_matrix.kinds.labels import tree_text
from mrf_matrix.kinds.model import Kind, Model, learn
from mrf_matrix.kinds.private import PrivateSteps
from mrf_matrix.mechanisms import Release
from mrf_matrix.posterior import LabelPosterior
from mrf_matrix.release.curator import Live, PartyReleases
from mrf_matrix.release.transcript import Transcript
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.voting.intervals import Margins, VoteIntervals

SPENT = (
    "The budget is spent. What was released before is kept in transcript_ of this estimator{how}; "
    "fitting again would spend again."
)
_once = Lock()
Stream = np.random.Generator | None
GO_ON = ", and go_on(X, y) takes the steps that are left, at no charge"


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

    model_: Model
    _learned = "model_"

    @property
    def _model(self) -> Model:
        """The model; refused by name where a parameter under the claim was changed since."""
        if "model_" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet. Call fit(X, y) first."
            )
        self._check_claim()
        return self.model_

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
        """What the releases imply, under a model that knows their noise."""
        model = self._model
        if not model.kind.models_noise:
            raise AttributeError(
                f"{model.kind.name} takes what was released as it is: it has no posterior."
            )
        return model.posterior

    @property
    def transcript_(self) -> Transcript:
        """All that was released; of a fit that failed once it was paid for, all up to then."""
        failed: FailedFit | None = vars(self).get("failed_")
        return self._model.transcript if failed is None else failed.transcript

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
        >>> from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
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
    def spent(self) -> Budget:
        """What was spent on it."""
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

    @property
    def privacy_report_(self) -> PrivacyReport:  # type: ignore[override]
        """What is claimed, with every step."""
        return self._model.report

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
        return model.probabilities(self._codes(self._within(X, outside)))

    def decision_function(self, X: Records) -> Array:
        """Return the log odds of the second of two classes, (b,), or of each class, (b, k).

        Of several classes each one's odds are against all others.
        """
        return self._model.log_odds(self._codes(X))

    def _margins(self, X: Records, level: float) -> Margins:
        return self._model.margins(self._codes(X), level)

    def _votes(self, X: Records) -> Array:
        return self._model.votes(self._codes(X))


@dataclass(frozen=True, eq=False)
class FailedFit:
    """What a fit left that failed once it was paid for; no record is in it.

    Attributes
    ----------
    plan
        What was announced.
    transcript : Transcript
        What was released up to then.
    spending : Spending
        The charge, of which all that is released is a part.
    can_go_on : bool
        Whether all that was drawn was kept.
    rests_on : ClaimRecord
        The parameters of that fit: the steps that are left are taken on its terms.
    """

    plan: Any
    transcript: Transcript
    spending: Spending
    can_go_on: bool
    rests_on: ClaimRecord
    _taken: list[bool] = field(default_factory=list, repr=False)

    def take(self) -> None:
        """Let the steps that are left be taken, once: drawn twice they would cost twice.

        Raises ValueError.
        """
        with _once:
            if not self.can_go_on or self._taken:
                raise ValueError(
                    "no paid fit was left of which every draw was kept, or its steps are taken "
                    "elsewhere: call fit(X, y)."
                )
            self._taken.append(True)

    def __reduce__(self) -> Any:
        """Return a copy that nobody goes on from."""
        return FailedFit, (self.plan, self.transcript, self.spending, False, self.rests_on)


class FitsByPlan(NoiseParameters, BudgetParameters, FitsFromCounts, ModelVotes):
    """A classifier whose `fit` has a curator take the steps of a plan.

    Subclasses say what the plan is, and of which kind.

    Attributes
    ----------
    failed_ : FailedFit
        Only after a fit that failed once it was paid for: `go_on` takes the steps that are left.
    """

    _kind: ClassVar[Kind]
    _spent: ClassVar[str] = SPENT
    """What an error says that comes after the charge."""

    def plan(self) -> Any:
        """Return what `fit` would release, without data; the same with an integer `random_state`.

        Raises
        ------
        ValueError
            If the domain is not given or does not suit the kind, or a parameter is invalid.
        """
        check_claim(self)
        return self._plan(required_domain(self.domain))

    def _plan(self, domain: Domain) -> Any:
        raise NotImplementedError

    def _asked(self, given: Any, plan: Any) -> Any:
        """Return what the plan is asked of, once its release would fit: **private**."""
        check_before_release(plan)
        return asked_data(plan, given)

    def _plan_of(self, given: Any, early: Any) -> Any:
        """Return the plan for data that were given; `early`: made before them, if it could be."""
        return self._plan(given.domain) if early is None else early

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        early = None
        if not will_be_read_off(self.domain):  # refused before the records are looked at
            early = self._plan(required_domain(self.domain))
            bill_of(self, early.budget).check()
        given = bring()
        plan = self._plan_of(given, early)
        structure: Provenance = getattr(plan, "provenance", NOTHING)  # blocks may be chosen ones
        bill = bill_of(self, plan.budget).resting_on(given.provenance, structure)
        bill.check()
        data = self._asked(given, plan)
        stream, choosing = self._streams(bill.noise_state)
        curator = Live(
            plan, data, partial(paid, bill), self.noise, stream,
            choosing=choosing, provenance=bill.provenance,
        )  # fmt: skip
        return self._release_of(curator, bill.spending)

    def _streams(self, noise_state: Seed) -> tuple[Stream, Stream]:
        """Return what research noise is drawn from, and research choices where they are apart."""
        return noise_stream(self.noise, noise_state), None

    def _plan_of_parties(self, plan: Any) -> Any:
        """Return the plan that is learned of, from one that parties took."""
        return plan

    def _learn(self, plan: Any, releases: Sequence[Release]) -> None:
        """Keep what follows from releases that parties made of a plan."""
        mine = self._plan_of_parties(plan)
        self.model_ = learn(self._kind, mine, PartyReleases(mine, releases))

    def go_on(self, X: Records, y: ArrayLike) -> Self:
        """Take the steps that a fit left which failed once it was paid for, at no charge.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            The private records of that fit, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If no fit was left, or a draw of it was not kept: its share is spent. If a parameter
            under the claim was changed since that fit: it is named.
        """
        failed: FailedFit | None = vars(self).get("failed_")
        if failed is None:
            raise ValueError("no paid fit was left: call fit(X, y).")
        failed.rests_on.check(self)
        given, told = GivenRecords.of(self, X, y), failed.transcript
        stream, choosing = self._streams(bill_of(self, failed.plan.budget).noise_state)
        curator = Live(
            failed.plan, self._asked(given, failed.plan), partial(parts_of, failed.spending),
            self.noise, stream, choosing=choosing, provenance=told.provenance, before=told,
        )  # fmt: skip
        failed.take()
        return self._release_of(curator, failed.spending)

    def _release_of(self, curator: Live, spending: Spending) -> Self:
        for name in ("model_", "failed_"):
            self.__dict__.pop(name, None)
        try:
            self.model_ = learn(self._kind, curator.plan, curator)
        except BaseException as error:
            if curator.is_paid:
                can_go_on = curator.can_go_on
                self.failed_ = FailedFit(
                    curator.plan, curator.transcript, spending, can_go_on, self._claim_now()
                )
                keep_if_fit_fails(self)
                error.add_note(self._spent.format(how=GO_ON if can_go_on else ""))
            raise
        return self


class ReleasedClassifier(ModelVotes, ReleasedBefore):
    """A classifier of a model that was released before, of any kind.

    It comes from `load_model`, is fitted from the start, and `fit` refuses: releasing again needs
    the classifier that it names, and budget. `sklearn.clone` returns the object itself.

    Parameters
    ----------
    model : Model
        Its plan, the transcript of its release, and what they imply.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    """

    _claim_rests_on = ("model",)

    def __init__(self, model: Model) -> None:
        self.model = self.model_ = model
        self.n_features_in_ = model.domain.n_attributes
        self._fix_claim()

    @property
    def released_by(self) -> str:
        """The classifier that releases it anew."""
        return self.model.kind.estimator

    @property
    def screened_(self) -> tuple[int, ...] | None:
        """Attributes that a private forest kept; None where all are used."""
        plan = self._model.plan
        if not isinstance(plan, PrivateSteps):
            raise AttributeError(f"kind {self.model.kind.name!r} screens no attributes.")
        return plan.screened

    def _codes(self, X: Records) -> Codes:
        return self._model.domain.encode(X, extra="ignore")

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        report = self.model.report
        denied = "" if report.is_private else f". {report.statement}"
        return f"ReleasedClassifier({self.model.kind.name}, {self.model.plan!r}{denied})"
