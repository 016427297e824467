"""What batch prediction and subsample-and-aggregate share: queries first, then one measurement."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.checks import whole_number
from mrf_matrix.domain import Domain, required_domain
from mrf_matrix.estimators.prediction.answered_intervals import AnsweredIntervals
from mrf_matrix.estimators.prediction.prediction_report import prediction_report
from mrf_matrix.estimators.prediction.prediction_terms import FittedPrediction, PredictionTerms
from mrf_matrix.estimators.prediction.private_tables import PrivateTables, counts_of_cells
from mrf_matrix.estimators.prediction.vote_book import VoteBatch, VoteBook
from mrf_matrix.estimators.shared.base import ForestClassifier, sorted_classes
from mrf_matrix.estimators.shared.fit_from_counts import FitsFromCounts
from mrf_matrix.estimators.shared.given_data import GivenRecords, PrivateData
from mrf_matrix.estimators.shared.schema import encode_queries
from mrf_matrix.estimators.shared.spending import noise_stream
from mrf_matrix.forests.sources.ensembles import Ensemble, Use
from mrf_matrix.mechanisms.budgets.budget import budget_or_default
from mrf_matrix.planning.kinds.coins import record_coins
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import PublicForests
from mrf_matrix.planning.plans.queries import query_keys
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.reports.privacy_report import PrivacyReport

Array = NDArray[np.float64]
Codes = NDArray[np.int32]


class PrivatePredictionClassifier(FitsFromCounts, AnsweredIntervals, ForestClassifier):
    """A classifier that keeps its records and releases noisy votes for batches of queries.

    Subclasses say which kind of plan their batches are.
    """

    _fitted: FittedPrediction
    ensembles_: tuple[Ensemble, ...]

    def _kind(self) -> Kind:
        """Return what batches are planned as, by the parameters."""
        raise TypeError(f"{type(self).__name__} asks nothing: use one of its subclasses.")

    def _terms(self) -> PredictionTerms:
        """Return the terms that the parameters describe, as they stand now."""
        return PredictionTerms(self._bill("predict"), isinstance(self.domain, str))

    def _note(self, kind: Kind) -> str:
        """Say what the claim hangs on."""
        return "the queries are public; the fitted object holds the private records"

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the private records; nothing is spent until queries are predicted.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid, or the ledger cannot pay for a
            first batch (a `BudgetError`).
        """
        return self._fit(partial(GivenRecords.of, self, X, y))

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        kind, book = self._kind(), self._new_book()
        measuring = self._measuring(book.batch_budget)
        measuring.check()
        terms = self._terms()
        terms.batch_bill(book, 0, 0).check()
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
        self._fitted = FittedPrediction(forests, measuring, kept, terms, book)
        return self

    def _forests(self, kind: Kind, domain: Domain) -> tuple[PublicForests, np.random.Generator]:
        """Grow the public forests; return them with the structure's generator."""
        private = not budget_or_default(epsilon=self.epsilon, rho=self.rho).is_infinite
        structure = structure_generator(self.random_state)
        use: Use = "release" if private else "study"
        return PublicForests.grow(kind, domain, self._design(), structure, use), structure

    def _new_book(self) -> VoteBook:
        budget = budget_or_default(epsilon=self.epsilon, rho=self.rho)
        return VoteBook(budget, whole_number("n_batches", self.n_batches))

    def plan(self, X: Any) -> Plan | None:
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
            codes = encode_queries(self, fitted.forests.domain, X)
            return self._planned(codes, fitted, fitted.book.n_started)
        kind, book = self._kind(), self._new_book()
        measuring = self._measuring(book.batch_budget)
        measuring.check()
        domain = required_domain(self.domain)
        forests, _ = self._forests(kind, domain)
        planned = forests.plan(measuring, domain.encode(X), n_classes=domain.n_classes)
        planned.check_memory()
        return planned

    def _planned(self, codes: Codes, fitted: FittedPrediction, number: int) -> Plan | None:
        """Plan a batch, given its number, without spending."""
        forests = fitted.forests
        unknown = fitted.book.unknown(query_keys(forests.ensembles, codes))
        if not unknown.any():
            return None
        search = {name: getattr(self, name) for name in ("strategy", "time_limit", "n_jobs")}
        measuring = replace(fitted.measuring, **search)
        planned = forests.plan(
            measuring, codes[unknown], n_classes=forests.domain.n_classes, batch=number
        )
        planned.check_memory()
        return planned

    def _votes(self, X: Any) -> Array:
        return self._votes_of(*self._answered(X))

    def _answered(self, X: Any) -> tuple[FittedPrediction, Codes]:
        """Release what has no answer yet; return the fit that answered, and the codes."""
        check_is_fitted(self, "ensembles_")
        fitted = self._fitted
        codes = encode_queries(self, fitted.forests.domain, X)
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
        book, terms, ensembles = fitted.book, fitted.terms, fitted.forests.ensembles
        keys = query_keys(ensembles, codes)
        with book.lock:
            new = int(book.unknown(keys).sum())
            if not new:
                return
            with book.reserved(new) as number:
                terms.batch_bill(book, number, new).check()
                plan = self._planned(codes, fitted, number)
                if plan is None:
                    return
                bill = terms.batch_bill(book, number, len(plan.queries))
                bill.charge()
                book.charge(plan.budget)
                stream = noise_stream(bill.noise, bill.noise_state, number)
                releases = plan.release(fitted.tables, noise=bill.noise, noise_state=stream)
                marked = tuple(
                    replace(release, domain_read_off=terms.domain_read_off) for release in releases
                )
                batch = VoteBatch(plan, marked, plan.answers(releases))
                book.record(batch, query_keys(ensembles, plan.queries))

    @property
    def batches_(self) -> tuple[VoteBatch, ...]:
        """Every batch released since `fit`: plan, noisy measurements, votes."""
        return tuple(self._fitted.book.batches)

    @property
    def privacy_report_(self) -> PrivacyReport:
        """What has been claimed since `fit`, for all batches together."""
        check_is_fitted(self, "ensembles_")
        self._check_claim()
        return prediction_report(self._fitted, self._note(self._fitted.forests.kind))
