"""A factor F of full row rank with ``WᵀW = FᵀF``: the workload in its own row space.

Losses and bounds depend on a workload through its Gram alone, so W may be replaced by any F with
the same Gram. F has as many rows as W has rank, which is often far below both sides of W: work
over r x r matrices instead of g x g ones.
"""

import numpy as np
from scipy import linalg

from strategies.operators import Array, Gram, Operator, fits
from strategies.operators.base.pseudo_inverse import WELL_CONDITIONED
from strategies.operators.base.qr import check_finite, singular_values

TALL = 4  # W itself is factorised while it has no more rows than this many times its columns
NOISE = 4.0  # eigenvalues below this many units of rounding are zeros of the Gram


def is_explicit(merged: Operator) -> bool:
    """Tell whether the rows of a merged workload are at hand and few."""
    return not isinstance(merged, Gram) and not is_tall(merged.shape) and fits(merged.shape, 32)


def is_tall(shape: tuple[int, int]) -> bool:
    """Tell whether a matrix has so many rows that its Gram is factorised instead."""
    return shape[0] > TALL * shape[1]


def factor_of_rows(rows: Array) -> Array:
    """Return F (r, g) of a matrix W (q, g), its rows orthogonal and the longest first.

    The smaller Gram, ``W Wᵀ = U Λ Uᵀ`` or ``WᵀW = V Λ Vᵀ``, gives ``F = Uᵀ W`` or the rows
    ``||W v|| vᵀ`` of V where what it keeps is well conditioned and nothing else is left of W, by
    the measure that singular values are held to. They are the fallback.

    >>> factor = factor_of_rows(np.ones((5, 3)))
    >>> factor.shape, (factor.T @ factor).round(6).tolist()[0]
    ((1, 3), [5.0, 5.0, 5.0])
    """
    check_finite(rows)
    factor = _well_conditioned(rows)
    if factor is not None:
        return factor
    values, right = singular_values(rows)
    kept = values > _noise(rows, values[0])
    return np.asarray(values[kept, None] * right[kept])


def _well_conditioned(rows: Array) -> Array | None:
    """Return F from the smaller Gram of W, None where its spectrum does not tell the rank."""
    wide = rows.shape[0] <= rows.shape[1]
    gram = rows @ rows.T if wide else rows.T @ rows
    values, vectors = linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    kept = values > WELL_CONDITIONED * values[-1]
    basis = vectors[:, kept][:, ::-1]
    inside = basis.T @ rows if wide else rows @ basis
    if not kept.all():  # what is left out may be faint without being rounding
        rest = rows - (basis @ inside if wide else inside @ basis.T)
        if np.linalg.norm(rest) > _noise(rows, np.sqrt(values[-1])):
            return None
    return inside if wide else np.asarray(np.linalg.norm(inside, axis=0)[:, None] * basis.T)


def _noise(rows: Array, largest: float) -> float:
    """Return the singular value up to which a matrix with this largest one holds rounding."""
    return float(NOISE * max(rows.shape) * np.finfo(float).eps * largest)


def factor_of_gram(gram: Array) -> Array:
    """Return F (r, g) of a Gram ``WᵀW`` (g, g) from its spectrum."""
    values, vectors = linalg.eigh(gram, driver="evd", check_finite=False)
    kept = values > NOISE * len(values) * np.finfo(float).eps * values[-1]
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)
