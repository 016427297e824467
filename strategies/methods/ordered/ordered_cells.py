"""Workloads over ordered cells, such as prefix sums and ranges, at sizes up to many thousands.

They are known by their Gram (`strategies.operators.ordered.ordered_gram`), not by how they were
given. For Laplace noise: the better of a windowed p-Identity and a weighted b-ary hierarchy, which
is never above the best equally weighted one. For Gaussian noise: the certified optimum, a dense
matrix, from one spectrum of a matrix of three diagonals; the hierarchy beyond `LARGEST_DENSE`.
"""

import numpy as np
from scipy import linalg

from strategies.bounds.dual_weights import Dual
from strategies.bounds.ordered_dual import bands, climb_ordered, steps_within
from strategies.methods.family import BOTH_NORMS, Family, Search
from strategies.methods.ordered.hierarchy import best_hierarchy
from strategies.methods.ordered.windowed import best_windowed_rows
from strategies.operators import Array, Dense, Identity, Norm, Operator, fits
from strategies.operators.ordered.ordered_gram import OrderedGram
from strategies.operators.ordered.p_identity import PIdentity
from strategies.problem.problem import Problem

TOLERANCE = 1e-5
LARGEST_DENSE = 8192
"""Cells up to which a strategy for Gaussian noise may be a dense matrix."""
DENSE_SECONDS = 9e-11
"""Seconds of the reference machine for each of n³ to make a dense strategy and to evaluate it."""
FEWEST_WINDOWED = 8
"""Cells from which rows over windows are tried."""


def ordered_cells(problem: Problem, search: Search) -> Operator:
    """Return the best strategy found over the ordered merged cells.

    Raises
    ------
    ValueError
        If the merged cells are not ordered.
    """
    gram = problem.ordered
    if gram is None:
        raise ValueError(
            f"workload {problem.workload!r} is not one over ordered cells: expected a Gram "
            f"u_min(i,j) v_max(i,j), as of prefix sums or all ranges."
        )
    if not gram.is_flipped:
        return best_over(gram, problem.norm, search)
    found = best_over(gram.reversed, problem.norm, search)
    if isinstance(found, Dense):
        return Dense(found.array[:, ::-1])
    return found.flipped() if isinstance(found, PIdentity) else found


def best_over(gram: OrderedGram, norm: Norm, search: Search) -> Operator:
    """Return the best strategy found for a Gram over ordered cells."""
    n = gram.n
    affordable = n <= LARGEST_DENSE and fits((n, n), 8) and DENSE_SECONDS * n**3 <= 2 * search.work
    if norm == "l2" and affordable:
        dual = climb_ordered(gram, TOLERANCE, steps_within(gram.n, search.work))
        return Dense(gaussian_root(gram, dual))
    tree, whole = best_hierarchy(gram, norm), float(gram.diagonal.sum())
    best = tree.matrix(n) if tree.loss < whole else Identity(n)
    if norm == "l2" or n < FEWEST_WINDOWED:
        return best
    rows = best_windowed_rows(gram, search.generator, search.work)
    if not isinstance(rows, PIdentity):
        return best
    loss = rows.sensitivity(norm) ** 2 * rows.ordered_trace(gram)
    return rows if loss < min(tree.loss, whole) else best


def gaussian_root(gram: OrderedGram, dual: Dual) -> Array:
    """Return A (n, n) with ``AᵀA`` of the dual's form, every column scaled to L2 norm 1."""
    diagonal, side = bands(gram, dual.weights)
    values, vectors = linalg.eigh_tridiagonal(diagonal, side, check_finite=False)
    values = np.maximum(values, len(values) * np.finfo(float).eps * values[-1])
    vectors /= np.sqrt(np.sqrt(values))
    vectors /= np.sqrt(dual.weights)[:, None]
    vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.asarray(vectors.T)


def applies(problem: Problem) -> bool:
    """Tell whether the merged cells are ordered; for the worst row, those of the total error."""
    total = problem if problem.is_total else problem.summed()
    return total.ordered is not None


FAMILY = Family("ordered_cells", "merged", BOTH_NORMS, applies, ordered_cells, share=4.0)
