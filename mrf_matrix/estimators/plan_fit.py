"""Fits by a plan: a curator takes its steps, and the model is what they imply."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.provenance import NOTHING, Provenance, parts_of
from mrf_matrix.base.work import tell
from mrf_matrix.domain import (
    Domain,
    as_domain,
    domain_provenance,
    required_domain,
    will_be_read_off,
)
from mrf_matrix.estimators.base import commit_on_success
from mrf_matrix.estimators.model_face import ModelVotes
from mrf_matrix.estimators.parameters import (
    Records,
    ReleaseParameters,
)
from mrf_matrix.estimators.record_source import PrivateData, RecordSource, asked_data
from mrf_matrix.kinds.model import Kind, Model
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.ledger.payers import BudgetRequest, budget_request, noise_stream, pay
from mrf_matrix.planning.auto.plan import claim_of, plan_of_claim
from mrf_matrix.planning.plans.cost import SIGNAL_CHECK, check_cost, peak_bytes, release_seconds
from mrf_matrix.release.curator import Live, PartyReleases
from mrf_matrix.release.plan import Transcript
from strategies.operators.base.arrays import readable_bytes

if TYPE_CHECKING:
    from mrf_matrix.planning.plans.federated_plan import FederatedPlan

SPENT = (
    "The budget is spent. What was released before is kept in transcript_ of this estimator{how}; "
    "fitting again would spend again."
)
_once = Lock()
Stream = np.random.Generator | None
Pay = Callable[[], AbstractContextManager[Any]]
GO_ON = ", and go_on(X, y) takes the steps that are left, at no charge"


@dataclass(frozen=True, eq=False)
class FailedFit:
    """Remains of a fit that failed once it was paid for; no record is in it."""

    kind: Kind
    plan: Any  # what was announced
    # what was charged, and on which terms: the steps that are left are taken on the same
    bill: BudgetRequest
    transcript: Transcript  # what was released up to then
    can_go_on: bool  # whether all that was drawn was kept
    _taken: list[bool] = field(default_factory=list, repr=False)

    def take(self) -> None:
        """Let the steps that are left be taken, once: drawn twice they would cost twice."""
        with _once:
            if not self.can_go_on or self._taken:
                raise ValueError(
                    "no paid fit was left of which every draw was kept, or its steps are taken "
                    "elsewhere: call fit(X, y)."
                )
            self._taken.append(True)

    def __reduce__(self) -> Any:
        """Return a copy that nobody goes on from."""
        return FailedFit, (self.kind, self.plan, self.bill, self.transcript, False)


class FitsByPlan(ReleaseParameters, ModelVotes):
    """A classifier whose `fit` has a curator take the steps of a plan.

    Subclasses say what the plan is, and of which kind.

    Attributes
    ----------
    failed_ : FailedFit
        Only after a fit that failed once it was paid for: `go_on` takes the steps that are left.
    """

    _kind: ClassVar[Kind]
    _spent: ClassVar[str] = SPENT
    """Note on errors that come after the charge."""

    def plan(self) -> Any:
        """Return what `fit` would release, without data; the same with an integer `random_state`.

        Raises
        ------
        ValueError
            If the domain is not given or does not suit the kind, or a parameter is invalid.
        """
        return self._plan(required_domain(self.domain))

    def _plan(self, domain: Domain) -> Any:
        """Return the plan of a kind whose claim and public numbers say all steps."""
        return plan_of_claim(self._kind.name, domain, **claim_of(self))

    def _plan_data(self, given: Any, plan: Any) -> Any:
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
            budget_request(self, early.budget).check()
        given = bring()
        plan = self._plan_of(given, early)
        structure: Provenance = getattr(plan, "provenance", NOTHING)  # blocks may be chosen ones
        bill = budget_request(self, plan.budget).resting_on(given.provenance, structure)
        bill.check()
        curator = self._curator(given, plan, bill, partial(pay, bill))
        return self._release_of(self._kind, curator, bill)

    def _curator(
        self, given: Any, plan: Any, bill: BudgetRequest, pay: Pay, before: Transcript | None = None
    ) -> Live:
        data, (stream, choosing) = self._plan_data(given, plan), self._streams(bill)
        return Live(
            plan, data, pay, bill.noise, stream,
            choosing=choosing, provenance=bill.provenance, before=before,
        )  # fmt: skip

    def _streams(self, bill: BudgetRequest) -> tuple[Stream, Stream]:
        """Return what research noise is drawn from, and research choices where they are apart."""
        return noise_stream(bill.noise, bill.noise_state), None

    def _release_of(self, kind: Kind, curator: Live, bill: BudgetRequest) -> Self:
        try:
            self.model_ = Model(kind, *curator.learn(kind))
        except BaseException as error:
            if curator.is_paid:
                told, can_go_on = curator.transcript, curator.can_go_on
                self.failed_ = FailedFit(kind, curator.plan, bill, told, can_go_on)
                error.add_note(self._spent.format(how=GO_ON if can_go_on else ""))
            raise
        return self

    def go_on(self, X: Records, y: ArrayLike) -> Self:
        """Take the steps that a fit left which failed once it was paid for, at no charge.

        They are taken on the terms of that fit, whatever the parameters are by now.

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
            If no fit was left, or a draw of it was not kept: its share is spent.
        """
        failed: FailedFit | None = vars(self).get("failed_")
        if failed is None:
            raise ValueError("no paid fit was left: call fit(X, y).")
        return self._go_on(failed, X, y)

    @commit_on_success
    def _go_on(self, failed: FailedFit, X: Records, y: ArrayLike) -> Self:
        bill, given = failed.bill, RecordSource.of(self, failed.plan.domain, X, y)
        pay = partial(parts_of, bill.as_spending)
        curator = self._curator(given, failed.plan, bill, pay, failed.transcript)
        failed.take()
        return self._release_of(failed.kind, curator, bill)

    @commit_on_success
    def fit_release(self, plan: "FederatedPlan", *releases: Release) -> Self:
        """Fit from what several parties released of a plan. Nothing is measured, or charged here.

        Parameters
        ----------
        plan : FederatedPlan
            Of ``plan(..., parties=)``, for this classifier's kind, domain, budget and neighbours.
        *releases : Release
            One for each part of the plan.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If the plan is not made for several parties.
        ValueError
            If the plan is of another kind, domain, budget or relation than the estimator, or a
            release is none of the plan's.

        Notes
        -----
        All that is learned knows the true law of the noise, by who contributed. The noise is of
        the kind that the releases say, whatever the estimator's parameter.
        """
        if not hasattr(plan, "measured"):
            raise TypeError(
                f"plan is of type {type(plan).__name__}: expected that of plan(..., parties=). Of "
                f"a release by one curator, make a classifier by from_release."
            )
        asked = {
            "kind": self._kind.name,
            "domain": as_domain(self.domain),
            "budget": self._budget,
            "delta": float(self.delta),
            "neighboring": self.neighboring,
        }
        for name, mine in asked.items():
            planned = plan.kind.name if name == "kind" else getattr(plan, name)
            if planned != mine:
                raise ValueError(
                    f"{name} of the plan is {planned!r}, and the estimator's {mine!r}: expected "
                    f"the same."
                )
        known = [plan.provenance, domain_provenance(self.domain)]
        taken = self._plan_of_parties(plan.measured(releases))
        told = PartyReleases(taken, [one.resting_on(*known) for one in releases])
        self.model_ = Model(self._kind, *told.learn(self._kind))
        return self

    def _plan_of_parties(self, plan: Any) -> Any:
        return plan


def check_before_release(plan: object, time_limit: float = 0.0) -> None:
    """Say what a fit takes, weigh its plan where that is asked, refuse what would not fit or end.

    `plan`: of any kind; `time_limit`: see `check_cost`.

    Raises MemoryCapError, by public numbers alone.
    """
    tell(
        lambda: (
            f"Checking memory (then about {release_seconds(plan):.2g} s, "
            f"{readable_bytes(peak_bytes(plan))})"
        )
    )
    if (weigh := SIGNAL_CHECK.get()) is not None:
        weigh(plan)
    check_cost(plan, time_limit)
