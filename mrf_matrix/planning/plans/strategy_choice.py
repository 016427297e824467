r"""Which strategy is measured: the user's, or the one of least expected error among those found.

`strategies.select` ranks by the loss, the error under continuous noise of variance ``2 Δ²/ε²``
(Laplace) or ``Δ²/2ρ`` (Gaussian). What is drawn is noise of integers, which has less: with
``t = Δ/ε`` discrete Laplace noise has variance :math:`1/(2\sinh^2(1/2t))`, at t = 1 it is 1.84 and
not 2. A strategy of small integers, such as the Identity, gains by that; one rounded to 2**30 units
does not. The two can change places, so planning compares them under the mechanism's own law.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mrf_matrix.base.steps import tell
from mrf_matrix.base.workers import computed
from mrf_matrix.mechanisms import Mechanism
from mrf_matrix.mechanisms.budgets.claim import squared_factor
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from mrf_matrix.mechanisms.measurement.mechanism import noise_for
from mrf_matrix.planning.plans.measuring import RowAim, check_strategy_names
from mrf_matrix.planning.plans.prices import DECOMPOSED
from strategies import Strategy, evaluate, select
from strategies.operators import MemoryCapError, Norm, Operator, as_operator
from strategies.problem.merging import can_merge, merge_columns

TIE = 1e-9
"""Relative difference of two expected errors that is rounding: the smaller loss is then kept."""

MOST_PATHS = 3000
"""Paths over cells that cannot be enumerated up to which they are measured as they are."""

PLAIN = RowAim()  # all rows count alike

Calibrated = Callable[[Strategy], Mechanism]


def least_expected_error(
    candidates: Sequence[Strategy], calibrated: Calibrated, workload: Operator, aim: RowAim = PLAIN
) -> tuple[Strategy, Mechanism]:
    """Return the strategy of least expected squared error, and its mechanism.

    The error is ``v ||W Ã⁺||_F²`` with Ã the strategy rounded to integers and v the exact variance
    of the mechanism's law. A candidate whose loss is too large to win under any law of its budget
    is neither rounded nor calibrated: ``v`` is at least ``Δ²`` times the variance of noise for a
    sensitivity of one unit, because a coarser law has the smaller variance for its scale. Nor is
    one after the first a candidate whose answers do not fit in memory: whether there is a plan does
    not depend on the budget.

    `candidates`: the first is kept where others are as good; `calibrated`: returns the mechanism
    that spends the budget on a strategy; `workload` (q, n): what is asked; `aim`: of its rows'
    errors.

    Raises RowSpaceError if the first does not determine the workload; MemoryCapError if it does not
    fit.
    """
    best, *others = candidates
    mechanism = calibrated(best)
    if not others or mechanism.budget.is_infinite:
        return best, mechanism
    unit = _unit_variance(mechanism)
    least = _expected_square(mechanism, workload, aim)
    for other in others:
        if unit * other.loss >= least:
            continue
        try:
            rival = calibrated(other)
            error = _expected_square(rival, workload, aim)
        except MemoryCapError:
            continue
        if error < least * (1 - TIE):
            best, mechanism, least = other, rival, error
    return best, mechanism


def _unit_variance(mechanism: Mechanism) -> float:
    """Return the variance of noise for integers of sensitivity one, which no strategy is below.

    0 for a law of one's own, of which no such thing is known.
    """
    if not mechanism.is_proved:
        return 0.0
    budget = mechanism.budget
    factor = squared_factor(mechanism.neighboring, budget.norm, nonnegative=True)
    return noise_for(1, factor, budget).variance


def _expected_square(mechanism: Mechanism, workload: Operator, aim: RowAim) -> float:
    """Return the expected squared error that is made small, in one class."""
    squares = recovered_squares(workload, mechanism.rounded.recovery)
    return mechanism.law.variance * aim.value(squares)


def is_auto(asked: object) -> bool:
    """Say whether the choice of a strategy is left to the search."""
    return isinstance(asked, str) and asked == "auto"


def chosen(
    found: Strategy, asked: object, calibrated: Calibrated, workload: Operator, aim: RowAim = PLAIN
) -> tuple[Strategy, Mechanism]:
    """Return the strategy to measure and its mechanism: the user's own word decides, else errors.

    `found`: what `selected` returned; `asked`: what the user asked for: only "auto" leaves a
    choice; `calibrated`, `workload`, `aim`: see `least_expected_error`.
    """
    others = found.alternatives if is_auto(asked) else ()
    return least_expected_error((found, *others), calibrated, workload, aim)


def selected(
    workload: Operator,
    strategy: object,
    norm: Norm,
    seed: int,
    time_limit: float,
    aim: RowAim = PLAIN,
) -> Strategy:
    """Select or evaluate one strategy in a given norm.

    Raises ValueError, TypeError if a strategy given by hand has other columns or belongs to the
    other norm.
    """
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


def _selected(task: tuple[Operator, object, Norm, int, float, RowAim]) -> Strategy:
    return selected(*task)


def one_strategy_each(strategy: object, count: int) -> list[Any]:
    """Return what was asked for each ensemble.

    Raises ValueError if there is not one for each.
    """
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


def method_within(workload: Operator, norm: Norm, time_limit: float) -> str:
    """Return "auto" where a portfolio's decompositions fit the time limit.

    Otherwise "identity": measure every group of cells with equal columns once, which needs no
    linear algebra, and which searches for Laplace noise seldom beat on workloads so large. For
    Gaussian noise it is far from the optimum, which one search finds: "auto" always.
    """
    if norm == "l2" or not can_merge(workload):
        return "auto"
    cells = merge_columns(workload).n_groups
    rank = min(workload.shape[0], cells)
    return "auto" if DECOMPOSED * 20.0 * rank**2 * cells <= time_limit else "identity"


def paths_themselves(workload: Operator) -> str:
    """Return the family that measures a forest's paths, where it serves; otherwise "auto".

    Under Gaussian noise no strategy gives any vote ``q Tᵀ T`` a smaller error than T: its squared
    sensitivity is the number of trees τ, the error of a vote at most τ, and no strategy is below
    ``max_j (q Tᵀ T)_j² = τ²`` (`strategies.bounds.lower_bound`).
    """
    served = can_merge(workload) or workload.shape[0] <= MOST_PATHS
    return "workload_itself" if served else "auto"


def choose_strategies(
    workloads: Sequence[Operator],
    strategy: object,
    calibrated: Sequence[Calibrated],
    norm: Norm,
    structure: np.random.Generator,
    *,
    time_limit: float = 8.0,
    n_jobs: int | None = None,
    aims: Sequence[RowAim] | None = None,
) -> list[tuple[Strategy, Mechanism]]:
    """Choose one strategy for each ensemble's workload, with its mechanism.

    Searches run in parallel if asked: only public things go to the workers, and no noise is drawn
    there. Of what "auto" finds, the least expected error under the mechanism's own law decides.

    `workloads`: one for each ensemble; `strategy`: a family's name for all, the strategy of the
    only ensemble, or one for each; `calibrated`: for each ensemble, returns the mechanism that
    spends its budget on a strategy; `norm` {"l1", "l2"}: column norm that the noise calls for;
    `structure`: gives every ensemble a seed of its own, so that results do not depend on `n_jobs`;
    `time_limit`: seconds for each selection; `n_jobs`: processes of joblib; `aims`: what is made
    small of each workload; its total where not given.

    Raises ValueError if there is not one strategy for each ensemble, or one belongs to the other
    norm.
    """
    check_strategy_names(strategy)
    given = one_strategy_each(strategy, len(workloads))
    small = [PLAIN] * len(workloads) if aims is None else aims
    seeds = structure.integers(2**63, size=len(workloads)).tolist()
    tasks = [
        (workload, one, norm, seed, time_limit, aim)
        for workload, one, seed, aim in zip(workloads, given, seeds, small, strict=True)
    ]
    each_takes = f"{time_limit:g} s" if len(given) == 1 else f"{time_limit:g} s each"
    tell(f"Choosing strategies (up to {each_takes})", 0, len(given))
    found = list(computed(_selected, tasks, n_jobs=n_jobs))
    tell("Rounding strategies, and checking that they answer")
    return [chosen(*each) for each in zip(found, given, calibrated, workloads, small, strict=True)]
