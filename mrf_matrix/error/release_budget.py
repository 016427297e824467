"""The smallest budget at which a release, with its exact discrete noise, keeps its targets.

`strategies.smallest_budget` speaks of continuous noise. What is measured is a strategy rounded to
integers under integer noise, whose exact variance falls as the budget grows: the least budget is
found by bisection and rounded up, so that the targets hold for what is really released.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, log10

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, plain_floats
from mrf_matrix.error.expected_error import expected_error
from mrf_matrix.mechanisms import ZCDP, PureDP

DIGITS = 6  # significant decimal digits of the budget


def smallest_release_budget(
    strategy: object,
    workload: object,
    targets: ArrayLike,
    *,
    norm: str = "l1",
    neighboring: str = "add_remove",
) -> PureDP | ZCDP:
    """Return the least budget at which every row's error meets its target, rounded up.

    Parameters
    ----------
    strategy : Strategy, Operator, ndarray or scipy sparse, of shape (m, n)
        What would be measured.
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    targets : float or array-like of shape (q,)
        Largest root mean squared error of every row, in records, under the exact discrete noise.
    norm : {"l1", "l2"}, default="l1"
        Whose noise: "l1" for ε, "l2" for ρ.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"

    Returns
    -------
    PureDP or ZCDP
        With 6 significant digits, never below the least.

    Raises
    ------
    RowSpaceError
        If the strategy does not determine the workload.
    ValueError
        If a target is not positive, none is finite, or the norm is unknown.

    Examples
    --------
    >>> smallest_release_budget(np.eye(2), np.eye(2), targets=10.0)
    PureDP(epsilon=0.141304)
    """
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm={norm!r}: expected 'l1' (epsilon) or 'l2' (rho).")
    kind = PureDP if norm == "l1" else ZCDP
    name = kind.parameter
    error = expected_error(strategy, workload, neighboring=neighboring, **{name: 1})  # type: ignore[call-overload]
    limits = checked_targets(targets, len(error.row_rms))

    def holds(amount: Fraction) -> bool:
        return bool((error.at(**{name: amount}).row_rms <= limits).all())

    return kind(least_amount(holds))


def least_amount(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return the least ε or ρ at which something holds that holds at all larger ones, rounded up.

    >>> float(least_amount(lambda amount: amount >= Fraction(1, 3)))
    0.333334
    """
    low = high = 1.0
    while not holds(Fraction(high)):
        low, high = high, 2 * high  # ends: noise vanishes at the smallest scale of a law
    while low == high or holds(Fraction(low)):
        low, high = low / 2, low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(Fraction(middle)) else (middle, high)
    return rounded_up(high)


def rounded_up(value: float, digits: int = DIGITS) -> Fraction:
    """Return the least number of some significant decimal digits that is not below a value.

    >>> rounded_up(0.12345678)
    Fraction(123457, 1000000)
    """
    unit = Fraction(10) ** (floor(log10(value)) + 1 - digits)
    return ceil(Fraction(value) / unit) * unit


LEAST_TARGET = 1e-12
"""Records: answers are whole numbers plus noise, which is none long before."""


def checked_targets(targets: ArrayLike, rows: int, name: str = "targets") -> Array:
    """Return a positive target for every row, or refuse by name."""
    limits = plain_floats(name, targets)
    if limits.ndim == 0:
        limits = np.full(rows, float(limits))
    if limits.shape != (rows,):
        raise ValueError(f"{name} has shape {limits.shape}: expected one for each of {rows} rows.")
    if not (limits >= LEAST_TARGET).all() or not np.isfinite(limits).any():
        raise ValueError(
            f"{name}: expected positive root mean squared errors, none below {LEAST_TARGET:g}, at "
            f"least one of them finite."
        )
    return limits
