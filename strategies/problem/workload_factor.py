"""A factor F of full row rank with ``WᵀW = FᵀF``: the workload in its own row space.

Losses and bounds depend on a workload through its Gram alone, so W may be replaced by any F with
the same Gram. F has as many rows as W has rank, which is often far below both sides of W: work
over r x r matrices instead of g x g ones.
"""

import numpy as np
from scipy import linalg

from strategies.operators import Array, Gram, Operator, fits
from strategies.operators.base.singular_values import singular_values

TALL = 4
"""W itself is factorised while it has no more rows than this many times its columns."""
NOISE = 4.0
"""Eigenvalues below this many units of rounding are zeros of the Gram."""


def is_explicit(merged: Operator) -> bool:
    """Tell whether the rows of a merged workload are at hand and few."""
    return not isinstance(merged, Gram) and not is_tall(merged.shape) and fits(merged.shape, 32)


def is_tall(shape: tuple[int, int]) -> bool:
    """Tell whether a matrix has so many rows that its Gram is factorised instead."""
    return shape[0] > TALL * shape[1]


def factor_of_rows(rows: Array) -> Array:
    """Return F (r, g) of a matrix W (q, g) from its singular values.

    Examples
    --------
    >>> factor = factor_of_rows(np.ones((5, 3)))
    >>> factor.shape, (factor.T @ factor).round(6).tolist()[0]
    ((1, 3), [5.0, 5.0, 5.0])
    """
    values, right = singular_values(rows)
    noise = NOISE * max(rows.shape) * np.finfo(float).eps * values[0]
    kept = values > noise
    return np.asarray(values[kept, None] * right[kept])


def factor_of_gram(gram: Array) -> Array:
    """Return F (r, g) of a Gram ``WᵀW`` (g, g) from its spectrum."""
    values, vectors = linalg.eigh(gram, driver="evd", check_finite=False)
    kept = values > NOISE * len(values) * np.finfo(float).eps * values[-1]
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)
