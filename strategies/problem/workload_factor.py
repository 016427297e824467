"""A factor F of full row rank with ``WᵀW = FᵀF``: the workload in its own row space.

Losses and bounds depend on a workload through its Gram alone, so W may be replaced by any F with
the same Gram. F has as many rows as W has rank, which is often far below both sides of W: work
over r x r matrices instead of g x g ones.
"""

from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg

from strategies.operators import Array, Gram, Operator, fits
from strategies.operators.base.singular_values import singular_values
from strategies.problem.problem import Problem

TALL = 4
"""W itself is factorised while it has no more rows than this many times its columns."""
NOISE = 4.0
"""Eigenvalues below this many units of rounding are zeros of the Gram."""

_known: WeakKeyDictionary[Problem, Array] = WeakKeyDictionary()
"""Factors of live problems: every family of a portfolio asks for the same one."""


def factor_of(problem: Problem) -> Array | None:
    """Return F (r, g) over the merged cells of a problem, None when they cannot be enumerated.

    The singular values of W itself where W is explicit and not too tall, since a Gram squares
    the condition; the spectrum of the Gram otherwise.
    """
    if problem not in _known:
        factor = _factor(problem)
        if factor is None:
            return None
        factor.flags.writeable = False
        _known[problem] = factor
    return _known[problem]


def _factor(problem: Problem) -> Array | None:
    merged = problem.merged_workload
    if merged is None or not fits((merged.shape[1],) * 2, 32):
        return None
    if explicit(merged):
        return factor_of_rows(merged.to_dense())
    gram = problem.gram
    return None if gram is None else factor_of_gram(gram)


def explicit(merged: Operator) -> bool:
    """Tell whether the rows of a merged workload are at hand and few."""
    rows, cells = merged.shape
    return not isinstance(merged, Gram) and rows <= TALL * cells and fits((rows, cells), 32)


def factor_of_rows(rows: Array) -> Array:
    """Return F (r, g) of a matrix W (q, g) from its singular values.

    Examples
    --------
    >>> factor_of_rows(np.ones((5, 3))).round(6).tolist() in ([[x] * 3 for x in (2.236068,)],
    ...     [[-2.236068] * 3])
    True
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
