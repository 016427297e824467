"""What `fit` fixed for every later batch of queries, and the records that it will be asked of."""

from dataclasses import dataclass, replace

from mrf_matrix.estimators.prediction.private_tables import PrivateTables
from mrf_matrix.estimators.prediction.vote_book import VoteBook
from mrf_matrix.estimators.shared.spending import Bill
from mrf_matrix.planning.plans.measuring import Measuring
from mrf_matrix.planning.plans.plan_of import PublicForests


@dataclass(frozen=True, eq=False)
class PredictionTerms:
    """The terms on which every batch is measured.

    Attributes
    ----------
    bill : Bill
        Budget of all batches, ledger, neighbouring relation and noise.
    domain_read_off : bool, default=False
        Whether the domain was read off the records.
    """

    bill: Bill
    domain_read_off: bool = False

    def batch_bill(self, book: VoteBook, number: int, new: int) -> Bill:
        """Return what a batch costs, by its number and how many of its queries are new."""
        asked = f", {new} new queries" if new else ""
        what = f"{self.bill.what}, batch {number + 1}{asked}"
        return replace(self.bill, budget=book.batch_budget, what=what)


@dataclass(frozen=True, eq=False)
class FittedPrediction:
    """One fit: what is public, the private tables, the terms, and what was answered so far.

    A thread that holds it is not disturbed by another fit of the same estimator.

    Attributes
    ----------
    forests : PublicForests
    measuring : Measuring
        How each batch is measured, at its budget.
    tables : PrivateTables
    terms : PredictionTerms
    book : VoteBook
    """

    forests: PublicForests
    measuring: Measuring
    tables: PrivateTables
    terms: PredictionTerms
    book: VoteBook
