"""Numbers rounded to integers, and what is known of the matrix that they make."""

from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Longs, Values
from strategies.operators import Operator


@dataclass(frozen=True, eq=False)
class IntegerForm:
    """An integer matrix close to ``factor * A``."""

    matrix: Operator  # its entries are exact integers
    is_exact: bool  # whether it is ``factor * A`` itself
    is_tilted: bool = False
    """Whether its row space may be slightly off that of A, because an explicit matrix without full
    column rank was rounded entry by entry."""
    is_lossy: bool = False
    """Whether a weight or a row was rounded to zero, so that it is no longer measured."""


def rounded_product(values: Values, factor: float) -> tuple[Longs, bool]:
    """Return ``round(factor * values)`` and whether nothing was lost."""
    product = factor * values
    nearest = np.rint(product)
    return nearest.astype(np.int64), bool(np.array_equal(nearest, product))


def weights_lost(weights: object, values: Longs) -> bool:
    """Tell whether a weight was rounded to zero."""
    return bool(((np.asarray(weights) != 0) & (values == 0)).any())
