"""A tree of few cells, each with a label: one private choice."""

from collections.abc import Callable
from typing import Self

from mrf_matrix.base.arrays import AnyInts, Longs
from mrf_matrix.base.checks import public_records, structure_generator
from mrf_matrix.domain import Domain, required_domain, will_be_read_off
from mrf_matrix.estimators.labelled.report import label_report
from mrf_matrix.estimators.labelled.votes import LabelVotes
from mrf_matrix.estimators.shared.base import FitsFromCounts, sorted_classes
from mrf_matrix.estimators.shared.fixed_claim import check_claim, keeping
from mrf_matrix.estimators.shared.given_data import PrivateData, check_before_release, needs_records
from mrf_matrix.estimators.shared.parameters import SeedParameters, parameters
from mrf_matrix.estimators.shared.spending import (
    Budget,
    BudgetParameters,
    NoiseParameters,
    Prepared,
    bill_of,
    noise_stream,
)
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.labels.draw import cut_counts, grown_tree, rules_of, with_counts
from mrf_matrix.labels.plan import check_suits_labels
from mrf_matrix.labels.posterior import label_posterior
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.mechanisms.budgets.claim import choice_epsilon, claiming_budgets
from mrf_matrix.mechanisms.selection.bits import Bits

FITTED = (
    "domain_", "classes_", "plan_", "tree_", "posterior_", "privacy_report_",
)  # fmt: skip
"""What a fit leaves."""

SPENT = (
    "The budget is spent. What was drawn is kept in tree_ of this estimator, if anything was; "
    "fitting again would spend again."
)


@parameters
class LabelTreeClassifier(
    SeedParameters, NoiseParameters, BudgetParameters, FitsFromCounts, LabelVotes
):
    r"""Tree of few cells and their labels, for little data and small budgets.

    Every node cuts the codes of one attribute in two, out of many public cuts. The whole tree is
    drawn at once, with the labels of its cells: by the exponential mechanism over all trees t and
    labels l, in proportion to :math:`\exp(r \sum_v n_v(l_v))`, the records that are right. The rate
    r is ε, half of it under replace-one neighbours, and :math:`\sqrt{8\rho}` in place of ε under
    zCDP. The draw is exact, in whole numbers, without writing out the trees. There are four cells,
    eight or sixteen, by the signal N r and the number of public cuts. From 100 on, and from 40 a
    class, a quarter of the budget measures how many records of each class the cells hold. From 400
    on (1000 of two classes) a fifth of the rest draws eight cells, and four fifths draw below each
    of them a tree of four cells with their labels.

    Parameters
    ----------
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by whichever of ε and the zCDP budget that
        implies it labels at the larger rate: ε nearly always.
    n_records : int
        The number of records, where it is public: how deep the tree is, and the probabilities,
        rest on it. Not given, 2000 are reckoned with.
    random_state : int, RandomState or None
        Seed of the public cuts.

    Attributes
    ----------
    plan_ : LabelPlan
        What was announced and released.
    tree_ : LabelTree
        The cuts of its nodes, the labels of its cells, as numbers in `classes_`, and their noisy
        class counts where these were measured; `export_text` draws it.
    posterior_ : LabelPosterior
        What labels and counts imply.
    privacy_report_ : PrivacyReport
        What is claimed.

    Notes
    -----
    See :doc:`/private` for where it is ahead of other forests.

    References
    ----------
    McSherry and Talwar, Mechanism design via differential privacy (2007); Willems, Shtarkov and
    Tjalkens, The context-tree weighting method (1995), for sums over all trees.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
    >>> car = load_dataset("car")
    >>> tree = LabelTreeClassifier(car.domain, epsilon=0.02, n_records=1728, random_state=0)
    >>> tree.fit(car.X, car.y).tree_.n_cells
    4
    >>> tree.plan_.spent
    PureDP(epsilon=0.02)
    """

    n_records: int | None = None

    @property
    def _budget(self) -> Budget:
        """Of the law that labels at the larger rate."""
        return max(claiming_budgets(self.epsilon, self.delta, self.rho), key=choice_epsilon)

    def plan(self) -> LabelPlan:
        """Return what `fit` would release, without data; the same with an integer `random_state`.

        Raises
        ------
        ValueError
            If the domain is not given, labels do not suit it (2 to 1000 classes, an attribute of 2
            to 65 536 codes), the budget is too large for exact choices, or a parameter is invalid.
        """
        check_claim(self)
        return self._plan(required_domain(self.domain))

    def _plan(self, domain: Domain) -> LabelPlan:
        known = public_records(self.n_records)
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
        self._prepared(bring).pay()
        return self

    def _prepared(self, bring: Callable[[], PrivateData]) -> Prepared[None]:
        """Return what releases and learns, ready to be paid; nothing is spent yet."""
        if not will_be_read_off(self.domain):  # refused before the records are looked at
            check_suits_labels(required_domain(self.domain))
            bill_of(self, self._budget).check()
        data = bring()
        plan = self._plan(data.domain)
        bill = bill_of(self, plan.budget).resting_on(data.provenance)
        bill.check()
        check_before_release(plan)
        classes, order = sorted_classes(data.domain)
        codes, of_classes = _counted(plan, data)
        of_classes = of_classes[:, order]
        first = cut_counts(plan, codes, of_classes)
        # what can fail of the data and the draw is worked out before it is paid for
        report = label_report(plan, bill.provenance)
        stream = noise_stream(self.noise, bill.noise_state)
        rules = rules_of(plan, first, Bits(stream))

        def release() -> None:
            with keeping(self, FITTED, SPENT, plan_=plan):
                self.tree_, of_cells = grown_tree(plan, codes, of_classes, first, rules)
                self.tree_ = with_counts(plan, self.tree_, of_cells, self.noise, stream)
                posterior = label_posterior(plan, self.tree_)
                self.domain_, self.classes_ = data.domain, classes
                self.privacy_report_ = report
                self.posterior_ = posterior

        return Prepared(bill, release)


def _counted(plan: LabelPlan, data: PrivateData) -> tuple[AnyInts, Longs]:
    """Return the cells of the attributes that may be cut, and their records by class."""
    cells = data.tables([plan.attributes]).cells(plan.attributes)
    if not isinstance(cells, CellCounts):
        raise needs_records("a tree of labels")
    return cells.codes, cells.counts
