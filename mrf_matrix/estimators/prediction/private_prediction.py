"""What batch prediction and subsample-and-aggregate share: queries first, then one measurement."""

from collections.abc import Callable
from dataclasses import replace
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.checks import structure_generator, whole_number
from mrf_matrix.base.kept import kept_draws
from mrf_matrix.domain import Domain, required_domain
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.estimators.prediction.answered_intervals import answered_widths
from mrf_matrix.estimators.prediction.prediction_report import prediction_report
from mrf_matrix.estimators.prediction.vote_book import (
    FittedPrediction,
    PrivateTables,
    VoteBatch,
    VoteBook,
    batch_bill,
    counts_of_cells,
)
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.given_data import PrivateData, check_before_release
from mrf_matrix.estimators.shared.parameters import (
    ForestParameters,
    Records,
    ReleaseParameters,
    parameters,
)
from mrf_matrix.estimators.shared.spending import bill_of, noise_stream, paid
from mrf_matrix.forests.sources.ensembles import query_keys
from mrf_matrix.planning.kinds.kind import Kind, record_coins
from mrf_matrix.planning.plans.part import ready_tables
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import PublicForests
from mrf_matrix.reports.privacy_report import PrivacyReport
from mrf_matrix.voting.intervals import Margins, VoteIntervals, leading_margins

SEARCH = ("strategy", "objective", "time_limit", "n_jobs")
"""Parameters that may change from batch to batch."""


@parameters
class PrivatePredictionClassifier(
    ForestParameters, ReleaseParameters, VoteIntervals, BaseForestClassifier
):
    """A classifier that keeps its records and releases noisy votes for batches of queries.

    Subclasses say which kind of plan their batches are.

    Parameters
    ----------
    epsilon : float, int or Fraction
        Pure-DP budget of everything that this fit will ever answer; 1 where no ``rho`` is given
        either. ``float("inf")`` adds no noise and is not used up.
    strategy : str, Strategy, Operator or ndarray, or a list of them
        Family name for `strategies.select`, or a strategy matrix for each ensemble, which must
        determine the votes of the batch.
    time_limit : float
        Seconds that ``strategy="auto"`` may work, for each ensemble and batch.
    ledger : PrivacyLedger
        Charged by every batch of new queries, just before the records are measured.
    n_batches : int
        Batches of new queries that the budget is divided into, equally. Each call with queries
        that have no answer yet is one batch; a call beyond them raises `BudgetError`.
    keep_records_in_pickle : bool
        Pickling or copying the fitted object raises, for it holds the records. True allows it;
        then every copy holds them, and may spend the budget again.

    Attributes
    ----------
    ensembles_ : tuple of Ensemble
        Attributes and forest of each ensemble.
    batches_ : tuple of VoteBatch
        What was released so far: plan, noisy measurements, votes (classes in the domain's order).
    privacy_report_ : PrivacyReport
        What is claimed for all batches so far.
    """

    time_limit: float = 1.0
    n_batches: int = 1
    keep_records_in_pickle: bool = False
    _learned = "ensembles_"

    def _kind(self) -> Kind:
        """Return what batches are planned as, by the parameters."""
        raise TypeError(f"{type(self).__name__} asks nothing: use one of its subclasses.")

    def _note(self, kind: Kind) -> str:
        """Say what the claim hangs on."""
        return "the queries are public; the fitted object holds the private records"

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        kind, book = self._kind(), self._new_book()
        measuring = self._measuring(book.batch_budget)
        measuring.check()
        bill = bill_of(self, book.budget, "predict")
        batch_bill(bill, book, 0, 0).check()
        data = bring()
        if kind.is_disjoint:
            data.check_records(type(self).__name__)
        domain = data.domain
        forests, structure = self._forests(kind, domain)
        ensembles = forests.ensembles
        measuring.shares(len(ensembles))  # refuses those that do not fit
        source = data.tables([ensemble.features for ensemble in ensembles])
        coins = structure.integers(2**63, size=len(ensembles))  # whatever the records
        tables = [
            counts_of_cells(
                kind.table(ensemble, source, record_coins(self.noise, book.budget, coin))
            )
            for ensemble, coin in zip(ensembles, coins, strict=True)
        ]
        self.domain_ = domain
        self.classes_, _ = sorted_classes(domain)
        self.ensembles_ = ensembles
        kept = PrivateTables(tables, self.keep_records_in_pickle)
        known = [data.provenance, *(one.forest.provenance for one in ensembles)]
        self._fitted = FittedPrediction(forests, measuring, kept, bill.resting_on(*known), book)
        return self

    def _forests(self, kind: Kind, domain: Domain) -> tuple[PublicForests, np.random.Generator]:
        """Grow the public forests; return them with the structure's generator."""
        structure = structure_generator(self.random_state)
        return PublicForests.grow(
            kind, domain, self._design(), structure,
            "study" if self._budget.is_infinite else "release",
        ), structure  # fmt: skip

    def _new_book(self) -> VoteBook:
        return VoteBook(self._budget, whole_number("n_batches", self.n_batches))

    def plan(self, X: Records) -> Plan | None:
        """Plan the batch that `predict` would release for these queries, without spending.

        Strategies are selected and the error of the votes computed from queries and budget alone,
        before `fit` as well: with an integer `random_state` it is the same plan, and the one that
        `mrf_matrix.planning.plan` makes of these arguments and queries.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Queries in the domain's terms; they are public.

        Returns
        -------
        Plan or None
            None where every query has been answered already.

        Raises
        ------
        MemoryCapError
            If releasing the batch would need an array above the memory cap.
        """
        if hasattr(self, "ensembles_"):
            fitted = self._fitted
            codes = self._encoded(X, fitted.forests.domain)
            return self._planned(codes, fitted, fitted.book.n_started)
        kind, book = self._kind(), self._new_book()
        measuring = self._measuring(book.batch_budget)
        measuring.check()
        domain = required_domain(self.domain)
        forests, _ = self._forests(kind, domain)
        planned = forests.plan(measuring, domain.encode(X), n_classes=domain.n_classes)
        check_before_release(planned, self.time_limit)
        return planned

    def _planned(self, codes: Codes, fitted: FittedPrediction, number: int) -> Plan | None:
        """Plan a batch, given its number, without spending."""
        forests = fitted.forests
        unknown = fitted.book.unknown(query_keys(forests.ensembles, codes))
        if not unknown.any():
            return None
        search = {name: getattr(self, name) for name in SEARCH}
        measuring = replace(fitted.measuring, **search)
        planned = forests.plan(
            measuring, codes[unknown], n_classes=forests.domain.n_classes, batch=number
        )
        check_before_release(planned, self.time_limit)
        return planned

    def _votes(self, X: Records) -> Array:
        with kept_draws():
            return self._votes_of(*self._answered(X))

    def _answered(self, X: Records) -> tuple[FittedPrediction, Codes]:
        """Release what has no answer yet; return the fit that answered, and the codes."""
        check_is_fitted(self, self._learned)
        fitted = self._fitted
        codes = self._encoded(X, fitted.forests.domain)
        self._release(fitted, codes)
        return fitted, codes

    def _votes_of(self, fitted: FittedPrediction, codes: Codes) -> Array:
        domain = fitted.forests.domain
        keys = query_keys(fitted.forests.ensembles, codes)
        votes = fitted.book.votes(keys, domain.n_classes)
        return votes[:, sorted_classes(domain)[1]]

    def _release(self, fitted: FittedPrediction, codes: Codes) -> None:
        """Release the votes of the queries that are new, if there are any.

        Whoever comes meanwhile waits, and finds what is answered by then.
        """
        book, ensembles = fitted.book, fitted.forests.ensembles
        keys = query_keys(ensembles, codes)
        with book.lock:
            book.answer()  # what was drawn before and not answered
            new = int(book.unknown(keys).sum())
            if not new:
                return
            with book.reserved(new) as number:
                batch_bill(fitted.bill, book, number, new).check()
                plan = self._planned(codes, fitted, number)
                if plan is None:
                    return
                bill = batch_bill(fitted.bill, book, number, len(plan.queries))
                stream = noise_stream(bill.noise, bill.noise_state, number)
                tables = ready_tables(plan.parts, fitted.tables)
                with paid(bill):
                    book.charge(bill.spending)
                    releases = plan.release(tables, noise=bill.noise, noise_state=stream)
                    marked = tuple(one.resting_on(bill.rests_on) for one in releases)
                    book.keep(plan, marked, query_keys(ensembles, plan.queries))
                    book.answer()

    def _margins(self, X: Records, level: float) -> Margins:
        with kept_draws():
            fitted, codes = self._answered(X)
            votes = self._votes_of(fitted, codes)
        return leading_margins(votes, answered_widths(fitted, codes, level, votes.shape[1]))

    @property
    def batches_(self) -> tuple[VoteBatch, ...]:
        """Every batch released since `fit`: plan, noisy measurements, votes."""
        return tuple(self._fitted.book.batches)

    @property
    def privacy_report_(self) -> PrivacyReport:
        """What has been claimed since `fit`, for all batches together."""
        check_is_fitted(self, "ensembles_")
        return prediction_report(self._fitted, self._note(self._fitted.forests.kind))
