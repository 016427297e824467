"""Are rows of masks pairwise disjoint? Quick for a tree's leaves, bounded for anything else.

The leaves of a tree fall apart along the attribute that its root splits: no leaf on one side shares
a code with one on the other. So rows are split along any attribute where they fall apart, again
and again, and only what is left is compared pair by pair.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from strategies.operator_files.reader import OperatorFileError
from strategies.operators import RowKronecker
from strategies.operators.base.arrays import Longs
from strategies.operators.masks.packed_masks import Masks, overlapping_pair

SMALL = 2**24  # multiply-adds of a comparison pair by pair that is not worth avoiding


def check_disjoint(
    operator: RowKronecker, groups: Longs, spend: Callable[[int, str], None]
) -> None:
    """Refuse groups whose rows share a cell.

    `groups`: (o,); `spend`: told of the work before it is done; raises where it is too much.

    Raises OperatorFileError if two rows of a group share a cell.
    """
    masks, width = operator.all_masks(), sum(operator.sizes)
    alive = np.logical_and.reduce([mask.any(axis=1) for mask in masks])  # others hold no cell
    rows = np.flatnonzero(alive)
    pending = split(rows, groups[rows])
    while pending:
        rows = pending.pop()
        parts = [mask[rows] for mask in masks]
        pairs = len(rows) ** 2 * width
        if pairs > SMALL:
            spend(len(rows) * width, "row_kronecker: groups")
            labels = separation(parts)
            if labels is not None:
                pending.extend(split(rows, labels))
                continue
        spend(pairs, "row_kronecker: groups")
        found = overlapping_pair(parts)
        if found is not None:
            raise OperatorFileError(
                f"row_kronecker: groups: rows {rows[found[0]]} and {rows[found[1]]} of one group "
                f"share a cell, expected disjoint rows."
            )


def split(rows: Longs, labels: Longs) -> list[Longs]:
    """Return the rows of each label that are not alone."""
    if not len(rows):
        return []
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return [part for part in np.split(rows[order], starts) if len(part) > 1]


def separation(parts: Sequence[Masks]) -> Longs | None:
    """Return labels such that rows of different labels share no code of one attribute, or None."""
    for part in parts:
        if part.all(axis=1).any():
            continue
        size = part.shape[1]
        row, code = np.nonzero(part)
        sides = (np.ones(len(row), dtype=np.int8), (row + size, code))
        graph = sparse.coo_array(sides, shape=(size + len(part),) * 2)
        labels = connected_components(graph, directed=False)[1][size:].astype(np.int64)
        if (labels != labels[0]).any():
            return labels
    return None
