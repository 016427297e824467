"""Batch prediction and subsample-and-aggregate: queries first, then one measurement."""

from collections.abc import Callable
from dataclasses import replace
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.checks import structure_generator, whole_number
from mrf_matrix.base.work import keep_draws
from mrf_matrix.domain import Domain, required_domain
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.estimators.answers import Answers, Batch, PrivateTables, batch_bill
from mrf_matrix.estimators.base import BaseForestClassifier
from mrf_matrix.estimators.parameters import (
    ForestParameters,
    Records,
    ReleaseParameters,
    parameters,
)
from mrf_matrix.estimators.plan_fit import check_before_release
from mrf_matrix.estimators.record_source import PrivateData
from mrf_matrix.mechanisms.ledger.payers import budget_request
from mrf_matrix.planning.plans.baselines import record_coins
from mrf_matrix.planning.plans.build import PublicForests
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import MeasurementSpec, PlanKind, kind_of
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
    batches_ : tuple of Batch
        What was released so far: plan, noisy measurements, votes (classes in the domain's order).
    privacy_report_ : PrivacyReport
        What is claimed for all batches so far.
    """

    time_limit: float = 1.0
    n_batches: int = 1
    keep_records_in_pickle: bool = False
    _learned = "ensembles_"

    def _kind(self) -> PlanKind:
        """Return what batches are planned as, by the parameters."""
        raise TypeError(f"{type(self).__name__} asks nothing: use one of its subclasses.")

    def _note(self, kind: PlanKind) -> str:
        return "the queries are public; the fitted object holds the private records"

    def _terms(self) -> MeasurementSpec:
        shares = self._budget.split(whole_number("n_batches", self.n_batches))
        measuring = self._measurement_spec(shares[0])
        measuring.check()
        return measuring

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        kind, measuring = self._kind(), self._terms()
        bill = budget_request(self, self._budget, "predict")
        batch_bill(bill, measuring.budget).check()
        data = bring()
        if kind.is_disjoint:
            data.check_records(type(self).__name__)
        forests, structure = self._forests(kind, data.domain)
        ensembles = forests.ensembles
        measuring.shares(len(ensembles))  # refuses those that do not fit
        source = data.tables([ensemble.features for ensemble in ensembles])
        seeds = structure.integers(2**63, size=len(ensembles))  # whatever the records
        coins = [record_coins(self.noise, self._budget, seed) for seed in seeds]
        tables = [kind.table(one, source, coin) for one, coin in zip(ensembles, coins, strict=True)]
        self.domain_ = data.domain
        self.classes_, _ = sorted_classes(data.domain)
        self.ensembles_ = ensembles
        known = [data.provenance, *(one.forest.provenance for one in ensembles)]
        kept = PrivateTables(tables, self.keep_records_in_pickle)
        self._fitted = Answers(
            forests, measuring, kept, bill.resting_on(*known), int(self.n_batches)
        )
        return self

    def _forests(self, kind: PlanKind, domain: Domain) -> tuple[PublicForests, np.random.Generator]:
        structure = structure_generator(self.random_state)
        return PublicForests.grow(
            kind, domain, self._design(), structure,
            "study" if self._budget.is_infinite else "release",
        ), structure  # fmt: skip

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
            codes = self._encode(X, fitted.forests.domain)
            unknown = fitted.lack_answers(codes)
            return self._next_plan(fitted, codes[unknown]) if unknown.any() else None
        kind, measuring = self._kind(), self._terms()
        domain = required_domain(self.domain)
        return self._plan(self._forests(kind, domain)[0], measuring, domain.encode(X))

    def _next_plan(self, fitted: Answers, codes: Codes) -> Plan:
        search = {name: getattr(self, name) for name in SEARCH}
        measuring = replace(fitted.measuring, **search)
        return self._plan(fitted.forests, measuring, codes, len(fitted.charges))

    def _plan(
        self, forests: PublicForests, measuring: MeasurementSpec, codes: Codes, batch: int = 0
    ) -> Plan:
        classes = forests.domain.n_classes
        planned = forests.plan(measuring, codes, n_classes=classes, batch=batch)
        check_before_release(planned, self.time_limit)
        return planned

    def _release_missing(self, X: Records) -> tuple[Answers, Codes, Array]:
        """Release what has no answer yet; return the fit that answered, the codes and the votes.

        Whoever comes meanwhile waits, and finds what is answered by then.
        """
        check_is_fitted(self, self._learned)
        fitted = self._fitted
        codes = self._encode(X, fitted.forests.domain)
        with keep_draws():
            with fitted.lock:
                unknown = fitted.lack_answers(codes)
                if unknown.any():
                    fitted.check_next(int(unknown.sum()))
                    fitted.release(self._next_plan(fitted, codes[unknown]))
            order = sorted_classes(fitted.forests.domain)[1]
            return fitted, codes, fitted.votes(codes)[:, order]

    def _votes(self, X: Records) -> Array:
        return self._release_missing(X)[-1]

    def _margins(self, X: Records, level: float) -> Margins:
        fitted, codes, votes = self._release_missing(X)
        return leading_margins(votes, fitted.half_widths(codes, level))

    @property
    def batches_(self) -> tuple[Batch, ...]:
        """Every batch released since `fit`: plan, noisy measurements, votes."""
        return tuple(self._fitted.batches)

    @property
    def privacy_report_(self) -> PrivacyReport:
        """What has been claimed since `fit`, for all batches together."""
        check_is_fitted(self, "ensembles_")
        return self._fitted.report(self._note(self._fitted.forests.kind))


@parameters
class BatchPredictionClassifier(PrivatePredictionClassifier):
    """Random forest that releases noisy votes for a batch of queries, all optimised together.

    `fit` **keeps the private records** (as counts of cells) and spends nothing. `predict` builds
    the workload ``W = Q Tᵀ T`` of the queries' weight votes, selects a strategy A for it without
    data, measures the records once and returns the labels with the most votes in
    ``W A⁺ (A D + noise)`` (Algorithm 2 of Tajima, Wu and Houmansadr, AAAI 2025). Queries are
    public. An answer once released is given again at no cost, so that `predict` after
    `predict_proba` is free, and a query that occurs several times in a batch is measured once,
    with its weight.

    Notes
    -----
    The expected squared error of the votes of query r is ``c(ε) ‖A‖₁² ‖(W A⁺)_r‖²`` per class,
    known without data: see `plan`. With q ensembles each has its share of the budget and their
    claims add up (sequential composition), as do those of the batches. Splitting a batch in two
    costs more than a factor of two in noise: ask all queries at once.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators import BatchPredictionClassifier
    >>> car = load_dataset("car")
    >>> model = BatchPredictionClassifier(
    ...     car.domain, epsilon=2.0, n_trees=16, strategy="identity", random_state=0
    ... ).fit(car.X, car.y)
    >>> queries = car.X[:100]
    >>> model.plan(queries).budget
    PureDP(epsilon=2)
    >>> labels = model.predict(queries)
    >>> shares = model.predict_proba(queries)  # the same answers again: free
    >>> len(model.batches_)
    1
    """

    def _kind(self) -> PlanKind:
        return kind_of("batch")


@parameters
class SubsampleAggregateClassifier(PrivatePredictionClassifier):
    """Forest whose trees see disjoint records, and whose votes are released under privacy.

    Every record goes to one tree of each ensemble, by its own coin, so that adding a
    record moves no other. `fit` **keeps private counts** (of the leaves, C) and spends nothing.
    `predict` takes the workload ``W = Q Tᵀ`` over leaves, selects a strategy A for it without
    data, and returns the labels with the most votes in ``W A⁺ (A C + noise)`` (Tajima, Wu and
    Houmansadr, AAAI 2025, "Optimizing Subsample-and-Aggregate Framework"). The existing mechanism
    (Dwork and Feldman, 2018) divides the budget among the queries instead.

    Parameters
    ----------
    allocation : {"matrix", "per_query"}
        "matrix": a strategy for all queries together. "per_query": every distinct query gets an
        equal part of the budget (the baseline).
    voting : {"weight", "hard"}
        "weight": trees add their leaves' class counts; sensitivity ``‖A‖``. "hard": trees vote
        for their leaf's largest class; one record moves one leaf's vote from one class to
        another, so the noise doubles (see `with_hard_votes`). A leaf without records
        does not vote, and ties within a leaf are broken by a public preference drawn for each
        leaf.
    random_state : int, RandomState or None
        Seed of the public structure: attributes and trees. Coins and preferences among ties
        follow it with research noise only; a private release throws fresh ones.

    Notes
    -----
    The private table is over leaves, not cells: a record counts in one leaf only. A coin belongs
    to a record's place in the data, so under "add_remove" a record and its coin come or go
    together.

    Examples
    --------
    >>> from mrf_matrix import SubsampleAggregateClassifier, load_dataset
    >>> car = load_dataset("car")
    >>> model = SubsampleAggregateClassifier(
    ...     car.domain, n_trees=16, max_depth=3, voting="hard", random_state=0
    ... ).fit(car.X, car.y)
    >>> model.plan(car.X).parts[0].mechanism.squared_factor  # of a factor of two
    4
    """

    n_trees: int = 16
    allocation: str = "matrix"
    voting: str = "weight"

    def _kind(self) -> PlanKind:
        return kind_of("subsample", self.allocation, self.voting)

    def _note(self, kind: PlanKind) -> str:
        return (
            f"the queries are public; {kind.voting} voting; the fitted object holds private counts"
        )
