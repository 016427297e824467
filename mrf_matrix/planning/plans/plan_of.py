"""`plan_of`: the one place where a design becomes strategies and mechanisms.

Nothing else grows public ensembles, shares a budget among them, chooses strategies, weighs queries
or calibrates noise. `plan`, `tune` and every measuring estimator call it, so that what is promised
is what is released.
"""

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.shown import shown
from mrf_matrix.base.steps import tell
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.ensembles import Ensemble, EnsembleDesign, Use
from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP
from mrf_matrix.mechanisms.budgets.neighboring import checked_neighboring
from mrf_matrix.planning.blocks.block_part import BlockChoice, block_part, single_attributes
from mrf_matrix.planning.kinds.blocks import NaiveBayes
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.queries import Codes, distinct_queries, public_queries
from mrf_matrix.planning.plans.strategy_choice import (
    check_strategy_names,
    choose_strategies,
    is_auto,
    method_within,
    one_strategy_each,
)
from strategies.search.select import checked_time_limit

Budget = PureDP | ZCDP
AUTO = "auto"
"""What is left to the kind of plan."""

Design = EnsembleDesign | BlockChoice


@dataclass(frozen=True, eq=False)
class Measuring:
    """How a plan spends: what is not the forests' design.

    Attributes
    ----------
    budget : PureDP or ZCDP
        Of the whole plan.
    neighboring : {"add_remove", "replace_one"}
    budget_shares : sequence of float or None
        Of the ensembles; equal where None.
    strategy : str, Strategy, Operator, ndarray, scipy sparse or list, default="auto"
        A family's name, or one strategy for each ensemble.
    time_limit : float or "auto", default="auto"
        Seconds of the search for each strategy; "auto" for what the kind usually takes.
    n_jobs : int, optional
        Processes that search.
    """

    budget: Budget
    neighboring: Any = "add_remove"
    budget_shares: Any = None
    strategy: Any = "auto"
    time_limit: Any = AUTO
    n_jobs: int | None = None

    def check(self) -> None:
        """Refuse what no plan could spend, whatever its forests.

        Raises
        ------
        ValueError
            It names the parameter.
        """
        checked_neighboring(self.neighboring)
        if self.time_limit != AUTO:
            checked_time_limit(self.time_limit)
        check_strategy_names(self.strategy)

    def shares(self, count: int) -> tuple[Budget, ...]:
        """Return the budget of each ensemble.

        Raises
        ------
        BudgetError
            If there is not one share for each ensemble, or one is not positive.
        """
        if self.budget_shares is None:
            return self.budget.split(count)
        given = self.budget_shares
        if isinstance(given, str) or np.ndim(given) != 1 or len(given) != count:
            raise BudgetError(
                f"budget_shares={shown(given)} for {count} ensembles: expected one positive "
                f"number for each."
            )
        return self.budget.split(list(given))


@dataclass(frozen=True, eq=False)
class PublicForests:
    """Forests grown without data, of which batches of queries are planned.

    Attributes
    ----------
    kind : Kind
    domain : Domain
    ensembles : tuple of Ensemble
    selection : Generator or int
        Seeds the strategies: what is left of the structure's randomness, or a number that does
        with that of each batch.
    """

    kind: Kind
    domain: Domain
    ensembles: tuple[Ensemble, ...]
    selection: np.random.Generator | int

    @classmethod
    def grow(
        cls,
        kind: Kind,
        domain: Domain,
        design: EnsembleDesign,
        structure: np.random.Generator,
        use: Use,
    ) -> "PublicForests":
        """Grow the forests of a design; see `EnsembleDesign.grow`."""
        check_forests(design.forest)
        tell("Growing the trees")
        selection = int(structure.integers(2**63)) if kind.answers_queries else structure
        return cls(kind, domain, design.grow(domain, structure, use=use), selection)

    def choices(self, batch: int) -> np.random.Generator:
        """Return what seeds the strategies of a batch."""
        if isinstance(self.selection, np.random.Generator):
            return self.selection
        return np.random.default_rng([self.selection, batch])

    def plan(
        self,
        measuring: Measuring,
        codes: Codes,
        *,
        n_classes: int,
        n_records: int | None = None,
        batch: int = 0,
    ) -> Plan:
        """Plan the answers of these forests, without data.

        Parameters
        ----------
        measuring : Measuring
        codes : ndarray of int, shape (b, d)
            Public queries: those that are asked, or that stand for those to come.
        n_classes : int
        n_records : int, optional
            Public number of records.
        batch : int, default=0
            Number of the batch.
        """
        started = perf_counter()
        queries, often = distinct_queries(self.ensembles, codes)
        parts = self._parts(measuring, queries, often, self.choices(batch))
        seconds = perf_counter() - started
        return Plan(self.domain, self.kind, parts, queries, often, n_classes, n_records, seconds)

    def _parts(
        self,
        measuring: Measuring,
        queries: Codes,
        often: NDArray[np.int64],
        choices: np.random.Generator,
    ) -> tuple[PlanPart, ...]:
        """Choose each ensemble's strategy and calibrate its noise."""
        kind, relation = self.kind, measuring.neighboring
        workloads = [kind.workload(ensemble, queries) for ensemble in self.ensembles]
        budgets = measuring.shares(len(workloads))
        if not kind.chooses_strategies:
            return tuple(
                PlanPart(ensemble, measured, None, mechanism)
                for ensemble, (measured, mechanism) in zip(
                    self.ensembles,
                    (
                        kind.baseline(workload, budget, relation)
                        for workload, budget in zip(workloads, budgets, strict=True)
                    ),
                    strict=True,
                )
            )
        limit = kind.time_limit if measuring.time_limit == AUTO else measuring.time_limit
        asked = [kind.weighed(workload, often) for workload in workloads]
        norm = measuring.budget.norm
        strategy = [
            kind.own_strategy(ensemble, norm) or one
            for ensemble, one in zip(
                self.ensembles, one_strategy_each(measuring.strategy, len(asked)), strict=True
            )
        ]
        if kind.answers_queries:
            strategy = [
                method_within(workload, norm, limit) if is_auto(one) else one
                for one, workload in zip(strategy, asked, strict=True)
            ]
        found = choose_strategies(
            asked,
            strategy,
            [
                partial(kind.mechanism, workload=workload, budget=budget, neighboring=relation)
                for workload, budget in zip(workloads, budgets, strict=True)
            ],
            norm,
            choices,
            time_limit=limit,
            n_jobs=measuring.n_jobs,
        )
        return tuple(
            PlanPart(ensemble, workload, *each)
            for ensemble, workload, each in zip(self.ensembles, workloads, found, strict=True)
        )


def check_forests(forest: Any) -> None:
    """Refuse what can neither be taken as trees nor grow any."""
    if forest is None:
        return
    for one in forest if isinstance(forest, list | tuple) else [forest]:
        if not isinstance(one, Forest) and not hasattr(one, "grow"):
            raise TypeError(
                f"forest={shown(one)} is of type {type(one).__name__}: expected a Forest, a path "
                f"source such as RandomTrees, or a list of one for each ensemble."
            )


def plan_of(
    kind: Kind,
    domain: Domain,
    design: Design,
    measuring: Measuring,
    structure: np.random.Generator,
    *,
    queries: Any = None,
    n_classes: int | None = None,
    n_records: int | None = None,
    use: Use = "plan",
) -> Plan:
    """Return the plan of a design, without data.

    Parameters
    ----------
    kind : Kind
    domain : Domain
    design : EnsembleDesign or BlockChoice
        Forests of random trees, or tables of blocks.
    measuring : Measuring
    structure : Generator
        Draws the public structure, and seeds the strategies.
    queries : int or ndarray of int, shape (b, d), optional
        See `plan`.
    n_classes : int, optional
        That of the domain where it is not given.
    n_records : int, optional
        The public number of records.
    use : {"plan", "release", "study"}
        Which structures may be taken, see `EnsembleDesign.grow`.

    Raises
    ------
    ValueError, TypeError
        If an argument is impossible; the message says what to change.
    """
    measuring.check()
    classes = domain.n_classes if n_classes is None else n_classes
    codes = public_queries(domain, queries)
    if isinstance(design, EnsembleDesign):
        forests = PublicForests.grow(kind, domain, design, structure, use)
        return forests.plan(measuring, codes, n_classes=classes, n_records=n_records)
    started = perf_counter()
    budget, relation = measuring.budget, measuring.neighboring
    if isinstance(kind, NaiveBayes):
        part = single_attributes(domain, budget, relation)
    else:
        part = block_part(
            domain, budget, structure, design, n_classes=classes, n_records=n_records,
            neighboring=relation,
        )  # fmt: skip
    made = plan_of_part(kind, domain, part, n_records, codes, n_classes=classes)
    return replace(made, select_seconds=perf_counter() - started)


def plan_of_part(
    kind: Kind,
    domain: Domain,
    part: PlanPart,
    n_records: int | None = None,
    queries: Any = None,
    *,
    n_classes: int | None = None,
) -> Plan:
    """Return the plan of one measurement that is decided already; parameters as `plan_of`."""
    codes, often = distinct_queries([part.ensemble], public_queries(domain, queries))
    classes = domain.n_classes if n_classes is None else n_classes
    return Plan(domain, kind, (part,), codes, often, classes, n_records, 0.0)
