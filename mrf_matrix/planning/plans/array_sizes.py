"""Sizes of the arrays of a release to come. Nothing is allocated."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from mrf_matrix.planning.plans.part import PlanPart


class ArraySize(NamedTuple):
    """One array to come."""

    name: str
    shape: tuple[int, ...]
    nbytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {"name": self.name, "shape": list(self.shape), "bytes": self.nbytes}


def array_sizes(
    parts: Sequence[PlanPart],
    n_classes: int,
    n_records: int | None,
    n_queries: int,
    *,
    leaves: bool,
) -> tuple[ArraySize, ...]:
    """Return the large arrays of a release to come, largest first.

    Parameters
    ----------
    parts : sequence of PlanPart
    n_classes : int
    n_records : int or None
    n_queries : int
    leaves : bool
        Whether leaf values are released; else the queries' votes.
    """
    found = []
    for number, part in enumerate(parts, start=1):
        forest = part.forest
        width = sum(forest.domain.sizes)
        where = f" of ensemble {number}" if len(parts) > 1 else ""
        found += [
            _array(f"paths T{where}, packed", (forest.n_leaves, -(-width // 8)), 1),
            _array(f"noisy answers y{where}", (part.n_measurements, n_classes), 8),
        ]
        if leaves:
            found.append(_array(f"leaf values{where}", (forest.n_leaves, n_classes), 8))
        if order := max((terms for _, terms in part.fitted_tables), default=0):
            shape = (n_classes, order, order)
            found.append(_array("covariances of a block's effects, largest", shape, 8))
        if n_records is not None:
            cells = min(n_records, forest.domain.size)
            found.append(_array(f"occupied cells{where}, at most", (cells, n_classes), 8))
    if not leaves:
        found.append(_array("votes", (n_queries, n_classes), 8))
    return tuple(sorted(found, key=lambda one: -one.nbytes))


def _array(name: str, shape: tuple[int, ...], itemsize: int) -> ArraySize:
    return ArraySize(name, shape, prod(shape) * itemsize)
