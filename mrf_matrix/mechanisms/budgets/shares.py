"""Shares of one budget for several strategies on the same records, in closed form.

Strategy k with loss L_k has the total error ``2 L_k/ε_k²`` under pure privacy and ``L_k/(2 ρ_k)``
under zero-concentrated privacy. With ``Σ ε_k``, or ``Σ ρ_k``, given,

    least sum of errors:      ε_k ∝ L_k^(1/3)      ρ_k ∝ L_k^(1/2)
    least largest error:      ε_k ∝ L_k^(1/2)      ρ_k ∝ L_k

by Lagrange's condition, and by making all errors equal.
"""

from collections.abc import Sequence
from math import inf
from typing import Literal

ShareRule = Literal["equal", "total", "max"]
SHARE_RULES: tuple[ShareRule, ...] = ("equal", "total", "max")
POWERS = {("total", "l1"): 1 / 3, ("max", "l1"): 1 / 2, ("total", "l2"): 1 / 2, ("max", "l2"): 1.0}


def budget_shares(
    losses: Sequence[float], norm: Literal["l1", "l2"], rule: ShareRule = "total"
) -> tuple[float, ...]:
    """Return each strategy's share of a budget, in all 1.

    Parameters
    ----------
    losses : sequence of float
        ``||A||² ||W A⁺||_F²`` of every strategy on its own workload, positive; for the worst row
        its share of it.
    norm : {"l1", "l2"}
        "l1" where ε is shared, "l2" where ρ is.
    rule : {"equal", "total", "max"}, default="total"
        "total" makes the sum of all errors least, "max" the largest strategy's error.

    Raises
    ------
    ValueError
        If there is no loss, one is not positive and finite, or the norm or rule is unknown.

    Examples
    --------
    >>> [round(share, 4) for share in budget_shares([1.0, 8.0], "l1")]
    [0.3333, 0.6667]
    >>> budget_shares([1.0, 3.0], "l2", "max")
    (0.25, 0.75)
    """
    if rule not in SHARE_RULES:
        raise ValueError(f"rule={rule!r}: expected 'equal', 'total' or 'max'.")
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm={norm!r}: expected 'l1' (epsilon) or 'l2' (rho).")
    values = [float(loss) for loss in losses]
    if not values or not all(0 < loss < inf for loss in values):
        raise ValueError(f"losses={losses!r}: expected at least one, each positive and finite.")
    if rule == "equal":
        return (1 / len(values),) * len(values)
    largest = max(values)  # powers of ratios neither overflow nor vanish
    powers = [(loss / largest) ** POWERS[rule, norm] for loss in values]
    return tuple(power / sum(powers) for power in powers)
