"""What no strategies could be below: expected errors beside their certified lower bound."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.planning.plans.part import PlanPart
from strategies import Strategy


def check_strategies(parts: Sequence[PlanPart], mode: str, allocation: str) -> None:
    """Refuse parts that have no strategy.

    Raises
    ------
    ValueError
        It names the mode and the allocation.
    """
    if any(part.strategy is None for part in parts):
        raise ValueError(
            f"mode={mode!r} with allocation={allocation!r} measures its answers themselves, by no "
            f"strategy, so no bound stands beside it: expected another mode than 'posterior', and "
            f"allocation='matrix'."
        )


def leaf_bound(parts: Sequence[PlanPart]) -> float:
    """Return the certified lower bound of the expected squared error of all leaves, in a class."""
    return float(
        sum(
            part.mechanism.law.variance * part.row_squares.sum() * bound_share(part.strategy)
            for part in parts
        )
    )


def vote_ratio(parts: Sequence[PlanPart], multiplicity: NDArray[np.int64]) -> float:
    """Return the total error of votes over its certified lower bound.

    Parameters
    ----------
    parts : sequence of PlanPart
    multiplicity : ndarray of int, shape (b,)
        How often each query is asked.
    """
    totals = [float(part.row_variances @ multiplicity) for part in parts]
    bound = float(np.dot(totals, [bound_share(part.strategy) for part in parts]))
    return sum(totals) / bound if bound > 0 else float("inf")


def bound_share(strategy: Strategy | None) -> float:
    """Return a strategy's certified lower bound as a share of its loss."""
    if strategy is None or strategy.loss == 0:
        return 0.0
    return min(1.0, strategy.lower_bound / strategy.loss)
