"""Strategies side by side, with errors known before any private record is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, nan, sqrt
from typing import Any

from mrf_matrix.compilation import path_matrix
from mrf_matrix.error import direct_error, expected_error
from mrf_matrix.forests import Forest
from mrf_matrix.planning.kinds.levels import RULES, level_strategy
from strategies import Strategy, select
from strategies.operators import MemoryCapError, RowSpaceError

FAMILIES = {"each tree, least squares": "workload_itself", "identity: each cell": "identity"}


@dataclass(frozen=True)
class StrategyRow:
    """One strategy for the training workload ``W = T``."""

    name: str  # what it is called on screen
    # sensitivity, loss: ``‖A‖₁`` and ``‖A‖₁² ‖W A⁺‖²_F``
    sensitivity: float
    loss: float
    lower_bound: float  # certified lower bound on the loss of every strategy for the workload
    # expected root-mean-square error of one leaf value at each ε, in records per class
    rms_per_leaf: dict[float, float]
    note: str | None = None  # why the family cannot serve the workload; its figures are NaN then

    @property
    def certified_ratio(self) -> float:
        """Loss over lower bound: the strategy is within this factor of optimal."""
        return self.loss / self.lower_bound if self.lower_bound > 0 else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values, ready for JSON."""
        return {
            "name": self.name,
            "sensitivity": _known(self.sensitivity),
            "loss": _known(self.loss),
            "lower_bound": self.lower_bound,
            "rms_per_leaf": [
                {"epsilon": epsilon, "rms": _known(rms)}
                for epsilon, rms in self.rms_per_leaf.items()
            ],
            "note": self.note,
        }


def _known(figure: float) -> float | None:
    """Return a figure for JSON, which has no NaN."""
    return figure if isfinite(figure) else None


def strategy_rows(
    forest: Forest,
    selected: Strategy,
    epsilons: Sequence[float],
    neighboring: str,
    delta: float = 0.0,
) -> tuple[StrategyRow, ...]:
    """Return the baselines and the selected strategy for a forest's leaves, without data.

    `forest`: its decision-path matrix T is the workload; `selected`: what was selected for it;
    `epsilons`: budgets to give errors at; `neighboring`: the neighbouring relation; `delta`: of an
    (ε, δ) claim by Gaussian noise, or 0.
    """
    workload, norm = path_matrix(forest), selected.norm
    baselines: dict[str, Callable[[], Strategy]] = {
        name: partial(select, workload, norm=norm, method=family)
        for name, family in FAMILIES.items()
    }
    for rule in RULES:
        baselines[f"{rule} levels"] = partial(level_strategy, forest, norm, rule)
    budget: dict[str, Any] = {
        "epsilon": epsilons[0], "delta": delta, "neighboring": neighboring
    }  # fmt: skip
    sensitivity = workload.sensitivity(norm)
    direct = direct_error(workload, **budget)
    measured = (sensitivity, sensitivity**2 * workload.shape[0], direct)
    errors = {"each tree, as measured": measured}
    refused: dict[str, str] = {}
    for name, found in baselines.items():
        try:
            strategy = found()
        except (RowSpaceError, MemoryCapError) as refusal:  # anything else is a bug
            refused[name] = " ".join(str(refusal).split())
            continue
        errors[name] = (strategy.sensitivity, strategy.loss, expected_error(strategy, **budget))
    errors[f"selected: {selected.method}"] = (
        selected.sensitivity,
        selected.loss,
        expected_error(selected, **budget),
    )
    served = [
        StrategyRow(
            name=name,
            sensitivity=size,
            loss=loss,
            lower_bound=selected.lower_bound,
            rms_per_leaf={
                epsilon: sqrt(error.at(epsilon=epsilon, delta=delta).total / workload.shape[0])
                for epsilon in epsilons
            },
        )
        for name, (size, loss, error) in errors.items()
    ]
    nothing = dict.fromkeys(epsilons, nan)
    return (
        *served,
        *(
            StrategyRow(name, nan, nan, selected.lower_bound, nothing, note)
            for name, note in refused.items()
        ),
    )
