"""Flip probabilities as a user asks a plan for them: which answers, and leads in what unit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.planning.plans.flips import flips
from mrf_matrix.planning.plans.signal import records_behind

if TYPE_CHECKING:
    from mrf_matrix.planning.plans.plan import Plan

Array = NDArray[np.float64]


def flips_at_lead(
    plan: "Plan",
    margin: float | None,
    share: float | None,
    of: str,
    rivals: int,
    rows: Sequence[int] | None,
) -> Array:
    """Return the flip probabilities that `Plan.flip_probabilities` states, shape (r,).

    Raises
    ------
    ValueError
        If not exactly one of margin and share is given, it is negative, or `of` is unknown.
    """
    if of not in ("answer", "vote"):
        raise ValueError(f"of={of!r}: expected 'answer' or 'vote'.")
    leaves = of == "answer" and plan.releases_leaves
    variances = plan.row_variances if leaves else plan.vote_variances
    chosen = np.arange(len(variances)) if rows is None else np.asarray(rows, dtype=np.intp)
    if (margin is None) == (share is None):
        raise ValueError(f"margin={margin!r} and share={share!r}: expected exactly one of the two.")
    if margin is None:
        margins = float(share or 0.0) * records_behind(plan, leaves)[chosen]
    else:
        margins = np.full(len(chosen), float(margin))
    if not (margins >= 0).all():
        raise ValueError("margin: expected a number of records of at least 0.")
    found = flips(plan, chosen, margins[:, None], variances[chosen], rivals, leaves)
    return found[:, 0]
