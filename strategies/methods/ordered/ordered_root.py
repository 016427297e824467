"""The optimum for Gaussian noise over ordered cells, as a triangle of few terms.

``K^(-1/2)`` is a sum of inverses of matrices of three diagonals (`strategies.bounds.ordered_dual`).
Below its diagonal such an inverse is known by one number a cell and one factor between neighbours:

    X_ij = sum_m t_(i-1),m ... t_j,m x_j,m    for i > j.

So is the Cholesky factor of the sum, with the same factors t: where P holds what the columns before
j add to products of two rows from j on,

    l_j = (x_j - P 1) / L_jj,    L_jj² = 1ᵀ (x_j - P 1),    P <- diag(t_j) (P + l_j l_jᵀ) diag(t_j).

That takes n small steps. Over the cells in reversed order ``LLᵀ`` becomes ``AᵀA`` with A a lower
triangle of the same terms: row i asks for no cell after i, as a stream must. There are as many
terms as nodes of the root. Its error falls geometrically with them, at a rate that depends on the
logarithm of K's condition alone (Hale, Higham, Trefethen 2008).
"""

import numpy as np

from strategies.bounds.joint_weights import JointDual
from strategies.bounds.ordered_dual import NODES, root_nodes, shifted_inverse
from strategies.bounds.prefix_weights import PrefixRows, prefix_bands
from strategies.operators import Array, Semiseparable, check_allocation


def ordered_root(diagonal: Array, side: Array, terms: int = NODES) -> Semiseparable:
    """Return a lower triangle A (n, n) with ``AᵀA`` near ``K^(-1/2)``, its columns of L2 norm 1.

    `diagonal`, `side`: (n,), (n - 1,), the diagonals of K; `terms`: numbers kept between cells.
    """
    n = len(diagonal)
    check_allocation("terms of an ordered root", (n, terms))
    diagonal, side = diagonal[::-1], side[::-1]
    shifts, shares = root_nodes(diagonal, side, terms)
    entries, factors = np.empty((n, terms)), np.empty((n - 1, terms))
    for m in range(terms):
        entries[:, m], factors[:, m] = shifted_inverse(diagonal + shifts[m], side)
    entries *= shares
    lengths = np.sqrt(entries.sum(axis=1))
    generators = cholesky_generators(entries, factors) / lengths[:, None]
    factors *= (lengths[:-1] / lengths[1:])[:, None]
    return Semiseparable(generators[::-1], factors[::-1])


def prefix_root(rows: PrefixRows, dual: JointDual, terms: int = NODES) -> Semiseparable:
    """Return the strategy at weights of prefix sums and cells, in the order of the cells."""
    diagonal, side = prefix_bands(rows, dual.groups, dual.cells)
    if rows.is_flipped:
        diagonal, side = diagonal[::-1], side[::-1]
    return ordered_root(diagonal, side, terms)


def cholesky_generators(entries: Array, factors: Array) -> Array:
    """Return the ``l_j`` (n, terms) of the Cholesky factor, each with the sum ``L_jj``."""
    n, terms = entries.shape
    generators, before = np.empty((n, terms)), np.zeros((terms, terms))
    for j in range(n):
        rest = entries[j] - before.sum(axis=1)
        generators[j] = rest / np.sqrt(rest.sum())
        if j < n - 1:
            before += np.multiply.outer(generators[j], generators[j])
            before *= factors[j]
            before *= factors[j][:, None]
    return generators
