"""Allocations and voting rules of each mode, the first of which is the default."""

from typing import Any

from mrf_matrix.base.shown import shown
from mrf_matrix.planning.plans.workloads import Mode

ALLOCATIONS = {
    "training": ("matrix", "per_tree", "disjoint"),
    "prediction": ("matrix",),
    "subsample": ("matrix", "per_query"),
    "posterior": ("matrix",),
}
VOTINGS = {
    "training": ("hard", "weight"),
    "prediction": ("weight",),
    "subsample": ("weight", "hard"),
    "posterior": ("posterior",),
}


def checked_voting(mode: Mode, voting: Any) -> str:
    """Return a mode's voting rule, its default for None, or refuse by name."""
    able = VOTINGS[mode]
    if voting is None:
        return able[0]
    if voting not in able:
        raise ValueError(
            f"voting={shown(voting)} in mode={shown(mode)}: expected "
            f"{' or '.join(map(repr, able))}."
        )
    return str(voting)


def checked_allocation(mode: Mode, allocation: Any) -> str:
    """Return a mode's allocation, or refuse by name."""
    if allocation not in ALLOCATIONS[mode]:
        raise ValueError(
            f"allocation={shown(allocation)} in mode={shown(mode)}: expected one of "
            f"{', '.join(map(repr, ALLOCATIONS[mode]))}."
        )
    return str(allocation)
