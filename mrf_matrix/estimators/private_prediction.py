"""What batch prediction and subsample-and-aggregate share: queries first, then one measurement."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.answered_intervals import AnsweredIntervals
from mrf_matrix.estimators.answering import (
    Answering,
    check_strategy_names,
    choose_strategies,
    method_within,
)
from mrf_matrix.estimators.base import ForestClassifier, sorted_classes
from mrf_matrix.estimators.disjoint import record_coins
from mrf_matrix.estimators.ensembles import structure_generator, structure_notes
from mrf_matrix.estimators.fit_from_counts import FitsFromCounts
from mrf_matrix.estimators.given_data import GivenRecords, PrivateData, TableSource
from mrf_matrix.estimators.privacy_report import (
    Measurement,
    PrivacyReport,
    root_mean,
    statement_of,
)
from mrf_matrix.estimators.private_tables import PrivateTables
from mrf_matrix.estimators.schema import encode_queries, required_domain
from mrf_matrix.estimators.spending import Bill, budget_shares_of, noise_stream
from mrf_matrix.estimators.vote_book import VoteBatch, VoteBook
from mrf_matrix.estimators.vote_plan import VotePlan, distinct_rows, weighted
from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    Mechanism,
    PureDP,
    as_budget,
    calibrate,
)
from mrf_matrix.mechanisms.neighboring import checked_neighboring
from mrf_matrix.planning.ensembles import Ensemble
from mrf_matrix.planning.whole_number import whole_number
from strategies import Strategy
from strategies.operators import Operator

Array = NDArray[np.float64]
Codes = NDArray[np.int32]
Budget = PureDP | ZCDP


@dataclass(frozen=True, eq=False)
class PublicParts:
    """What predictions are planned from: no record is in it.

    Attributes
    ----------
    domain : Domain
    ensembles : tuple of Ensemble
    selection_seed : int
        Seeds the selections of strategies, with the number of the batch.
    """

    domain: Domain
    ensembles: tuple[Ensemble, ...]
    selection_seed: int

    def keys(self, codes: Codes) -> Codes:
        """Return what tells queries apart: the attributes that some ensemble sees."""
        seen = sorted(set().union(*(ensemble.features for ensemble in self.ensembles)))
        return np.ascontiguousarray(codes[:, seen])


class PrivatePredictionClassifier(FitsFromCounts, AnsweredIntervals, ForestClassifier):
    """A classifier that keeps its records and releases noisy votes for batches of queries.

    Subclasses say which private table an ensemble's votes come from, and which workload of it
    they are.
    """

    _book: VoteBook
    _parts: PublicParts
    ensembles_: tuple[Ensemble, ...]

    def _table(
        self, ensemble: Ensemble, tables: TableSource, coins: np.random.Generator
    ) -> CellCounts:
        """Return the private table of an ensemble."""
        raise TypeError(f"{type(self).__name__} keeps no table: use one of its subclasses.")

    def _workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return an ensemble's votes for queries as a workload over its table."""
        raise TypeError(f"{type(self).__name__} asks nothing: use one of its subclasses.")

    def _measures_queries(self) -> bool:
        """Tell whether every query is measured by itself, without a strategy."""
        return False

    def _mechanism(
        self, strategy: Strategy | None, workload: Operator, budget: Budget
    ) -> Mechanism:
        """Return the calibrated noise for a strategy."""
        return calibrate(strategy, budget, neighboring=self.neighboring, workload=workload)

    def _check(self) -> None:
        """Refuse bad parameters of a subclass."""

    def _note(self) -> str:
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
        book = self._new_book()
        self._batch_bill(book, 0).check()
        data = bring()
        if self._needs_records():
            data.check_records(type(self).__name__)
        domain = data.domain
        public, structure = self._public(domain)
        budget_shares_of(book.budget, self.budget_shares, len(public.ensembles))
        source = data.tables([ensemble.features for ensemble in public.ensembles])
        coins = structure.integers(2**63, size=len(public.ensembles))  # whatever the records
        tables = [
            self._table(ensemble, source, record_coins(self.noise, book.budget, coin))
            for ensemble, coin in zip(public.ensembles, coins, strict=True)
        ]
        self.domain_ = domain
        self.classes_, _ = sorted_classes(domain)
        self.ensembles_ = public.ensembles
        self._parts = public
        self._book = book
        self._tables = PrivateTables(tables, self.keep_records_in_pickle)
        return self

    def _public(self, domain: Domain) -> tuple["PublicParts", np.random.Generator]:
        """Grow the public forests; return them with the structure's generator."""
        private = not as_budget(epsilon=self.epsilon, rho=self.rho).is_infinite
        structure = structure_generator(self.random_state)
        seed = int(structure.integers(2**63))
        ensembles = self._design().grow(domain, structure, use="release" if private else "study")
        return PublicParts(domain, ensembles, seed), structure

    def _new_book(self) -> VoteBook:
        budget = as_budget(epsilon=self.epsilon, rho=self.rho)
        return VoteBook(budget, whole_number("n_batches", self.n_batches))

    def _batch_bill(self, book: VoteBook, new: int) -> Bill:
        asked = f", {new} new queries" if new else ""
        what = f"predict, batch {book.n_started + 1}{asked}"
        return self._bill(what, book.batch_budget)

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
            codes = encode_queries(self, self.domain_, X)
            return self._planned(codes, self._parts, self._book)
        self._check()
        parts, _ = self._public(required_domain(self.domain))
        return self._planned(parts.domain.encode(X), parts, self._new_book())

    def _planned(self, codes: Codes, parts: "PublicParts", book: VoteBook) -> VotePlan | None:
        unknown = book.unknown(parts.keys(codes))
        if not unknown.any():
            return None
        multiplicity, places = distinct_rows(parts.keys(codes), unknown)
        queries = codes[places]
        workloads = [self._workload(ensemble, queries) for ensemble in parts.ensembles]
        budgets = budget_shares_of(book.batch_budget, self.budget_shares, len(workloads))
        strategies: list[Strategy] | list[None] = [None] * len(workloads)
        if not self._measures_queries():
            asked = [weighted(workload, multiplicity) for workload in workloads]
            strategy = self.strategy
            if isinstance(strategy, str) and strategy == "auto":
                strategy = [method_within(one, self.time_limit) for one in asked]
            strategies = choose_strategies(
                asked,
                strategy,
                budgets[0].norm,
                np.random.default_rng([parts.selection_seed, book.n_started]),
                time_limit=self.time_limit,
                n_jobs=self.n_jobs,
            )
        answerings = tuple(
            Answering(workload, strategy, self._mechanism(strategy, workload, budget))
            for workload, strategy, budget in zip(workloads, strategies, budgets, strict=True)
        )
        return VotePlan(queries, multiplicity, answerings, parts.domain.n_classes)

    def _votes(self, X: Any) -> Array:
        check_is_fitted(self, "ensembles_")
        codes = encode_queries(self, self.domain_, X)
        self._release(codes)
        votes = self._book.votes(self._parts.keys(codes), self.domain_.n_classes)
        return votes[:, sorted_classes(self.domain_)[1]]

    def _keys_and_codes(self, X: Any) -> tuple[Codes, Codes]:
        codes = encode_queries(self, self.domain_, X)
        return self._parts.keys(codes), codes

    def _release(self, codes: Codes) -> None:
        """Release the votes of the queries that are new, if there are any."""
        new = int(self._book.unknown(self._parts.keys(codes)).sum())
        if not new:
            return
        self._book.check_open(new)
        self._batch_bill(self._book, new).check()
        plan = self._planned(codes, self._parts, self._book)
        if plan is None:
            return
        self._batch_bill(self._book, len(plan.queries)).charge()
        stream = noise_stream(self.noise, self.noise_state, self._book.n_started)
        self._book.n_started += 1
        releases, votes = plan.release(self._tables, noise=self.noise, noise_state=stream)
        self._book.record(VoteBatch(plan, releases, votes), self._parts.keys(plan.queries))

    @property
    def batches_(self) -> tuple[VoteBatch, ...]:
        """Every batch released since `fit`: plan, noisy measurements, votes."""
        return tuple(self._book.batches)

    @property
    def privacy_report_(self) -> PrivacyReport:
        """What has been claimed since `fit`, for all batches together."""
        check_is_fitted(self, "ensembles_")
        batches = self.batches_
        if not batches:
            return PrivacyReport(
                "Nothing was released yet: no budget is spent.",
                "nothing",
                self.neighboring,
                "none",
                (),
                notes=(self._note(),),
            )
        releases = [release for batch in batches for release in batch.releases]
        spent = self._book.spent
        squares = sum(float(b.plan.multiplicity @ b.plan.row_variances) for b in batches)
        count = sum(int(b.plan.multiplicity.sum()) for b in batches)
        report = PrivacyReport(
            statement=statement_of(releases, spent),
            budget=f"{spent!r} of {self._book.budget!r}",
            neighboring=releases[0].neighboring,
            noise=releases[0].noise,
            measurements=tuple(
                Measurement.of(release, self._measured(answering))
                for batch in batches
                for answering, release in zip(batch.plan.answerings, batch.releases, strict=True)
            ),
            expected_rms_per_vote=root_mean(squares, count),
            notes=(self._note(), *structure_notes(self.ensembles_)),
        )
        return report.over(self.domain)

    def _measured(self, answering: Answering) -> str:
        if answering.strategy is None:
            return "every query"
        return f"votes by strategy {answering.strategy.method!r}"
