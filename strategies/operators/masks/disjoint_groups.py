"""Groups of pairwise disjoint rows, such as the leaves of each tree: checked, and measured."""

from collections.abc import Callable, Sequence

import numpy as np

from strategies.operators.base.arrays import Integers, Longs
from strategies.operators.base.validation import plain_array
from strategies.operators.masks.attribute_sets import members
from strategies.operators.masks.khatri_rao import exact_products
from strategies.operators.masks.packed_masks import Masks, overlapping_pair


def numbered_groups(groups: Integers, n_rows: int) -> Longs:
    """Return one group number from 0 on for every row, or refuse by name."""
    groups = plain_array("groups", groups)
    if groups.shape != (n_rows,) or groups.dtype.kind not in "iu":
        raise ValueError(
            f"groups has shape {groups.shape} and dtype {groups.dtype}: expected one integer "
            f"for each of the {n_rows} rows."
        )
    numbers = np.unique(groups, return_inverse=True)[1].ravel()
    return np.asarray(numbers, dtype=np.int64)


def check_disjoint(numbers: Longs, masks_of: Callable[[Longs], Sequence[Masks]]) -> None:
    """Refuse groups in which two rows share a cell.

    `numbers`: (o,), the group of every row, as `numbered_groups` returns it; `masks_of`: returns
    the masks of some rows, one for each attribute; called for one group at a time.
    """
    for rows in members(numbers):
        pair = overlapping_pair(masks_of(rows))
        if pair is not None:
            raise ValueError(
                f"groups: rows {rows[pair[0]]} and {rows[pair[1]]} of one group share a "
                f"cell, expected the rows of a group to be pairwise disjoint."
            )


def cover_everything(groups: Longs, widths: Longs, n_cells: int) -> bool:
    """Tell whether the disjoint rows of every group cover the whole domain, by exact counts.

    `groups`: (o,), the group of every row; `widths`: (o, d), codes in every row's mask per
    attribute; `n_cells`: cells of the domain.
    """
    if not len(groups):
        return False
    sums = np.zeros(int(groups.max()) + 1, dtype=object)
    np.add.at(sums, groups, exact_products(list(widths.T)).astype(object))
    return all(total == n_cells for total in sums[np.unique(groups)])
