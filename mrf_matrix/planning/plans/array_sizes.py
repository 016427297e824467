"""Sizes of the arrays of a release to come. Nothing is allocated."""

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from mrf_matrix.planning.blocks.block_measurement import n_effects
from mrf_matrix.planning.plans.planned_blocks import PlannedBlocks

if TYPE_CHECKING:
    from mrf_matrix.planning.plans.plan import Plan


class ArraySize(NamedTuple):
    """One array to come."""

    name: str
    shape: tuple[int, ...]
    nbytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {"name": self.name, "shape": list(self.shape), "bytes": self.nbytes}


def array_sizes(plan: "Plan") -> tuple[ArraySize, ...]:
    """Return the large arrays of the release that a plan describes, largest first."""
    k = plan.n_classes
    found = []
    for number, part in enumerate(plan.parts, start=1):
        forest = part.ensemble.forest
        width = sum(forest.domain.sizes)
        where = f" of ensemble {number}" if len(plan.parts) > 1 else ""
        found += [
            _array(f"paths T{where}, packed", (forest.n_leaves, -(-width // 8)), 1),
            _array(f"noisy answers y{where}", (part.n_measurements, k), 8),
        ]
        if plan.releases_leaves:
            found.append(_array(f"leaf values{where}", (forest.n_leaves, k), 8))
        if isinstance(part, PlannedBlocks):
            sizes = forest.domain.sizes
            order = max(n_effects([sizes[i] for i in block], k) for block in part.blocks)
            found.append(_array("covariance of a block's effects, largest", (order, order), 8))
        if plan.n_records is not None:
            cells = min(plan.n_records, forest.domain.size)
            found.append(_array(f"occupied cells{where}, at most", (cells, k), 8))
    if not plan.releases_leaves:
        found.append(_array("votes", (len(plan.queries), k), 8))
    return tuple(sorted(found, key=lambda one: -one.nbytes))


def _array(name: str, shape: tuple[int, ...], itemsize: int) -> ArraySize:
    return ArraySize(name, shape, prod(shape) * itemsize)
