"""What batch prediction and subsample-and-aggregate share: queries first, then one measurement."""

from collections.abc import Callable, Sequence
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
from mrf_matrix.estimators.prediction.prediction_terms import (
    FittedPrediction,
    PredictionTerms,
    PublicParts,
)
from mrf_matrix.estimators.prediction.private_tables import PrivateTables
from mrf_matrix.estimators.prediction.vote_book import VoteBatch, VoteBook
from mrf_matrix.estimators.prediction.vote_plan import VotePlan, distinct_rows, weighted
from mrf_matrix.estimators.shared.base import ForestClassifier, sorted_classes
from mrf_matrix.estimators.shared.disjoint import record_coins
from mrf_matrix.estimators.shared.ensembles import structure_generator
from mrf_matrix.estimators.shared.fit_from_counts import FitsFromCounts
from mrf_matrix.estimators.shared.given_data import GivenRecords, PrivateData, TableSource
from mrf_matrix.estimators.shared.schema import encode_queries
from mrf_matrix.estimators.shared.spending import Budget, noise_stream
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import CellCounts, Mechanism, calibrate
from mrf_matrix.mechanisms.budgets.budget import budget_or_default
from mrf_matrix.mechanisms.budgets.neighboring import checked_neighboring
from mrf_matrix.planning.plans.answering import Answering, check_strategy_names, choose_strategies
from mrf_matrix.planning.plans.strategy_choice import method_within
from mrf_matrix.reports.privacy_report import PrivacyReport
from strategies import Strategy
from strategies.operators import Operator
from strategies.search.select import checked_time_limit

Array = NDArray[np.float64]
Codes = NDArray[np.int32]


class PrivatePredictionClassifier(FitsFromCounts, AnsweredIntervals, ForestClassifier):
    """A classifier that keeps its records and releases noisy votes for batches of queries.

    Subclasses say which private table an ensemble's votes come from, and which workload of it
    they are.
    """

    _fitted: FittedPrediction
    ensembles_: tuple[Ensemble, ...]

    def _table(
        self, ensemble: Ensemble, tables: TableSource, coins: np.random.Generator
    ) -> CellCounts:
        """Return the private table of an ensemble."""
        raise TypeError(f"{type(self).__name__} keeps no table: use one of its subclasses.")

    def _workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return an ensemble's votes for queries as a workload over its table."""
        raise TypeError(f"{type(self).__name__} asks nothing: use one of its subclasses.")

    def _mechanism(
        self,
        strategy: Strategy | None,
        workload: Operator,
        budget: Budget,
        terms: PredictionTerms,
    ) -> Mechanism:
        """Return the calibrated noise for a strategy."""
        relation = terms.bill.neighboring
        return calibrate(strategy, budget, neighboring=relation, workload=workload)

    def _terms(self) -> PredictionTerms:
        """Return the terms that the parameters describe, as they stand now."""
        read_off = isinstance(self.domain, str)
        return PredictionTerms(self._bill("predict"), self.budget_shares, domain_read_off=read_off)

    def _check(self) -> None:
        """Refuse bad parameters of a subclass."""

    def _note(self, terms: PredictionTerms) -> str:
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

    def _needs_records(self) -> bool:
        """Tell whether every record is sent its own way, so that counts will not do."""
        return False

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        self._check()
        checked_neighboring(self.neighboring)
        check_strategy_names(self.strategy)
        checked_time_limit(self.time_limit)
        book, terms = self._new_book(), self._terms()
        terms.batch_bill(book, 0, 0).check()
        data = bring()
        if self._needs_records():
            data.check_records(type(self).__name__)
        domain = data.domain
        public, structure = self._public(domain)
        terms.budgets(book, len(public.ensembles))  # refuses shares that do not fit
        source = data.tables([ensemble.features for ensemble in public.ensembles])
        coins = structure.integers(2**63, size=len(public.ensembles))  # whatever the records
        tables = [
            self._table(ensemble, source, record_coins(self.noise, book.budget, coin))
            for ensemble, coin in zip(public.ensembles, coins, strict=True)
        ]
        self.domain_ = domain
        self.classes_, _ = sorted_classes(domain)
        self.ensembles_ = public.ensembles
        kept = PrivateTables(tables, self.keep_records_in_pickle)
        self._fitted = FittedPrediction(public, kept, terms, book)
        return self

    def _public(self, domain: Domain) -> tuple[PublicParts, np.random.Generator]:
        """Grow the public forests; return them with the structure's generator."""
        private = not budget_or_default(epsilon=self.epsilon, rho=self.rho).is_infinite
        structure = structure_generator(self.random_state)
        seed = int(structure.integers(2**63))
        ensembles = self._design().grow(domain, structure, use="release" if private else "study")
        return PublicParts(domain, ensembles, seed), structure

    def _new_book(self) -> VoteBook:
        budget = budget_or_default(epsilon=self.epsilon, rho=self.rho)
        return VoteBook(budget, whole_number("n_batches", self.n_batches))

    def plan(self, X: Any) -> VotePlan | None:
        """Plan the batch that `predict` would release for these queries, without spending.

        Strategies are selected and the error of the votes computed from queries and budget alone,
        before `fit` as well: with an integer `random_state` it is the same plan.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Queries in the domain's terms; they are public.

        Returns
        -------
        VotePlan or None
            None where every query has been answered already.
        """
        if hasattr(self, "ensembles_"):
            fitted = self._fitted
            codes = encode_queries(self, fitted.parts.domain, X)
            book = fitted.book
            return self._planned(codes, fitted.parts, fitted.terms, book, book.n_started)
        self._check()
        checked_time_limit(self.time_limit)
        parts, _ = self._public(required_domain(self.domain))
        return self._planned(parts.domain.encode(X), parts, self._terms(), self._new_book(), 0)

    def _planned(
        self, codes: Codes, parts: PublicParts, terms: PredictionTerms, book: VoteBook, number: int
    ) -> VotePlan | None:
        """Plan a batch, given its number, without spending."""
        unknown = book.unknown(parts.keys(codes))
        if not unknown.any():
            return None
        multiplicity, places = distinct_rows(parts.keys(codes), unknown)
        queries = codes[places]
        workloads = [self._workload(ensemble, queries) for ensemble in parts.ensembles]
        budgets = terms.budgets(book, len(workloads))
        if terms.each_query:
            answerings = [
                Answering(workload, None, self._mechanism(None, workload, budget, terms))
                for workload, budget in zip(workloads, budgets, strict=True)
            ]
        else:
            chosen = self._chosen(workloads, budgets, multiplicity, terms, (parts, number))
            answerings = [
                Answering(workload, *each) for workload, each in zip(workloads, chosen, strict=True)
            ]
        return VotePlan(queries, multiplicity, tuple(answerings), parts.domain.n_classes)

    def _chosen(
        self,
        workloads: list[Operator],
        budgets: Sequence[Budget],
        multiplicity: NDArray[np.int64],
        terms: PredictionTerms,
        batch: tuple[PublicParts, int],
    ) -> list[tuple[Strategy, Mechanism]]:
        """Return each ensemble's strategy for a batch of a number, with its mechanism."""
        asked = [weighted(workload, multiplicity) for workload in workloads]
        strategy = self.strategy
        if isinstance(strategy, str) and strategy == "auto":
            strategy = [method_within(one, budgets[0].norm, self.time_limit) for one in asked]
        parts, number = batch
        return choose_strategies(
            asked,
            strategy,
            [
                partial(self._mechanism, workload=workload, budget=budget, terms=terms)
                for workload, budget in zip(workloads, budgets, strict=True)
            ],
            budgets[0].norm,
            np.random.default_rng([parts.selection_seed, number]),
            time_limit=self.time_limit,
            n_jobs=self.n_jobs,
        )

    def _votes(self, X: Any) -> Array:
        return self._votes_of(*self._answered(X))

    def _answered(self, X: Any) -> tuple[FittedPrediction, Codes]:
        """Release what has no answer yet; return the fit that answered, and the codes."""
        check_is_fitted(self, "ensembles_")
        fitted = self._fitted
        codes = encode_queries(self, fitted.parts.domain, X)
        self._release(fitted, codes)
        return fitted, codes

    def _votes_of(self, fitted: FittedPrediction, codes: Codes) -> Array:
        domain = fitted.parts.domain
        votes = fitted.book.votes(fitted.parts.keys(codes), domain.n_classes)
        return votes[:, sorted_classes(domain)[1]]

    def _release(self, fitted: FittedPrediction, codes: Codes) -> None:
        """Release the votes of the queries that are new, if there are any.

        Whoever comes meanwhile waits, and finds what is answered by then.
        """
        book, terms = fitted.book, fitted.terms
        keys = fitted.parts.keys(codes)
        with book.lock:
            new = int(book.unknown(keys).sum())
            if not new:
                return
            with book.reserved(new) as number:
                terms.batch_bill(book, number, new).check()
                plan = self._planned(codes, fitted.parts, terms, book, number)
                if plan is None:
                    return
                bill = terms.batch_bill(book, number, len(plan.queries))
                bill.charge()
                book.charge(plan.budget)
                stream = noise_stream(bill.noise, bill.noise_state, number)
                releases, votes = plan.release(fitted.tables, noise=bill.noise, noise_state=stream)
                marked = tuple(
                    replace(release, domain_read_off=terms.domain_read_off) for release in releases
                )
                book.record(VoteBatch(plan, marked, votes), fitted.parts.keys(plan.queries))

    @property
    def batches_(self) -> tuple[VoteBatch, ...]:
        """Every batch released since `fit`: plan, noisy measurements, votes."""
        return tuple(self._fitted.book.batches)

    @property
    def privacy_report_(self) -> PrivacyReport:
        """What has been claimed since `fit`, for all batches together."""
        check_is_fitted(self, "ensembles_")
        self._check_claim()
        return prediction_report(self._fitted, self._note(self._fitted.terms))
