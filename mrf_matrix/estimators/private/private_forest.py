"""The forest to reach for: every kind is planned without data, and the best expected is taken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mrf_matrix.base.checks import structure_generator, whole_number
from mrf_matrix.base.steps import tell
from mrf_matrix.domain import Domain, is_read_off, required_domain
from mrf_matrix.estimators.private.held_records import ALL, Serving, held
from mrf_matrix.estimators.private.report import private_report
from mrf_matrix.estimators.private.screened import chosen_balance, screened
from mrf_matrix.estimators.private.votes import PrivateVotes
from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier
from mrf_matrix.estimators.shared.base import FitsFromCounts
from mrf_matrix.estimators.shared.fixed_claim import PAID, check_claim, keep_if_fit_fails
from mrf_matrix.estimators.shared.given_data import PrivateData, check_before_release
from mrf_matrix.estimators.shared.parameters import Seed, SeedParameters, parameters
from mrf_matrix.estimators.shared.spending import (
    BudgetParameters,
    NoiseParameters,
    bill_of,
    noise_stream,
)
from mrf_matrix.estimators.training.posterior_forest import PosteriorForestClassifier
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.sources.block_trees import Block
from mrf_matrix.mechanisms import PrivacyLedger
from mrf_matrix.mechanisms.budgets.claim import claiming_budgets, squared_factor
from mrf_matrix.mechanisms.ledger.default import already_paid
from mrf_matrix.planning.blocks.block_design import BlockChoice, choose_blocks
from mrf_matrix.planning.blocks.block_part import check_block
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.measuring import Measuring
from mrf_matrix.planning.plans.part import check_memory
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of
from mrf_matrix.planning.plans.signal import WEIGHING
from mrf_matrix.planning.private import PrivatePlan, even_records, planned_for, private_plan
from mrf_matrix.residual.settings import Budget
from strategies.operators import MemoryCapError, check_allocation

FITTED = ("domain_", "classes_", "plan_", "screened_", "forest_", "posterior_", "privacy_report_")
"""What a fit leaves."""

CHOICES_BEFORE = (
    "choices from the same records were made before what is measured here: their budget "
    "adds to this one, and the report of the PrivateForestClassifier states the sum"
)
"""A note on the forest of a plan that chooses first."""

Forest = PosteriorForestClassifier | ResidualForestClassifier


@parameters
class PrivateForestClassifier(
    SeedParameters, NoiseParameters, BudgetParameters, FitsFromCounts, PrivateVotes
):
    r"""Private forest of the kind that is expected to be right most often, planned without data.

    A posterior forest, a residual forest, and attributes that are screened first are forecast from
    domain, budget and public number of records, on one scale: the expected share of right labels
    under a public prior. The best is taken; ``plan_.reason`` says why, and what the next one would
    have had. Of two classes and a public number of records one thing is asked first, privately and
    for 1 to 4 % of the budget: how rare the rarer class is; what follows is planned for it. The
    whole budget is charged once, before the first release.

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
    forest_ : PosteriorForestClassifier or ResidualForestClassifier
        The fitted forest that labels.
    posterior_ : ProductPosterior or ResidualPosterior
        What its releases imply.
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
    posterior forest: expected accuracy ...
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
        known = None if self.n_records is None else whole_number("n_records", self.n_records)
        return private_plan(
            domain,
            list(claiming_budgets(self.epsilon, self.delta, self.rho)),
            n_records=known,
            neighboring=self.neighboring,
            delta=float(self.delta),
            records=serving.records,
            tables=serving.tables,
        )

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        if not is_read_off(self.domain):  # refused before the records are looked at
            bill_of(self, self._plan(required_domain(self.domain)).budget).check()
        data = bring()
        known = None if self.n_records is None else whole_number("n_records", self.n_records)
        plan = self._plan(data.domain, Serving.by(data, known))
        bill_of(self, plan.budget).check()
        for name in FITTED:  # they belong to an earlier fit
            self.__dict__.pop(name, None)  # reading one would check the claim that ends here
        self.plan_ = plan
        residuals, chooses = plan.chosen.residuals, plan.balance or plan.chosen.screening
        if residuals or chooses is not None:
            later = plan.balance is not None and plan.left_out is None
            data = held(data, records=residuals or later)
        if chooses is None:
            self._fit_forest(None, lambda: data, self.noise_state, self.ledger)
        else:
            self._fit_after_choices(data)
        return self

    def _fit_after_choices(self, data: PrivateData) -> None:
        """Charge the whole, make the choices, and fit the forest with what is left."""
        announced, known = self.plan_, self.plan_.n_records or 0
        most = announced if announced.balance is None else planned_for(announced, known)
        self._check_what_may_follow(announced, most)
        self.plan_ = announced
        bill = bill_of(self, announced.budget)
        stream = noise_stream(self.noise, bill.noise_state)
        bill.charge()
        keep_if_fit_fails(self)
        tables, bits, kept = data.tables([]), Bits(stream), None
        if announced.balance is not None:
            tell("Choosing how rare the rarer class is")
            level = chosen_balance(announced.balance, tables, bits)
            even = even_records(known, level)
            self.plan_ = most if even == known else planned_for(announced, even)
        if (screening := self.plan_.chosen.screening) is not None:
            tell("Screening the attributes")
            chosen, enough = screened(screening, tables, data.domain.sizes, bits)
            kept = chosen if enough else None
        with already_paid():
            self._fit_forest(kept, lambda: data, stream, None)

    def _check_what_may_follow(self, announced: PrivatePlan, most: PrivatePlan) -> None:
        """Refuse forests of all attributes that could not be fitted, before anything is spent.

        `announced`: before any choice; `most`: what follows where classes are even, whose signal
        is weighed.
        """
        tell("Checking memory")
        domain = most.domain
        widest = int(np.argmax(domain.sizes))
        check_block(domain, (widest,), domain.n_classes)  # the least that may be kept
        if announced.balance is not None:  # tables follow, whatever they are for even classes
            every: list[Block] = [(i,) for i, size in enumerate(domain.sizes) if size > 1]
            least = self._tables(announced, announced.after_balance, every)
            check_memory(least.parts, domain.n_classes)
        screening = most.chosen.screening
        if screening is not None and screening.enough is not None:
            shape = (screening.most_cells, domain.n_classes)
            check_allocation("the joint table of attributes that are chosen first", shape)
        sequences = [plan for plan in (most, announced) if plan.chosen.residuals]
        if sequences:  # steps take as much memory, whatever their budget
            self.plan_ = sequences[0]
            steps = self._forest(None, None, None).set_params(domain=domain).plan()
            if self.plan_ is most and (weigh := WEIGHING.get()) is not None:
                weigh(steps)
        if not most.chosen.residuals:
            check_before_release(self._tables(most, most.rest, None))

    def _tables(self, plan: PrivatePlan, budget: Budget, blocks: list[Block] | None) -> Plan:
        """Return the plan of a posterior forest: of given blocks, or of those it would choose."""
        return plan_of(
            kind_of("posterior"),
            plan.domain,
            BlockChoice("auto", blocks),
            Measuring(budget, self.neighboring),
            np.random.default_rng(0),
            n_records=plan.n_records,
        )

    def _fit_forest(
        self,
        chosen: tuple[int, ...] | None,
        bring: Callable[[], PrivateData],
        noise_state: Seed,
        ledger: PrivacyLedger | None,
    ) -> None:
        """Fit the forest that labels, over the chosen attributes or all of them."""
        self.screened_ = chosen
        self.forest_ = self._forest(chosen, noise_state, ledger)
        try:
            self.forest_._fit(bring)
        finally:
            if PAID in vars(self.forest_):
                keep_if_fit_fails(self)
        self.domain_, self.classes_ = self.forest_.domain_, self.forest_.classes_
        self.forest_.n_features_in_ = self.n_features_in_  # for intervals, which it gives
        self.posterior_ = self.forest_.posterior_
        report, blocks = self.forest_.privacy_report_, self.forest_.get_params().get("blocks")
        if self.plan_.choices:
            paid = replace(report, notes=(*report.notes, CHOICES_BEFORE))
            self.forest_.privacy_report_ = paid
        if blocks is not None:  # its first note says that they were given
            report = replace(report, notes=report.notes[1:])
        self.privacy_report_ = private_report(
            report,
            self.plan_.choices,
            self.plan_.budget,
            self.plan_.delta,
            [self.plan_.reason, *self._what_was_screened()],
        )

    def _what_was_screened(self) -> list[str]:
        """Say what the choices came to."""
        if self.plan_.chosen.screening is None:
            return []
        if self.screened_ is None:
            return ["screening: few attributes do not tell enough, all are used"]
        names = ", ".join(str(self.domain_.names[i]) for i in self.screened_)
        return [f"screening kept {names}"]

    def _forest(
        self, chosen: tuple[int, ...] | None, noise_state: Seed, ledger: PrivacyLedger | None
    ) -> Forest:
        """Return the forest of the plan, not yet fitted."""
        plan, budget = self.plan_, self.plan_.rest
        common: dict[str, Any] = {
            "domain": self.domain,
            budget.parameter: budget.amount,
            "n_records": self.n_records,
            "neighboring": self.neighboring,
            "noise": self.noise,
            "noise_state": noise_state,
            "ledger": ledger,
            "random_state": self.random_state,
        }
        if chosen is None and plan.chosen.residuals:
            forest = ResidualForestClassifier(**common)
            forest._even_records = plan.even_records
            return forest
        if chosen is None and plan.even_records is not None:
            chosen = tuple(range(plan.domain.n_attributes))
        blocks = None if chosen is None else self._blocks(chosen, budget)
        return PosteriorForestClassifier(blocks=blocks, **common)

    def _blocks(self, chosen: tuple[int, ...], budget: Budget) -> list[Block]:
        """Return the blocks of the chosen attributes: decided by public numbers and the choices."""
        domain, factor = (
            self.plan_.domain,
            squared_factor(self.neighboring, budget.norm, nonnegative=True),
        )
        design = choose_blocks(
            [domain.sizes[i] for i in chosen],
            domain.n_classes,
            budget,
            self.plan_.even_records or self.plan_.n_records,
            structure_generator(self.random_state),
            squared_factor=factor,
        )
        blocks: list[Block] = [tuple(chosen[i] for i in block) for block in design.blocks]
        try:
            for block in blocks:
                check_block(domain, block, domain.n_classes)
            check_memory(self._tables(self.plan_, budget, blocks).parts, domain.n_classes)
        except MemoryCapError:  # the budget is spent: one attribute a block was checked before
            return [(i,) for i in chosen if domain.sizes[i] > 1]
        return blocks
