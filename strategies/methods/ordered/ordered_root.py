"""The optimum for Gaussian noise over ordered cells, as a triangle and without a spectrum.

``K^(-1/2)`` is a sum of inverses of matrices of three diagonals (`strategies.bounds.ordered_dual`).
Below its diagonal such an inverse is known by one number a cell and one factor between neighbours:

    X_ij = sum_m t_(i-1),m ... t_j,m x_j,m    for i > j.

So is the Cholesky factor of the sum, with the same factors t: where P holds what the columns before
j add to products of two rows from j on,

    l_j = (x_j - P 1) / L_jj,    L_jj² = 1ᵀ (x_j - P 1),    P <- diag(t_j) (P + l_j l_jᵀ) diag(t_j).

That takes n small steps; writing out all entries is one product of matrices for each block of rows.
"""

import numpy as np

from strategies.bounds.ordered_dual import bands, root_nodes, shifted_inverses
from strategies.operators import Array
from strategies.operators.ordered.ordered_gram import OrderedGram

BLOCK = 64
"""Rows that are written out at once."""


def ordered_root(gram: OrderedGram, weights: Array) -> Array:
    """Return A (n, n), an upper triangle with ``AᵀA`` of the dual's form.

    Every column is scaled to L2 norm 1.
    """
    diagonal, side = bands(gram, weights)
    shifts, shares = root_nodes(diagonal, side)
    inverses, factors = shifted_inverses(diagonal, side, shifts)
    heads, generators = cholesky_generators(inverses * shares, factors)
    root = triangle(heads, generators, factors)
    root /= np.sqrt(np.einsum("ij,ij->j", root, root))
    return root


def cholesky_generators(entries: Array, factors: Array) -> tuple[Array, Array]:
    """Return the diagonal ``L_jj`` (n,) and the ``l_j`` (n, terms) of the Cholesky factor."""
    n, terms = entries.shape
    heads, generators = np.empty(n), np.empty((n, terms))
    before = np.zeros((terms, terms))
    for j in range(n):
        rest = entries[j] - before.sum(axis=1)
        heads[j] = np.sqrt(rest.sum())
        generators[j] = rest / heads[j]
        if j < n - 1:
            before += np.multiply.outer(generators[j], generators[j])
            before *= factors[j]
            before *= factors[j][:, None]
    return heads, generators


def triangle(heads: Array, generators: Array, factors: Array) -> Array:
    """Return ``Lᵀ`` (n, n) written out; the largest array beside it is one block of its columns."""
    n, terms = generators.shape
    whole = np.diag(heads)
    states = np.zeros((0, terms))  # of all rows before a block, where it begins
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        ahead = np.cumprod(factors[start : stop - 1], axis=0)
        ahead = np.concatenate([np.ones((1, terms)), ahead])
        whole[:start, start:stop] = states @ ahead.T
        own = np.zeros((stop - start, terms))
        for j in range(start, stop):
            own[: j - start] *= factors[j - 1]
            whole[start:j, j] = own[: j - start].sum(axis=1)
            own[j - start] = generators[j]
        if stop < n:
            onward = factors[stop - 1]
            states = np.concatenate([states * (ahead[-1] * onward), own * onward])
    return whole
