"""Grams of matrices whose rows are Kronecker products of masks."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Longs
from strategies.operators.base.memory import fits
from strategies.operators.masks.packed_masks import Masks, blocks_of, joint_mask

MasksOf = Callable[[int], Masks]

GRAM_BLOCK = 64
"""Joint codes of the attributes that one factor of a row gram takes together."""


def hadamard_gram(left: MasksOf, right: MasksOf, sizes: Sequence[int]) -> Array:
    """Return ``A @ B.T`` as the Hadamard product of the attributes' Grams, without n.

    Parameters
    ----------
    left, right : callable
        Return the masks of A, shape (o, n_i), and of B, shape (p, n_i), for attribute i: asked
        block by block, so that no more than one block of them is unpacked at a time.
    sizes : sequence of int
        Attribute sizes ``n_i``.
    """
    result = np.ones((len(left(0)), len(right(0))))
    for block in blocks_of(sizes, GRAM_BLOCK):
        one, other = (joint_mask([masks(i) for i in block]) for masks in (left, right))
        result *= one @ other.T
    return result


def repeated_gram(rows: sparse.csr_array, counts: Longs, work: int) -> Array:
    """Return ``A.T @ A`` from the distinct rows of A, dense or sparse, whichever is cheaper.

    Parameters
    ----------
    rows : csr_array of shape (o, n)
        The distinct rows.
    counts : ndarray of int, shape (o,)
        How often each occurs in A.
    work : int
        Multiply-adds of the sparse product.
    """
    form = rows.astype(np.float64)
    o, n = form.shape
    if work > o * n * n / 20 and fits((o, n), 16):
        dense = form.toarray()
        return np.asarray(dense.T @ (counts[:, None] * dense))
    weighted = sparse.diags_array(counts.astype(np.float64)) @ form
    return np.asarray((form.T @ weighted).toarray())
