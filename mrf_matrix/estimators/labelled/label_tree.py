"""A tree of few public cells, each of which releases which class is its largest."""

from collections.abc import Callable, Iterator
from typing import Self

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.checks import structure_generator, whole_number
from mrf_matrix.base.steps import tell
from mrf_matrix.domain import Domain, is_read_off, required_domain
from mrf_matrix.estimators.labelled.report import label_report
from mrf_matrix.estimators.labelled.votes import LabelVotes
from mrf_matrix.estimators.shared.base import FitsFromCounts, sorted_classes
from mrf_matrix.estimators.shared.fixed_claim import check_claim, keeping
from mrf_matrix.estimators.shared.given_data import PrivateData, needs_records
from mrf_matrix.estimators.shared.parameters import SeedParameters, parameters
from mrf_matrix.estimators.shared.spending import (
    Budget,
    BudgetParameters,
    NoiseParameters,
    bill_of,
    noise_stream,
)
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.sources.halves import Halves
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.labels.law import label_evidence
from mrf_matrix.labels.releases import release_labels
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.mechanisms.budgets.claim import claiming_budgets
from mrf_matrix.planning.plans.signal import WEIGHING
from mrf_matrix.planning.private.screening import epsilon_of
from mrf_matrix.posterior import LabelEvidence, LabelPosterior

FITTED = (
    "domain_", "classes_", "plan_", "halves_", "labels_", "posterior_", "privacy_report_",
)  # fmt: skip
"""What a fit leaves."""

SPENT = "The budget is spent, and the labels are lost; fitting again would spend again."


@parameters
class LabelTreeClassifier(
    SeedParameters, NoiseParameters, BudgetParameters, FitsFromCounts, LabelVotes
):
    r"""Tree of few cells that release their labels alone, for little data and small budgets.

    Two attributes are cut in two each, in the middle of their codes or at random where these have
    no order; three or four with many classes and enough records. Each cell says which class is its
    largest, by permute-and-flip at the whole rate, for a record lies in one cell. With enough
    records for a choice, one of 32 random sets of attributes is chosen first, by how many records
    its labels would be right on.

    Parameters
    ----------
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by whichever of ε and the zCDP budget that
        implies it labels at the larger rate: ε nearly always.
    n_records : int
        The number of records, where it is public: how many attributes are cut, the share of the
        choice and the probabilities rest on it. Not given, 2000 are reckoned with.
    random_state : int, RandomState or None
        Seed of the public sets of attributes, and of where attributes without order are cut.

    Attributes
    ----------
    plan_ : LabelPlan
        What was announced and released.
    halves_ : Halves
        The attributes that were chosen, and the sides of their codes.
    labels_ : ndarray of int64, shape (n_cells,)
        The label of each cell, as its number in `classes_`; `export_text` draws them.
    posterior_ : LabelPosterior
        What the labels imply.
    privacy_report_ : PrivacyReport
        What is claimed, with both steps.

    Notes
    -----
    See :doc:`/private` for where it is ahead of other forests.

    References
    ----------
    McKenna and Sheldon, Permute-and-Flip: A new mechanism for differentially private selection
    (2020).

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
    >>> car = load_dataset("car")
    >>> tree = LabelTreeClassifier(car.domain, epsilon=0.02, n_records=1728, random_state=0)
    >>> tree.fit(car.X, car.y).labels_.shape
    (4,)
    >>> tree.plan_.spent
    PureDP(epsilon=0.02)
    """

    n_records: int | None = None

    @property
    def _budget(self) -> Budget:
        """Of the law that labels at the larger rate."""
        return max(claiming_budgets(self.epsilon, self.delta, self.rho), key=epsilon_of)

    def plan(self) -> LabelPlan:
        """Return what `fit` would release, without data; the same with an integer `random_state`.

        Raises
        ------
        ValueError
            If the domain is not given, labels do not suit it (2 to 1000 classes, two attributes of
            2 to 65 536 codes), the budget is too large for exact choices, or a parameter is
            invalid.
        """
        check_claim(self)
        return self._plan(required_domain(self.domain))

    def _plan(self, domain: Domain) -> LabelPlan:
        known = None if self.n_records is None else whole_number("n_records", self.n_records)
        structure = structure_generator(self.random_state)
        return label_plan(
            domain,
            self._budget,
            structure,
            n_records=known,
            neighboring=self.neighboring,
            delta=float(self.delta),
        )

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        if not is_read_off(self.domain):  # refused before the records are looked at
            bill_of(self, self._budget).check()
        data = bring()
        plan = self._plan(data.domain)
        bill = bill_of(self, plan.budget)
        bill.check()
        if (weigh := WEIGHING.get()) is not None:
            weigh(plan)
        classes, order = sorted_classes(data.domain)
        counts = [one[:, order] for one in _counted(plan, data)]
        # all that needs no label is worked out before it is paid for
        report, evidence = label_report(plan, self.noise), evidence_of(plan)
        bits = Bits(noise_stream(self.noise, bill.noise_state))
        bill.charge()
        with keeping(self, FITTED, SPENT, plan_=plan):
            place, self.labels_ = release_labels(plan, counts, bits)
        self.domain_, self.classes_ = data.domain, classes
        self.halves_ = plan.candidates[place]
        self.posterior_ = label_posterior(self.halves_, self.labels_, evidence)
        self.privacy_report_ = report.without_claim() if is_read_off(self.domain) else report
        return self


def _counted(plan: LabelPlan, data: PrivateData) -> Iterator[Longs]:
    """Return the class counts of each candidate's cells, (n_cells, k): nothing is spent by it."""
    asked = [one.attributes for one in plan.candidates]
    tell("Counting the records")
    tables = data.tables(asked)
    for halves in plan.candidates:
        cells = tables.cells(halves.attributes)
        if not isinstance(cells, CellCounts):
            raise needs_records("a tree of labels")
        yield halves.counts(cells.codes, cells.counts)


def label_posterior(halves: Halves, labels: Longs, evidence: LabelEvidence) -> LabelPosterior:
    """Return what the labels of cells imply. `labels` (n_cells,)."""
    sides = tuple(np.array(upper) for upper in halves.upper)
    return LabelPosterior(halves.attributes, sides, labels.reshape((2,) * len(sides)), evidence)


def evidence_of(plan: LabelPlan) -> LabelEvidence:
    """Return what a label of this plan says of its cell."""
    return label_evidence(plan.n_classes, plan.cell_signal, flips=plan.labels.flips)
