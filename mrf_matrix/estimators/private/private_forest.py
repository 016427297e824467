"""The forest to reach for: every kind is planned without data, and one is taken by their scores."""

from collections.abc import Callable
from dataclasses import replace
from typing import Self

from mrf_matrix.base.checks import public_records
from mrf_matrix.base.provenance import Chosen, parts_of
from mrf_matrix.base.steps import tell
from mrf_matrix.domain import Domain, required_domain, will_be_read_off
from mrf_matrix.estimators.private.planned_forest import Forest, planned_forest, residual_steps
from mrf_matrix.estimators.private.report import private_report, what_was_chosen
from mrf_matrix.estimators.private.screened import chosen_balance, screened
from mrf_matrix.estimators.private.votes import PrivateVotes
from mrf_matrix.estimators.private.what_may_follow import check_what_may_follow
from mrf_matrix.estimators.shared.base import FitsFromCounts
from mrf_matrix.estimators.shared.fixed_claim import PAID, check_claim, keep_if_fit_fails
from mrf_matrix.estimators.shared.given_data import GivenData, PrivateData
from mrf_matrix.estimators.shared.held_records import ALL, Serving, held
from mrf_matrix.estimators.shared.parameters import Seed, SeedParameters, parameters
from mrf_matrix.estimators.shared.spending import (
    Bill,
    BudgetParameters,
    NoiseParameters,
    bill_of,
    noise_stream,
    paid,
)
from mrf_matrix.mechanisms import PrivacyLedger
from mrf_matrix.mechanisms.budgets.claim import claiming_budgets
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.planning.kinds.kind import TableSource
from mrf_matrix.planning.plans.signal import weighed
from mrf_matrix.planning.plans.verdict import with_verdict
from mrf_matrix.planning.private import PrivatePlan, planned_for, private_plan, records_after
from mrf_matrix.planning.private.private_plan import POOLS
from mrf_matrix.residual import ResidualPlan

FITTED = (
    "domain_", "classes_", "plan_", "screened_", "forest_", "posterior_", "privacy_report_",
)  # fmt: skip
"""What a fit leaves."""


@parameters
class PrivateForestClassifier(
    SeedParameters, NoiseParameters, BudgetParameters, FitsFromCounts, PrivateVotes
):
    r"""Private forest of the kind that is expected to be right most often, planned without data.

    A posterior forest, a residual forest, attributes that are screened first, a tree of labels, and
    such a tree beside tables or residuals are forecast from domain, budget and public number of
    records, on one scale: the expected share of right labels under a public prior. The best is
    taken; ``plan_.reason`` says why, and what the next one would have had. Of two classes and a
    public number of records one thing is asked first where N ε is 1000 or more, privately and for
    1 to 4 % of the budget: how rare the rarer class is; what follows is planned for it. The whole
    budget is charged once, before the first release.

    Neighbouring codes of long ordered attributes are counted as one, see `Domain.coarser`: bins
    that are finer tell less of noisy counts than they cost. ``domain_`` has the bins.

    Parameters
    ----------
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by Laplace noise or by Gaussian noise under the
        zCDP budget that implies it, whichever is expected to serve better.
    n_records : int
        The number of records, where it is public. It says which kind pays; never read off the
        records.

    Attributes
    ----------
    plan_ : PrivatePlan
        The forecasts of all kinds, and why the first was taken. ``plan_.announced`` is the plan
        before the classes were asked for, as `plan` gives it.
    screened_ : tuple of int or None
        Attributes that were chosen, where they were enough; None where all are used.
    forest_ : PosteriorForestClassifier, ResidualForestClassifier, PooledForestClassifier or
        LabelTreeClassifier: the fitted forest that labels.
    posterior_ : ProductPosterior, ResidualPosterior, SeveralPosterior, PooledPosterior or
        LabelPosterior: what its releases imply.
    privacy_report_ : PrivacyReport
        What is claimed, with every choice and release.

    Notes
    -----
    See :doc:`/private` for the scale, what it was checked against, and the measured ranks.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.private.private_forest import PrivateForestClassifier
    >>> car = load_dataset("car")
    >>> model = PrivateForestClassifier(car.domain, epsilon=1.0, n_records=1728, random_state=0)
    >>> print(model.plan())
    posterior forest: planning score ...
    >>> model.fit(car.X, car.y).predict(car.X).shape
    (1728,)
    """

    n_records: int | None = None

    def plan(self) -> PrivatePlan:
        """Return the forecasts of all kinds, and the one that `fit` would take, without data.

        Where ``plan().balance`` stands first, that is what it would take of even classes.

        Raises
        ------
        ValueError
            If the domain is not given, or a parameter is invalid.
        """
        check_claim(self)
        return self._plan(required_domain(self.domain))

    def _plan(self, domain: Domain, serving: Serving = ALL) -> PrivatePlan:
        domain.required_target()
        tell("Planning every kind of forest")
        known = public_records(self.n_records)
        return private_plan(
            domain,
            list(claiming_budgets(self.epsilon, self.delta, self.rho)),
            n_records=known,
            neighboring=self.neighboring,
            delta=float(self.delta),
            records=serving.records,
            tables=serving.tables,
        )

    def _fit(self, bring: Callable[[], GivenData]) -> Self:
        if not will_be_read_off(self.domain):  # refused before the records are looked at
            bill_of(self, self._plan(required_domain(self.domain)).budget).check()
        given, known = bring(), public_records(self.n_records)
        data: PrivateData = given.over(given.domain.coarser())
        plan = self._plan(given.domain, Serving.by(data, known))
        (bill := bill_of(self, plan.budget)).check()
        for name in FITTED:  # they belong to an earlier fit
            self.__dict__.pop(name, None)  # reading one would check the claim that ends here
        self.plan_ = plan
        if plan.takes_records or plan.makes_choices:
            data = held(data, records=plan.takes_records)
        with weighed(lambda: plan):
            if plan.makes_choices:
                self._fit_with_choices(data)
            else:
                forest = self._forest(plan, None, self.noise_state, self.ledger)
                prepared = forest._prepared(lambda: data)
                own = replace(prepared.bill, what=bill.what)  # the ledger names what was called
                self._fit_forest(forest, None, replace(prepared, bill=own).pay)
        return self

    def _fit_with_choices(self, data: PrivateData) -> None:
        """Charge the whole, make the choices, and fit the forest between them."""
        announced, known = self.plan_, self.plan_.n_records or 0
        most = announced if announced.balance is None else planned_for(announced, known)
        tables = data.tables([])
        check_what_may_follow(announced, most, tables, self._steps)
        bill = bill_of(self, announced.budget).resting_on(data.provenance)
        stream = noise_stream(self.noise, bill.noise_state)
        waiting = None
        if most.chosen.measured in POOLS:  # refused before the charge
            forest = self._forest(most, None, stream, bill.ledger)
            with parts_of(bill.spending, charged=False):
                waiting = forest, forest._prepared(lambda: data).release
        with paid(bill):
            keep_if_fit_fails(self)
            self._choose_and_fit(data, tables, Bits(stream), bill, most, waiting)

    def _choose_and_fit(
        self,
        data: PrivateData,
        tables: TableSource,
        bits: Bits,
        bill: Bill,
        most: PrivatePlan,
        waiting: tuple[Forest, Callable[[], object]] | None,
    ) -> None:
        """Make the choices, and fit the forest between them: the whole is charged by now."""
        announced, kept = self.plan_, None
        if announced.balance is not None:
            tell("Choosing how rare the rarer class is")
            level = chosen_balance(announced.balance, tables, bits)
            even = records_after(announced, level)
            known = announced.n_records or 0
            self.plan_ = most if even == known else planned_for(announced, even)
        if (screening := self.plan_.chosen.screening) is not None:
            tell("Screening the attributes")
            chosen, enough = screened(screening, tables, data.domain.sizes, bits)
            kept = Chosen(chosen, bill.provenance) if enough else None
        if waiting is not None and self.plan_ is most:
            forest, release = waiting
            self._fit_forest(forest, None, release)
        else:
            forest = self._forest(self.plan_, kept, bits.generator, None)
            self._fit_forest(forest, kept, forest._prepared(lambda: data).pay)

    def _fit_forest(
        self, forest: Forest, chosen: tuple[int, ...] | None, fit: Callable[[], object]
    ) -> None:
        """Fit the forest that labels, and keep what follows from it."""
        self.screened_ = chosen
        self.forest_ = forest
        try:
            fit()
        finally:
            if PAID in vars(self.forest_):
                keep_if_fit_fails(self)
        self.domain_, self.classes_ = self.forest_.domain_, self.forest_.classes_
        self.forest_.n_features_in_ = self.n_features_in_  # for intervals, which it gives
        report, blocks = self.forest_.privacy_report_, self.forest_.get_params().get("blocks")
        self.posterior_ = self.forest_.posterior_
        if blocks is not None:  # its first note says that they were given
            report = replace(report, notes=report.notes[1:])
            self.forest_.privacy_report_ = report.with_structure_that_was_paid_for()
        report = private_report(
            report,
            self.plan_.choices,
            report.provenance,
            self.plan_.delta,
            [self.plan_.reason, *what_was_chosen(self.plan_, self.domain_, self.screened_)],
        )
        self.privacy_report_ = with_verdict(report, self.plan_)

    def _steps(self, plan: PrivatePlan) -> ResidualPlan:
        """Return the steps of a plan of residuals, alone or beside a tree."""
        return residual_steps(self._forest(plan).set_params(domain=plan.domain))

    def _forest(
        self,
        plan: PrivatePlan,
        chosen: tuple[int, ...] | None = None,
        noise_state: Seed = None,
        ledger: PrivacyLedger | None = None,
    ) -> Forest:
        """Return the forest of a plan, not yet fitted."""
        given = {
            "domain": self.domain if will_be_read_off(self.domain) else plan.domain,
            "n_records": self.n_records,
            "neighboring": self.neighboring,
            "noise": self.noise,
            "noise_state": noise_state,
            "ledger": ledger,
            "random_state": self.random_state,
        }
        return planned_forest(plan, chosen, given)
