"""One workload, one strategy, one measurement: what every mode of every forest consists of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from mrf_matrix.base.shown import shown
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
from mrf_matrix.mechanisms.measurement.containment import PROBES
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from mrf_matrix.planning.plans.strategy_choice import (
    Calibrated,
    chosen,
    one_strategy_each,
    selected,
)
from strategies import Strategy, families
from strategies.operators import Norm, Operator, check_allocation

Array = NDArray[np.float64]


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

    def check_memory(self, n_classes: int) -> None:
        """Refuse, before anything is spent, a release or answers that would not fit in memory.

        Raises
        ------
        MemoryCapError
            By public numbers: rows of the strategy and of the workload, and classes.
        """
        self.mechanism.check_memory(n_classes)
        check_allocation("answers to the workload", (self.workload.shape[0], n_classes + PROBES))

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
    calibrated: Sequence[Calibrated],
    norm: Norm,
    structure: np.random.Generator,
    *,
    time_limit: float = 8.0,
    n_jobs: int | None = None,
) -> list[tuple[Strategy, Mechanism]]:
    """Choose one strategy for each ensemble's workload, with its mechanism.

    Searches run in parallel if asked: only public things go to the workers, and no noise is drawn
    there. Of what "auto" finds, the least expected error under the mechanism's own law decides.

    Parameters
    ----------
    workloads : sequence of Operator
        One for each ensemble; rows scaled by how often they are asked.
    strategy : str, Strategy, Operator, ndarray, scipy sparse, or a list of them
        A family's name for all, the strategy of the only ensemble, or one for each.
    calibrated : sequence of callable
        For each ensemble, returns the mechanism that spends its budget on a strategy.
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
    given = one_strategy_each(strategy, len(workloads))
    seeds = structure.integers(2**63, size=len(workloads)).tolist()
    tasks = (
        delayed(selected)(workload, one, norm, seed, time_limit)
        for workload, one, seed in zip(workloads, given, seeds, strict=True)
    )
    found: list[Strategy] = Parallel(n_jobs=n_jobs)(tasks)
    return [chosen(*each) for each in zip(found, given, calibrated, workloads, strict=True)]


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
                f"strategy={shown(one)}: expected 'auto' or one of {', '.join(families())}, or a "
                f"strategy matrix."
            )


def total_budget(budgets: Sequence[PureDP | ZCDP]) -> PureDP | ZCDP:
    """Return the sum of budgets of one kind: what several measurements cost together."""
    total = budgets[0]
    for budget in budgets[1:]:
        total = total + budget  # type: ignore[operator]
    return total
