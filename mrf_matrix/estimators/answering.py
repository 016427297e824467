"""One workload, one strategy, one measurement: what every mode of every forest consists of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    LeafCounts,
    Mechanism,
    PureDP,
    Release,
    measure,
    reconstruct,
)
from mrf_matrix.mechanisms.least_squares import recovered_squares
from strategies import Strategy, evaluate, families, select
from strategies.merging import can_merge, merge_columns
from strategies.operators import Norm, Operator, as_operator

Array = NDArray[np.float64]

DECOMPOSED = 2.5e9
"""Operations a second of the reference machine in singular value decompositions, of which the
families of a portfolio make several."""


@dataclass(frozen=True, eq=False)
class Answering:
    """How one workload will be answered, decided without data.

    Attributes
    ----------
    workload : Operator of shape (q, n)
        What is asked of the private table.
    strategy : Strategy or None
        What is measured in its place; None where the answers are measured themselves.
    mechanism : Mechanism
        The integer matrix that is measured, its noise, budget and neighbouring relation.
    """

    workload: Operator
    strategy: Strategy | None
    mechanism: Mechanism

    def release(
        self, counts: CellCounts | LeafCounts, *, noise: str, noise_state: Any = None
    ) -> tuple[Release, Array]:
        """Measure a private table once; return the release and the answers, shape (q, k)."""
        release = measure(self.mechanism, counts, noise=noise, random_state=noise_state)
        return release, self.answers(release)

    def answers(self, release: Release) -> Array:
        """Return the workload's answers from a release: post-processing."""
        return release.values if self.strategy is None else reconstruct(release, self.workload)

    @property
    def row_variances(self) -> Array:
        """Expected squared error of every answer in each class, known without data, (q,)."""
        rounded, variance = self.mechanism.rounded, self.mechanism.law.variance
        if self.strategy is None:
            return np.full(self.workload.shape[0], variance / float(rounded.scale) ** 2)
        return variance * recovered_squares(self.workload, rounded.recovery)


def choose_strategies(
    workloads: Sequence[Operator],
    strategy: Any,
    norm: Norm,
    structure: np.random.Generator,
    *,
    time_limit: float = 8.0,
    n_jobs: int | None = None,
) -> list[Strategy]:
    """Select or evaluate one strategy for each ensemble's workload, in parallel if asked.

    Only public things go to the workers, and no noise is drawn there.

    Parameters
    ----------
    workloads : sequence of Operator
        One for each ensemble.
    strategy : str, Strategy, Operator, ndarray, scipy sparse, or a list of them
        A family's name for all, the strategy of the only ensemble, or one for each.
    norm : {"l1", "l2"}
        Column norm that the noise calls for.
    structure : Generator
        Gives every ensemble a seed of its own, so that results do not depend on `n_jobs`.
    time_limit : float
        Seconds for each selection.
    n_jobs : int, optional
        Processes of joblib.

    Raises
    ------
    ValueError
        If there is not one strategy for each ensemble, or one belongs to the other norm.
    """
    check_strategy_names(strategy)
    given = list(strategy) if isinstance(strategy, list | tuple) else [strategy]
    if len(given) == 1 and (isinstance(given[0], str) or len(workloads) == 1):
        given *= len(workloads)
    if len(given) != len(workloads):
        raise ValueError(
            f"strategy holds {len(given)} for {len(workloads)} ensembles: expected a family's "
            f"name, or one strategy for each ensemble."
        )
    seeds = structure.integers(2**63, size=len(workloads)).tolist()
    tasks = (
        delayed(_chosen)(workload, one, norm, seed, time_limit)
        for workload, one, seed in zip(workloads, given, seeds, strict=True)
    )
    chosen: list[Strategy] = Parallel(n_jobs=n_jobs)(tasks)
    return chosen


def check_strategy_names(strategy: Any) -> None:
    """Refuse names that are no strategy family's.

    Parameters
    ----------
    strategy : str, Strategy, Operator, ndarray, scipy sparse, or a list of them

    Raises
    ------
    ValueError
        If there is one.
    """
    for one in strategy if isinstance(strategy, list | tuple) else [strategy]:
        if isinstance(one, str) and one not in ("auto", *families()):
            raise ValueError(
                f"strategy={one!r}: expected 'auto' or one of {', '.join(families())}, or a "
                f"strategy matrix."
            )


def given_matrix(strategy: Any, cells: int) -> Operator:
    """Return a strategy matrix that was given by hand, over so many cells.

    Raises
    ------
    TypeError, ValueError
        If it is no matrix of finite numbers, or has another number of columns.
    """
    matrix = as_operator(strategy, "strategy")
    if matrix.shape[1] != cells:
        raise ValueError(
            f"strategy has {matrix.shape[1]} columns: expected {cells}, one for each cell of what "
            f"is measured."
        )
    return matrix


def _chosen(
    workload: Operator, strategy: Any, norm: Norm, seed: int, time_limit: float
) -> Strategy:
    """Select or evaluate one strategy in a given norm."""
    if isinstance(strategy, str):
        return select(workload, norm, strategy, seed, time_limit=time_limit)
    if not isinstance(strategy, Strategy):
        return evaluate(workload, given_matrix(strategy, workload.shape[1]), norm=norm)
    if strategy.norm != norm:
        raise ValueError(
            f"strategy was selected for norm={strategy.norm!r}, but the budget calls for "
            f"{norm!r}: select it again with norm={norm!r}."
        )
    return strategy


def method_within(workload: Operator, time_limit: float) -> str:
    """Return "auto" where a portfolio's decompositions fit the time limit.

    Otherwise "identity": measure every group of cells with equal columns once, which needs no
    linear algebra, and which searches seldom beat on workloads so large.
    """
    if not can_merge(workload):
        return "auto"
    cells = merge_columns(workload).n_groups
    rank = min(workload.shape[0], cells)
    return "auto" if 20.0 * rank**2 * cells <= DECOMPOSED * time_limit else "identity"


def total_budget(budgets: Sequence[PureDP | ZCDP]) -> PureDP | ZCDP:
    """Return the sum of budgets of one kind: what several measurements cost together."""
    total = budgets[0]
    for budget in budgets[1:]:
        total = total + budget  # type: ignore[operator]
    return total
