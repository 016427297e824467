"""A tree of labels and tables of the same records, asked together."""

from collections.abc import Callable
from functools import cache
from typing import Any, Self

from mrf_matrix.base.arrays import Seed
from mrf_matrix.base.checks import one_word, public_records
from mrf_matrix.base.provenance import is_charged, parts_of
from mrf_matrix.domain import Domain, required_domain, will_be_read_off
from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
from mrf_matrix.estimators.pooled.report import pooled_report
from mrf_matrix.estimators.pooled.votes import PooledVotes
from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier
from mrf_matrix.estimators.shared.base import FitsFromCounts
from mrf_matrix.estimators.shared.fixed_claim import PAID, check_claim, keeping
from mrf_matrix.estimators.shared.given_data import PrivateData, needs_records
from mrf_matrix.estimators.shared.held_records import HeldData, Serving, held
from mrf_matrix.estimators.shared.parameters import SeedParameters, parameters
from mrf_matrix.estimators.shared.spending import (
    Budget,
    BudgetParameters,
    NoiseParameters,
    Prepared,
    bill_of,
    noise_stream,
)
from mrf_matrix.estimators.training.posterior_forest import PosteriorForestClassifier
from mrf_matrix.mechanisms import PrivacyLedger
from mrf_matrix.mechanisms.budgets.claim import claiming_budgets
from mrf_matrix.planning.plans.cost import check_cost
from mrf_matrix.planning.plans.signal import weighed
from mrf_matrix.planning.plans.verdict import with_verdict
from mrf_matrix.planning.private.pooled_plan import PooledPlan, pooling_budget, shared
from mrf_matrix.posterior import PooledPosterior

FITTED = (
    "domain_", "classes_", "plan_", "tree_", "tables_", "posterior_", "privacy_report_",
)  # fmt: skip
"""What a fit leaves."""

SPENT = (
    "The budget is spent. What was released before is kept in tree_ and tables_ of this estimator; "
    "fitting again would spend again."
)

Tables = PosteriorForestClassifier | ResidualForestClassifier

BESIDE: dict[str, type[Tables]] = {
    "tables": PosteriorForestClassifier,
    "residuals": ResidualForestClassifier,
}
"""What may be beside a tree."""


@parameters
class PooledForestClassifier(
    SeedParameters, NoiseParameters, BudgetParameters, FitsFromCounts, PooledVotes
):
    r"""Tree of labels and tables of the same records, whose evidence is pooled.

    A tree sees what several attributes say together, and few of them; tables see what many
    attributes say each. With few records neither is clear. The tree gets half of the budget, or
    less where N ε is above 1000, of several classes 4000. Log odds are

    .. math::

        \log\pi_c + v \log\frac{p_\text{tree}(c \mid x)}{\pi_c}
            + w \log\frac{p_\text{tables}(c \mid x)}{\pi_c},

    :math:`\pi` the class shares that the tables tell; v = w = 0.7, and v = 0.5, w = 0.9 beside
    tables of residuals.

    Parameters
    ----------
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by Gaussian noise under the zCDP budget that
        implies it.
    n_records : int
        The number of records, where it is public: the tree's depth, the tables and the
        probabilities rest on it.
    beside : {"tables", "residuals"}
        What is beside the tree: tables of blocks of attributes, a `PosteriorForestClassifier`, or
        tables of residuals, a `ResidualForestClassifier`, which need records.
    random_state : int, RandomState or None
        Seed of the public cuts, and of the blocks or the order of visits.

    Attributes
    ----------
    plan_ : PooledPlan
        What was announced and released.
    tree_ : LabelTreeClassifier
        The tree; `export_text` draws it.
    tables_ : PosteriorForestClassifier or ResidualForestClassifier
        The tables.
    posterior_ : PooledPosterior
        What both imply.
    privacy_report_ : PrivacyReport
        What is claimed of both together.

    Notes
    -----
    See :doc:`/private` for where it is ahead of other forests.

    References
    ----------
    Genest and Zidek, Combining probability distributions: a critique and an annotated
    bibliography (1986), for logarithmic pools.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.pooled.pooled_forest import PooledForestClassifier
    >>> monks = load_dataset("monks_1")
    >>> forest = PooledForestClassifier(monks.domain, epsilon=1, n_records=432, random_state=0)
    >>> forest.fit(monks.X, monks.y).predict_proba(monks.X).shape
    (432, 2)
    """

    n_records: int | None = None
    beside: str = "tables"
    _claim_rests_on = ("beside", "n_records")  # what is measured, and the budget of each part

    @property
    def _budget(self) -> Budget:
        """Of the zCDP law, where the claim has one: tables gain more by it than the tree loses."""
        return pooling_budget(claiming_budgets(self.epsilon, self.delta, self.rho))

    @property
    def _beside(self) -> str:
        return one_word("beside", self.beside, tuple(BESIDE))

    def plan(self) -> PooledPlan:
        """Return what `fit` would release, without data; the same with an integer `random_state`.

        Raises
        ------
        ValueError
            If the domain is not given, labels do not suit it (see `LabelTreeClassifier`), or a
            parameter is invalid.
        """
        check_claim(self)
        return self._plan(required_domain(self.domain))

    def _plan(self, domain: Domain) -> PooledPlan:
        tree, tables = self._parts(domain.n_classes, None)
        return PooledPlan(
            self._budget,
            tree._plan(domain),
            tables._plan(domain),
            float(self.delta),
        )

    def _parts(
        self, n_classes: int, noise_state: Seed, ledger: PrivacyLedger | None = None
    ) -> tuple[LabelTreeClassifier, Tables]:
        """Return the tree and the tables, not yet fitted; `ledger`: that pays for both."""
        beside = BESIDE[self._beside]
        known = public_records(self.n_records)
        of_tree, of_tables = shared(self._budget, known, self.neighboring, n_classes)
        common: dict[str, Any] = {
            "domain": self.domain,
            "n_records": self.n_records,
            "neighboring": self.neighboring,
            "noise": self.noise,
            "noise_state": noise_state,
            "random_state": self.random_state,
            "ledger": ledger,
        }
        return (
            LabelTreeClassifier(**common | {of_tree.parameter: of_tree.amount}),
            beside(**common | {of_tables.parameter: of_tables.amount}),
        )

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        self._prepared(bring).pay()
        return self

    def _prepared(self, bring: Callable[[], PrivateData]) -> Prepared[None]:
        """Return what releases and learns, ready to be paid; nothing is spent yet."""
        bill = bill_of(self, self._budget)
        bill.check()
        residuals = BESIDE[self._beside] is ResidualForestClassifier
        given = cache(lambda: self._given(bring(), records=residuals))
        domain = given().domain if will_be_read_off(self.domain) else required_domain(self.domain)
        stream = noise_stream(self.noise, bill.noise_state)
        tree, tables = self._parts(domain.n_classes, stream, bill.ledger)
        check_cost(self._plan(domain))  # of both at once, which are prepared one by one
        with weighed(lambda: self._plan(domain)), parts_of(bill.spending, charged=is_charged()):
            drawing = tree._prepared(given)
            measuring = tables._prepared(given)

        def release() -> None:
            with keeping(self, FITTED, SPENT, tree_=tree, tables_=tables):
                drawing.release()
                measuring.release()
                self._learn(given().domain)

        return Prepared(bill.resting_on(given().provenance), release)

    def _given(self, data: PrivateData, *, records: bool) -> HeldData:
        """Return data that both parts are taken from, as records where tables need them."""
        if records and not Serving.by(data, public_records(self.n_records)).records:
            raise needs_records("a tree beside residuals, without a public n_records that fits,")
        return held(data, records=records)

    def _learn(self, domain: Domain) -> None:
        """Keep what follows from the releases of both parts: post-processing."""
        tree, tables = self.tree_, self.tables_
        self.domain_, self.classes_ = tree.domain_, tree.classes_
        self.plan_ = PooledPlan(self._budget, tree.plan_, tables.plan_, float(self.delta))
        reports = tree.privacy_report_, tables.privacy_report_
        self.privacy_report_ = with_verdict(pooled_report(*reports, self.plan_.delta), self.plan_)
        for part in (tree, tables):
            part.n_features_in_ = domain.n_attributes  # which `fit` itself would set
            part.__dict__.pop(PAID, None)  # which its own `fit` would not leave
        self.posterior_ = PooledPosterior.of(tree.posterior_, tables.posterior_)
