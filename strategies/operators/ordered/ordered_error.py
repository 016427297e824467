"""The error of a dense strategy over ordered cells, by inverting one triangle.

With ``AᵀA = RᵀR`` and ``G = FᵀF``, ``tr(G (AᵀA)⁻¹) = ||F R⁻¹||_F² = ||(R F⁻¹)⁻¹||_F²``, and
``F⁻¹`` has two diagonals: a third of the operations of solving with a Gram, and a sum of squares.
"""

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array
from strategies.operators.base.pseudo_inverse import Factors
from strategies.operators.ordered.ordered_gram import OrderedGram


def ordered_error(factors: Factors, gram: OrderedGram) -> float:
    """Return ``tr(G (AᵀA)⁺)`` for a workload over ordered cells, containment checked."""
    if factors.basis is not None or factors.triangle.ndim == 1:
        return factors.gram_trace(gram.to_dense())
    scaled: Array = factors.triangle / gram.high
    scaled[:, 1:] -= scaled[:, :-1].copy()
    scaled /= np.sqrt(gram.steps)
    inverse, info = linalg.lapack.dtrtri(scaled, lower=0, overwrite_c=1)
    if info != 0:
        raise linalg.LinAlgError("a triangle is singular: expected a strategy of full rank.")
    return float(np.vdot(inverse, inverse))
