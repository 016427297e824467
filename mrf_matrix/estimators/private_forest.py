"""The forest to reach for: of the kind that one table of rules names, or of one that is named."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mrf_matrix.base.checks import checked_n_records, one_word
from mrf_matrix.base.work import tell
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.parameters import RandomState, parameters
from mrf_matrix.estimators.plan_fit import FitsByPlan, check_before_release
from mrf_matrix.estimators.private_kinds import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.estimators.record_source import (
    ALL,
    DataCapabilities,
    EncodedRecords,
    PrivateData,
    asked_data,
    hold_data,
)
from mrf_matrix.kinds.model import Kind
from mrf_matrix.kinds.private import PRIVATE, PrivateSteps, private_steps
from mrf_matrix.labels import LabelPlan
from mrf_matrix.labels.questions import Trees
from mrf_matrix.mechanisms.budget import claiming_budgets
from mrf_matrix.planning.auto import AutoPlan, auto_plan, plan_after_imbalance
from mrf_matrix.planning.auto.plan import forest_plan, plan_of_tables
from mrf_matrix.planning.auto.rules import OF_RESIDUALS, POOLS
from mrf_matrix.planning.plans.block_part import check_block, single_blocks
from mrf_matrix.planning.plans.cost import check_cost, weigh_whole
from mrf_matrix.residual.questions import check_scores
from strategies.operators import check_allocation

FACES: Mapping[str, type[FitsByPlan]] = {
    one._kind.name: one
    for one in (
        PosteriorForestClassifier,
        ResidualForestClassifier,
        LabelTreeClassifier,
        PooledForestClassifier,
    )
}
"""The classifier of each kind that may be named; it alone takes what only its kind can be told."""


@parameters
class PrivateForestClassifier(FitsByPlan):
    r"""Private forest of the kind that one table of rules names for the claim, without data.

    A posterior forest, a residual forest, attributes that are screened first, a tree of labels, or
    such a tree beside tables or residuals: domain, budget and public number of records decide.
    ``plan_.reason`` names the rule, what it was worth, and where other kinds begin. Of two classes
    and a public number of records one thing is asked first where N ε is 1000 or more, privately and
    for 1 to 4 % of the budget: how rare the rarer class is; what follows is planned for it. The
    whole budget is charged once, before the first release.

    Neighbouring codes of long ordered attributes are counted as one, see `Domain.coarser`: finer
    bins cost more in noise than they add in signal. ``domain_`` has the bins.

    Parameters
    ----------
    kind : {"auto", "tables", "additive", "labels", "pool"}
        "auto": as the table of rules says. "tables": `PosteriorForestClassifier`. "additive":
        `ResidualForestClassifier`. "labels": `LabelTreeClassifier`. "pool":
        `PooledForestClassifier`, a tree beside tables.
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by Laplace noise or by Gaussian noise under the
        zCDP budget that implies it: of one table for each attribute the smaller.
    n_records : int
        The number of records, where it is public. It says which kind pays; never read off the
        records.
    random_state : int, RandomState or None
        Seed of the public structure.

    Attributes
    ----------
    plan_ : AutoPlan, or the plan of the kind that was named
        The kind, and the rule that took it. ``plan_.announced`` is the plan before the classes
        were asked for, as `plan` gives it.
    forest_plan_ : Plan, ResidualPlan, PooledPlan or LabelPlan
        Of the forest that labels.
    screened_ : tuple of int or None
        Attributes that were chosen, where they were enough; None where all are used.
    posterior_ : ProductPosterior, ResidualPosterior, PooledPosterior or LabelPosterior
        What the forest's releases imply.

    Notes
    -----
    Where ``plan().balance`` stands first, that is what `fit` would take of even classes.

    See :doc:`/private` for the rules, and the measured ranks.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators import PrivateForestClassifier
    >>> car = load_dataset("car")
    >>> model = PrivateForestClassifier(car.domain, epsilon=1.0, n_records=1728, random_state=0)
    >>> print(model.plan())
    Plan of a private forest (posterior forest) for 1,728 records, at PureDP(epsilon=1) under ...
    Chosen: posterior forest, for 4 classes, 6 attributes, 1,728 records (signal N·ε = 1,728)...
    >>> model.fit(car.X, car.y).predict(car.X).shape
    (1728,)
    """

    kind: str = "auto"
    n_records: int | None = None
    random_state: RandomState = None

    @property
    def _named_face(self) -> FitsByPlan | None:
        """The classifier of the kind that is named; None where the rules take one."""
        if one_word("kind", self.kind, ("auto", *FACES)) == "auto":
            return None
        given = {name: one for name, one in self.get_params(deep=False).items() if name != "kind"}
        return FACES[self.kind](**given)

    @property
    def _kind(self) -> Kind:  # type: ignore[override]
        named = self._named_face
        return PRIVATE if named is None else named._kind

    def _plan(self, domain: Domain, serving: DataCapabilities = ALL) -> Any:
        if (named := self._named_face) is not None:
            return named._plan(domain)
        domain.required_target()
        tell("Planning the forest")
        known = checked_n_records(self.n_records)
        return auto_plan(
            domain,
            list(claiming_budgets(self.epsilon, self.delta, self.rho)),
            n_records=known,
            neighboring=self.neighboring,
            delta=float(self.delta),
            records=serving.records,
            tables=serving.tables,
            random_state=self.random_state,
        )

    @property
    def plan_(self) -> Any:
        """The kind, and the rule that took it; of a kind that was named, its plan."""
        return self._last.why if self._is_auto else self._model.plan

    @property
    def forest_plan_(self) -> Any:
        """The plan of the forest that labels."""
        return self._model.plan.settled_forest if self._is_auto else self._model.plan

    @property
    def screened_(self) -> tuple[int, ...] | None:
        """Attributes that were chosen, where they were enough."""
        steps: PrivateSteps = self._model.plan
        return steps.kept_attributes if self._is_auto else None

    @property
    def _is_auto(self) -> bool:
        return self._model.kind is PRIVATE

    @property
    def _last(self) -> Any:
        steps: PrivateSteps = self._model.plan
        return steps.followed if isinstance(steps.followed, PrivateSteps) else steps

    def _plan_of(self, given: Any, early: Any) -> Any:
        if self._named_face is not None:
            return super()._plan_of(given, early)
        serving = DataCapabilities.of(given, checked_n_records(self.n_records))
        if early is None or serving != ALL:  # what such data cannot give is no candidate
            early = self._plan(given.domain, serving)
        return private_steps(early, self.random_state)

    def _plan_data(self, given: Any, plan: Any) -> Any:
        """Return what is asked of, once all that may follow would fit: **private**."""
        if not isinstance(plan, PrivateSteps):
            return super()._plan_data(given, plan)
        data: PrivateData = given.coarsen(plan.domain)
        why = plan.why
        assert why is not None
        with weigh_whole(lambda: plan):
            if why.takes_records or why.makes_choices:
                data = hold_data(data, records=why.takes_records)
            if not why.makes_choices:
                check_before_release(plan.forest)
                return asked_data(plan.forest, data)
            tables = data.tables([])
            most = why if why.balance is None else plan_after_imbalance(why, why.n_records or 0)
            check_memory_of_followers(why, most, tables, self.random_state)
            return tables


# What may follow choices -------------------------------------------------------------------------


def check_memory_of_followers(
    announced: AutoPlan, most: AutoPlan, data: Any, random_state: Any
) -> None:
    """Refuse forests that could not be fitted, before anything is spent.

    `announced`: before any choice; `most`: what follows where classes are even, whose signal is
    weighed; `data`: **Private**; `random_state`: of the structure of what follows.
    """
    tell("Checking memory")
    domain = most.domain
    widest = int(np.argmax(domain.sizes))
    check_block(domain, (widest,), domain.n_classes)  # the least that may be kept
    screening = most.screening
    if screening is not None and screening.enough is not None:
        shape = (screening.most_cells, domain.n_classes)
        check_allocation("the joint table of attributes that are chosen first", shape)
    if announced.balance is not None:  # tables follow, whatever they are for even classes
        alone = single_blocks(domain, range(domain.n_attributes))
        check_cost(plan_of_tables(announced, announced.budget_after_balance, alone))
    of_records = [plan for plan in (most, announced) if plan.measured in OF_RESIDUALS]
    if of_records:  # steps take as much memory, whatever their budget
        if isinstance(data, EncodedRecords):
            check_scores(len(data.labels), domain.n_classes)
        check_cost(forest_plan(of_records[0], None, random_state))
    if most.measured == "tables":
        check_before_release(plan_of_tables(most, most.rest, None))
    if most.measured in POOLS:
        pool: Any = forest_plan(most, None, random_state)
        check_before_release(pool)
        check_first_draw(pool.tree, data)


def check_first_draw(plan: LabelPlan, data: Any) -> None:
    """Refuse a tree whose first draw would not fit in memory: it comes after what is paid for."""
    Trees(plan, plan.rounds[0]).scores(data)
