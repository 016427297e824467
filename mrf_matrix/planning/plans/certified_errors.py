"""What no strategies could be below: errors and budgets beside their certified bounds."""

from collections.abc import Sequence
from math import sqrt

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms.budgets.claim import squared_factor
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.plans.part import PlanPart


def check_certified(kind: Kind, parts: Sequence[PlanPart]) -> None:
    """Refuse parts beside which no bound stands.

    Raises ValueError: it names the mode and the allocation, or the law.
    """
    if any(part.strategy is None for part in parts):
        raise ValueError(
            f"mode={kind.name!r} with allocation={kind.allocation!r} measures its answers "
            f"themselves, by no strategy, so no bound stands beside it: expected another mode than "
            f"'posterior', and allocation='matrix'."
        )
    for part in parts:
        if not part.mechanism.is_proved:
            raise ValueError(
                f"law={type(part.mechanism.law).__name__}: no bound is known for noise of one's "
                f"own. Expected discrete Laplace or Gaussian noise, law=None."
            )


def least_budget(parts: Sequence[PlanPart], target_rms: Array | None) -> float:
    """Return ε or ρ below which no strategies keep the targets, under continuous noise.

    Each ensemble has to keep them by itself, so the bounds of all add up.

    Raises ValueError if the plan has no targets.
    """
    if target_rms is None:
        raise ValueError("the plan has no targets: expected plan(..., target_rms=).")
    least = float(target_rms.min())
    total = 0.0
    for part in parts:
        mechanism, strategy = part.mechanism, part.strategy
        norm = mechanism.budget.norm
        factor = squared_factor(mechanism.neighboring, norm, nonnegative=True)
        bound = factor * (0.0 if strategy is None else strategy.lower_bound) / least**2
        total += sqrt(2 * bound) if norm == "l1" else bound / 2
    return total
