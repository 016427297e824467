"""`build_plan`: the one place where a design becomes strategies and mechanisms.

Nothing else grows public ensembles, shares a budget among them, chooses strategies, weighs queries
or calibrates noise. `plan`, `tune` and every measuring estimator call it, so that what is promised
is what is released.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Codes
from mrf_matrix.base.checks import short_repr
from mrf_matrix.base.work import tell
from mrf_matrix.compilation import prediction_workload, query_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.ensembles import (
    Ensemble,
    EnsembleDesign,
    Use,
    distinct_queries,
    public_queries,
)
from mrf_matrix.mechanisms.budget import budget_shares
from mrf_matrix.planning.plans.block_design import BlockChoice
from mrf_matrix.planning.plans.block_part import plan_blocks
from mrf_matrix.planning.plans.cost import check_forest
from mrf_matrix.planning.plans.part import Budget, PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import PlanKind
from mrf_matrix.planning.plans.strategy_choice import (
    AUTO,
    VOTES,
    MeasurementSpec,
    RowObjective,
    choose_strategies,
    is_auto,
    path_method,
    strategies_of_ensembles,
)
from strategies.operators import Operator

Design = EnsembleDesign | BlockChoice

MOST_VOTING_CELLS = 4096
"""Cells up to which strategies are chosen for the votes of all: a matrix of 128 MB."""


MOST_BITS = 1000
"""Bits of the cells that an ensemble may see: sums of a row's cells are floats."""


def check_cells(n_attributes: int, cells: int, remedy: str, most_bits: int = MOST_BITS) -> None:
    """Refuse a forest over more cells than errors of paths can be told of."""
    bits = cells.bit_length() - 1
    if bits > most_bits:
        raise ValueError(
            f"a forest sees {n_attributes} attributes of about 2^{bits} cells: expected at most "
            f"2^{most_bits}. {remedy}"
        )


@dataclass(frozen=True, eq=False)
class PublicForests:
    """Forests grown without data, of which batches of queries are planned."""

    kind: PlanKind
    domain: Domain
    ensembles: tuple[Ensemble, ...]
    # seeds the strategies: what is left of the structure's randomness, or a number that does with
    # that of each batch
    selection: np.random.Generator | int

    @classmethod
    def grow(
        cls,
        kind: PlanKind,
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
        if isinstance(self.selection, np.random.Generator):
            return self.selection
        return np.random.default_rng([self.selection, batch])

    def plan(
        self,
        measuring: MeasurementSpec,
        codes: Codes,
        *,
        n_classes: int,
        n_records: int | None = None,
        batch: int = 0,
    ) -> Plan:
        """Plan the answers of these forests, without data.

        `codes` (b, d): public queries: those that are asked, or that stand for those to come;
        `n_records`: public number of records; `batch`: number of the batch.
        """
        started = perf_counter()
        queries, often, which = distinct_queries(self.ensembles, codes)
        leaves = self.kind.releases_leaves
        rows = sum(one.forest.n_leaves for one in self.ensembles) if leaves else len(codes)
        aim = measuring.aim(rows)
        if not leaves:
            aim = aim.merge_equal_rows(which, often)
        parts = share_by_rule(
            self._parts(measuring, queries, aim, self.choices(batch)),
            measuring.budget,
            measuring.budget_shares,
        )
        seconds = perf_counter() - started
        return Plan(
            self.domain, self.kind, parts, queries, often, n_classes, n_records, seconds, aim,
            measuring.delta,
        )  # fmt: skip

    def _parts(
        self,
        measuring: MeasurementSpec,
        queries: Codes,
        aim: RowObjective,
        choices: np.random.Generator,
    ) -> tuple[PlanPart, ...]:
        kind, relation, law = self.kind, measuring.neighboring, measuring.law
        for ensemble in self.ensembles:
            check_forest(ensemble.forest)
        workloads = [kind.workload(ensemble, queries) for ensemble in self.ensembles]
        for ensemble, workload in zip(self.ensembles, workloads, strict=True):
            check_cells(
                ensemble.forest.domain.n_attributes,
                workload.shape[1],
                "Give a smaller max_features=, or kind='tables', which measures tables of few "
                "attributes.",
            )
        budgets = measuring.shares(len(workloads))
        aims = self._aims(measuring, aim, workloads)
        if not kind.chooses_strategies:
            baselines = [
                kind.baseline(workload, budget, relation, law)
                for workload, budget in zip(workloads, budgets, strict=True)
            ]
            return tuple(
                PlanPart(ensemble, measured, None, mechanism, aim=one)
                for ensemble, (measured, mechanism), one in zip(
                    self.ensembles, baselines, aims, strict=True
                )
            )
        limit = kind.time_limit if measuring.time_limit == AUTO else float(measuring.time_limit)
        asked = [one.workload or workload for one, workload in zip(aims, workloads, strict=True)]
        norm = measuring.budget.norm
        strategy = [
            kind.own_strategy(ensemble, norm) or one
            for ensemble, one in zip(
                self.ensembles, strategies_of_ensembles(measuring.strategy, len(asked)), strict=True
            )
        ]
        if norm == "l2" and self._votes_count(measuring, aims):
            strategy = [
                path_method(workload) if is_auto(one) else one
                for one, workload in zip(strategy, asked, strict=True)
            ]
        found = choose_strategies(
            asked,
            strategy,
            [
                partial(
                    kind.mechanism, workload=workload, budget=budget, neighboring=relation, law=law
                )
                for workload, budget in zip(workloads, budgets, strict=True)
            ],
            norm,
            choices,
            time_limit=limit,
            n_jobs=measuring.n_jobs,
            aims=aims,
        )
        return tuple(
            PlanPart(ensemble, workload, *each, aim=one)
            for ensemble, workload, each, one in zip(
                self.ensembles, workloads, found, aims, strict=True
            )
        )

    def _votes_count(self, measuring: MeasurementSpec, aims: Sequence[RowObjective]) -> bool:
        """Tell whether leaves are released for the votes that will be made of them."""
        leaves = self.kind.releases_leaves and measuring.optimise_for == AUTO
        return leaves and all(one.is_plain for one in aims)

    def _aims(
        self, measuring: MeasurementSpec, aim: RowObjective, workloads: Sequence[Operator]
    ) -> list[RowObjective]:
        """Return what each ensemble's strategy makes small."""
        if measuring.optimise_for == VOTES:
            return [votes_aim(self.kind, ensemble) for ensemble in self.ensembles]
        if not self.kind.releases_leaves:
            return [aim] * len(workloads)
        ends = np.cumsum([workload.shape[0] for workload in workloads]).tolist()
        return [aim.slice_rows(*ends) for ends in zip([0, *ends], ends, strict=False)]


def votes_aim(kind: PlanKind, ensemble: Ensemble) -> RowObjective:
    """Return the sum of the squared errors of the weight votes of all cells of an ensemble.

    Raises ValueError if the kind has no leaves of which votes are made later, or the cells are too
    many.
    """
    domain = ensemble.forest.domain
    if not (kind.releases_leaves and kind.chooses_strategies):
        raise ValueError(
            f"optimise_for='votes' with kind={kind.name!r}, allocation={kind.allocation!r}: "
            f"expected it where strategies are chosen for leaves, with kind='matrix'."
        )
    if domain.size > MOST_VOTING_CELLS:
        raise ValueError(
            f"optimise_for='votes' over {domain.size} cells: expected at most {MOST_VOTING_CELLS}, "
            f"for it asks for the votes of all. Take max_features, or optimise_for='leaves'."
        )
    cells = np.indices(domain.sizes).reshape(domain.n_attributes, -1).T
    votes = prediction_workload(ensemble.forest, query_matrix(cells, domain))
    return RowObjective(workload=votes)


def check_forests(forest: object) -> None:
    """Refuse what can neither be taken as trees nor grow any."""
    if forest is None:
        return
    for one in forest if isinstance(forest, list | tuple) else [forest]:
        if not isinstance(one, Forest) and not hasattr(one, "grow"):
            raise TypeError(
                f"forest={short_repr(one)} is of type {type(one).__name__}: expected a Forest, a "
                f"path source such as RandomTrees, or a list of one for each ensemble."
            )


def build_plan(
    kind: PlanKind,
    domain: Domain,
    design: Design,
    measuring: MeasurementSpec,
    structure: np.random.Generator,
    *,
    queries: ArrayLike | None = None,
    n_classes: int | None = None,
    n_records: int | None = None,
    use: Use = "plan",
) -> Plan:
    """Return the plan of a design, without data.

    `design`: forests of random trees, or tables of blocks; `structure`: draws the public structure,
    and seeds the strategies; `queries`: int or ndarray of int (b, d), see `plan`; `n_classes`: that
    of the domain where it is not given; `n_records`: the public number of records; `use`: which
    structures may be taken, see `EnsembleDesign.grow`.
    """
    measuring.check()
    classes = domain.n_classes if n_classes is None else n_classes
    codes = public_queries(domain, queries)
    if isinstance(design, EnsembleDesign):
        forests = PublicForests.grow(kind, domain, design, structure, use)
        return forests.plan(measuring, codes, n_classes=classes, n_records=n_records)
    return plan_blocks(
        kind, domain, measuring.budget, structure, design, neighboring=measuring.neighboring,
        n_records=n_records, n_classes=classes, queries=codes, delta=measuring.delta,
    )  # fmt: skip


def share_by_rule(
    parts: tuple[PlanPart, ...], budget: Budget, rule: object
) -> tuple[PlanPart, ...]:
    """Return the parts with the budget shared by a rule's name, if it is one but "equal"."""
    if not isinstance(rule, str) or rule == "equal" or len(parts) == 1:
        return parts
    losses = [part.loss for part in parts]
    shares = budget_shares(losses, budget.norm, rule)  # type: ignore[arg-type]
    budgets: tuple[Budget, ...] = budget.split(shares)
    return tuple(part.at(one) for part, one in zip(parts, budgets, strict=True))
