"""What `fit` fixed for every later batch of queries, and the records that it will be asked of."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.prediction.private_tables import PrivateTables
from mrf_matrix.estimators.prediction.vote_book import VoteBook
from mrf_matrix.estimators.shared.spending import Bill, Budget, budget_shares_of
from mrf_matrix.forests.sources.ensembles import Ensemble

Codes = NDArray[np.int32]


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


@dataclass(frozen=True, eq=False)
class PredictionTerms:
    """The terms on which every batch is measured.

    Attributes
    ----------
    bill : Bill
        Budget of all batches, ledger, neighbouring relation and noise.
    budget_shares : sequence of float or None
        Of the ensembles.
    hard_votes : bool, default=False
        Whether the private tables hold a vote for each leaf in place of counts: one record may
        move a vote from one class to another.
    each_query : bool, default=False
        Whether every query is measured by itself, without a strategy.
    domain_read_off : bool, default=False
        Whether the domain was read off the records.
    """

    bill: Bill
    budget_shares: Any
    hard_votes: bool = False
    each_query: bool = False
    domain_read_off: bool = False

    def batch_bill(self, book: VoteBook, number: int, new: int) -> Bill:
        """Return what a batch costs, by its number and how many of its queries are new."""
        asked = f", {new} new queries" if new else ""
        what = f"{self.bill.what}, batch {number + 1}{asked}"
        return replace(self.bill, budget=book.batch_budget, what=what)

    def budgets(self, book: VoteBook, count: int) -> tuple[Budget, ...]:
        """Return what a batch spends on each of several ensembles."""
        return budget_shares_of(book.batch_budget, self.budget_shares, count)


@dataclass(frozen=True, eq=False)
class FittedPrediction:
    """One fit: what is public, the private tables, the terms, and what was answered so far.

    A thread that holds it is not disturbed by another fit of the same estimator.
    """

    parts: PublicParts
    tables: PrivateTables
    terms: PredictionTerms
    book: VoteBook
