"""Integer strategies small enough that their noise can be shared exactly.

Shares of discrete Laplace noise are drawn up to a scale of 4096, but a strategy of real
numbers is rounded at 2**30 units, and its noise is as large. Here it is rounded at few units
instead, where the rounding itself is searched: the loss is computed anew from the integers.
"""

from dataclasses import replace
from fractions import Fraction
from math import isqrt

import numpy as np

from mrf_matrix.mechanisms import Mechanism, calibrate, integer_form
from strategies import evaluate
from strategies.operators import Operator, RowSpaceError

LARGEST_RATIO = 1.05  # largest loss of a coarse strategy over that of the real one

LARGEST_SHARED_SCALE = 4096  # largest noise scale that shares are drawn for

TRIALS = 48  # factors that are tried, from the coarsest worth a try to the finest allowed


class CoarseStrategyError(ValueError):
    """No small integers are close enough to a strategy."""


def coarse_mechanism(finest: Mechanism, workload: object = None) -> tuple[Mechanism, float]:
    """Return a mechanism with noise of a small scale for pure DP, and what rounding cost.

    A strategy of small integers is taken as it is. Others are rounded at many factors, and the
    best is kept: of least ``Δ² ||W Ã⁺||²``, recomputed from the integers. The
    cost is the loss of the integers over that of the strategy; 1 where nothing was rounded.

    `finest`: as `calibrate` returns it; `workload` (q, n): what will be asked; needed where the
    strategy has to be rounded.

    Raises CoarseStrategyError if the best ratio is above 1.05, or there is nothing to judge
    roundings by.
    """
    if finest.law.scale <= LARGEST_SHARED_SCALE:
        return finest, 1.0
    if workload is None:
        raise CoarseStrategyError(
            f"{_small_budget_message(finest)} To have the strategy rounded to fewer "
            f"units, pass workload=, which roundings are judged by."
        )
    norms = _coarse_roundings(finest, workload)
    if not norms:
        raise CoarseStrategyError(_small_budget_message(finest))
    loss, best = min(norms, key=lambda pair: pair[0])
    ratio = loss / evaluate(workload, finest.rounded.recovery, norm="l1").loss
    if ratio > LARGEST_RATIO:
        raise CoarseStrategyError(
            f"integers with noise of scale up to {LARGEST_SHARED_SCALE} lose {ratio - 1:.1%} on "
            f"this strategy: expected at most {LARGEST_RATIO - 1:.0%}. Choose a strategy of small "
            f"integers (identity, marginals, workload_itself), a larger epsilon, or zCDP (rho=), "
            f"whose shares have any scale."
        )
    return best, ratio


def _coarse_roundings(finest: Mechanism, workload: object) -> list[tuple[float, Mechanism]]:
    """Return loss and mechanism of every rounding that answers the workload."""
    real = finest.rounded.recovery
    most = int(LARGEST_SHARED_SCALE * finest.budget.exact) // isqrt(finest.squared_factor)
    size = float(real.sensitivity("l1"))
    found = []
    for target in np.unique(np.geomspace(max(1, most / 64), max(1, most), TRIALS)):
        factor = float(target) / size
        matrix = integer_form(real, factor).matrix
        try:
            judged = evaluate(workload, matrix, norm="l1")
        except (RowSpaceError, ValueError):  # rounded to nothing, or to too little
            continue
        made = _with_integers(finest, matrix, factor)
        if made.law.scale <= LARGEST_SHARED_SCALE:
            found.append((judged.loss, made))
    return found


def _with_integers(finest: Mechanism, matrix: Operator, factor: float) -> Mechanism:
    """Return the mechanism of integers that were rounded here, not by `calibrate`."""
    made = calibrate(matrix, finest.budget, neighboring=finest.neighboring)
    scale = Fraction(factor) * finest.rounded.scale * made.rounded.scale
    return replace(made, rounded=replace(made.rounded, scale=scale), method=finest.method)


def _small_budget_message(finest: Mechanism) -> str:
    return (
        f"noise of scale {float(finest.law.scale):.4g} is needed, and shares are made for at most "
        f"{LARGEST_SHARED_SCALE}: expected a larger epsilon, a strategy of smaller integers, or "
        f"zCDP (rho=), whose shares have any scale."
    )
