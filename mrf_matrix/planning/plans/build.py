"""`build_plan`: the one place where a design becomes strategies and mechanisms.

Nothing else grows public ensembles, shares a budget among them, chooses strategies, weighs queries
or calibrates noise. `plan`, `tune` and every measuring estimator call it, so that what is promised
is what is released.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Codes
from mrf_matrix.base.checks import short_repr
from mrf_matrix.base.work import run_tasks, tell
from mrf_matrix.compilation import prediction_workload, query_matrix
from mrf_matrix.compilation.matrices import distinct_queries, public_queries
from mrf_matrix.domain import Domain
from mrf_matrix.error.expected_errors import least_expected_error
from mrf_matrix.forests import Forest
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.forests.random_trees import EnsembleDesign, Use
from mrf_matrix.mechanisms import Mechanism
from mrf_matrix.mechanisms.budget import budget_shares
from mrf_matrix.planning.plans.block_design import BlockChoice
from mrf_matrix.planning.plans.block_part import plan_blocks
from mrf_matrix.planning.plans.cost import check_forest
from mrf_matrix.planning.plans.part import Budget, PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import (
    AUTO,
    VOTES,
    MeasurementSpec,
    PlanKind,
    RowObjective,
    is_auto,
)
from strategies import Strategy, evaluate, select
from strategies.operators import Norm, Operator, as_operator
from strategies.problem.merging import can_merge

Design = EnsembleDesign | BlockChoice
Calibrated = Callable[[Strategy], Mechanism]

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
        if kind.chooses_strategies:
            budgeted = zip(workloads, budgets, strict=True)
            calibrated = [
                partial(kind.mechanism, workload=one, budget=budget, neighboring=relation, law=law)
                for one, budget in budgeted
            ]
            found = self._strategies(measuring, workloads, aims, calibrated, choices)
        else:
            baselines = [
                kind.baseline(workload, budget, relation, law)
                for workload, budget in zip(workloads, budgets, strict=True)
            ]
            workloads = [measured for measured, _ in baselines]
            found = [(None, mechanism) for _, mechanism in baselines]
        return tuple(
            PlanPart(ensemble, workload, *each, aim=one)
            for ensemble, workload, each, one in zip(
                self.ensembles, workloads, found, aims, strict=True
            )
        )

    def _strategies(
        self,
        measuring: MeasurementSpec,
        workloads: Sequence[Operator],
        aims: Sequence[RowObjective],
        calibrated: Sequence[Calibrated],
        choices: np.random.Generator,
    ) -> list[tuple[Strategy | None, Mechanism]]:
        """Return each ensemble's strategy, with the mechanism that spends its budget on it."""
        kind, norm = self.kind, measuring.budget.norm
        limit = kind.time_limit if measuring.time_limit == AUTO else float(measuring.time_limit)
        asked = [one.workload or workload for one, workload in zip(aims, workloads, strict=True)]
        given = strategies_of_ensembles(measuring.strategy, len(asked))
        given = [
            kind.own_strategy(ensemble, norm) or one
            for ensemble, one in zip(self.ensembles, given, strict=True)
        ]
        for_votes = kind.releases_leaves and measuring.optimise_for == AUTO
        if norm == "l2" and for_votes and all(one.is_plain for one in aims):
            given = [
                path_method(workload) if is_auto(one) else one
                for one, workload in zip(given, asked, strict=True)
            ]
        return choose_strategies(
            asked, given, aims, calibrated, norm, choices, limit, measuring.n_jobs
        )

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


# Strategies --------------------------------------------------------------------------------------

MOST_PATHS = 3000
"""Paths over cells that cannot be enumerated up to which they are measured as they are."""


def select_strategy(task: tuple[Operator, object, Norm, int, float, RowObjective]) -> Strategy:
    """Select or evaluate the strategy that was asked for a workload, in the norm of its noise.

    Raises ValueError, TypeError if a strategy given by hand has other columns or belongs to the
    other norm.
    """
    workload, strategy, norm, seed, time_limit, aim = task
    if isinstance(strategy, str):
        return select(workload, norm, strategy, seed, time_limit=time_limit, **aim.words)
    if not isinstance(strategy, Strategy):
        matrix = given_matrix(strategy, workload.shape[1])
        return evaluate(workload, matrix, norm, **aim.words)
    if strategy.norm != norm:
        raise ValueError(
            f"strategy was selected for norm={strategy.norm!r}, but the budget calls for "
            f"{norm!r}: select it again with norm={norm!r}."
        )
    if aim.is_plain and strategy.objective == "total":
        return strategy
    stated = evaluate(workload, strategy.matrix, norm, **aim.words)
    return replace(stated, method=strategy.method)


def strategies_of_ensembles(strategy: object, count: int) -> list[Any]:
    """Return what was asked for each ensemble."""
    given = list(strategy) if isinstance(strategy, list | tuple) else [strategy]
    if len(given) == 1 and (isinstance(given[0], str) or count == 1):
        given *= count
    if len(given) != count:
        raise ValueError(
            f"strategy holds {len(given)} for {count} ensembles: expected a family's name, or one "
            f"strategy for each ensemble."
        )
    return given


def given_matrix(strategy: object, cells: int) -> Operator:
    """Return a strategy matrix that was given by hand, over so many cells.

    Raises TypeError, ValueError if it is no matrix of finite numbers, or has another number of
    columns.
    """
    matrix = as_operator(strategy, "strategy")
    if matrix.shape[1] != cells:
        raise ValueError(
            f"strategy has {matrix.shape[1]} columns: expected {cells}, one for each cell of what "
            f"is measured."
        )
    return matrix


def path_method(workload: Operator) -> str:
    """Return the family that measures a forest's paths, where it serves; otherwise "auto".

    Under Gaussian noise no strategy gives any vote ``q Tᵀ T`` a smaller error than T: its squared
    sensitivity is the number of trees τ, the error of a vote at most τ, and no strategy is below
    ``max_j (q Tᵀ T)_j² = τ²`` (`strategies.bounds.lower_bound`).
    """
    served = can_merge(workload) or workload.shape[0] <= MOST_PATHS
    return "workload_itself" if served else "auto"


def choose_strategies(
    workloads: Sequence[Operator],
    asked: Sequence[object],
    aims: Sequence[RowObjective],
    calibrated: Sequence[Calibrated],
    norm: Norm,
    structure: np.random.Generator,
    time_limit: float,
    n_jobs: int | None,
) -> list[tuple[Strategy | None, Mechanism]]:
    """Choose one strategy for each ensemble's workload, with its mechanism.

    Searches run in parallel if asked: only public things go to the workers, and no noise is drawn
    there. Of what "auto" finds, the least expected error under the mechanism's own law decides.

    `asked`: a family's name or a strategy; `aims`: what is made small of each workload;
    `calibrated`: returns the mechanism that spends an ensemble's budget on a strategy; `structure`:
    gives each a seed of its own, so that results do not depend on `n_jobs`, processes of joblib.

    Raises ValueError, TypeError: see `select_strategy`.
    """
    seeds = structure.integers(2**63, size=len(workloads)).tolist()
    tasks = [
        (workload, one, norm, seed, time_limit, aim)
        for workload, one, seed, aim in zip(workloads, asked, seeds, aims, strict=True)
    ]
    each_takes = f"{time_limit:g} s" if len(tasks) == 1 else f"{time_limit:g} s each"
    tell(f"Choosing strategies (up to {each_takes})", 0, len(tasks))
    found = list(run_tasks(select_strategy, tasks, n_jobs=n_jobs))
    tell("Rounding strategies, and checking that they answer")
    chosen: list[tuple[Strategy | None, Mechanism]] = []
    for best, word, spend, workload, aim in zip(
        found, asked, calibrated, workloads, aims, strict=True
    ):
        others = best.alternatives if is_auto(word) else ()  # a user's own word decides
        if others:
            chosen.append(least_expected_error((best, *others), spend, workload, aim.value))
        else:
            chosen.append((best, spend(best)))
    return chosen
