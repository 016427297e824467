"""Grams of matrices whose rows are Kronecker products of masks."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Longs
from strategies.operators.base.memory import fits
from strategies.operators.masks.packed_masks import Masks, blocks_of, joint_mask

MasksOf = Callable[[int], Masks]

GRAM_BLOCK = 64  # joint codes of the attributes that one factor of a row gram takes together

PAIRS = 2**20  # pairs of combined rows that meet at once


def hadamard_gram(left: MasksOf, right: MasksOf, sizes: Sequence[int]) -> Array:
    """Return ``A @ B.T`` as the Hadamard product of the attributes' Grams, without n.

    `left`, `right`: return the masks of A, shape (o, n_i), and of B, shape (p, n_i), for attribute
    i: asked block by block, so that no more than one block of them is unpacked at a time; `sizes`:
    attribute sizes ``n_i``.
    """
    result = np.ones((len(left(0)), len(right(0))))
    for block in blocks_of(sizes, GRAM_BLOCK):
        one, other = (joint_mask([masks(i) for i in block]) for masks in (left, right))
        result *= one @ other.T
    return result


def combined_squares(left: sparse.csr_array, masks: MasksOf, sizes: Sequence[int]) -> Array:
    """Return the squared norms of the rows of ``L @ A``, ``diag(L A Aᵀ Lᵀ)``, without n.

    Only pairs of the rows of A that a row of L combines are met: for a forest's queries, one leaf
    a tree. The largest array has `PAIRS` entries, or the square of the most terms in a row of L.

    `left`: (q, o), L; `masks`: return the masks of A, shape (o, n_i), for attribute i; `sizes`:
    attribute sizes ``n_i``.
    """
    terms = np.diff(left.indptr)
    order, squares = np.argsort(-terms, kind="stable"), np.zeros(left.shape[0])
    parts = [masks(i) for i in range(len(sizes))]
    start = 0
    while start < np.count_nonzero(terms):
        most = int(terms[order[start]])
        rows = order[start : start + max(1, PAIRS // most**2)]
        met = np.arange(most) < terms[rows, None]
        place = np.where(met, left.indptr[rows, None] + np.arange(most), 0)
        weight, row = np.where(met, left.data[place], 0.0), left.indices[place]
        overlap = np.ones((*row.shape, row.shape[1]))
        for part in parts:
            mask = part[row].astype(np.float32)
            overlap *= mask @ mask.transpose(0, 2, 1)
        squares[rows] = np.einsum("qa,qab,qb->q", weight, overlap, weight)
        start += len(rows)
    return squares


def repeated_gram(rows: sparse.csr_array, counts: Longs, work: int) -> Array:
    """Return ``A.T @ A`` from the distinct rows of A, dense or sparse, whichever is cheaper.

    `rows`: (o, n), the distinct rows; `counts`: (o,), how often each occurs in A; `work`:
    multiply-adds of the sparse product.
    """
    form = rows.astype(np.float64)
    o, n = form.shape
    if work > o * n * n / 20 and fits((o, n), 16):
        dense = form.toarray()
        return np.asarray(dense.T @ (counts[:, None] * dense))
    weighted = sparse.diags_array(counts.astype(np.float64)) @ form
    return np.asarray((form.T @ weighted).toarray())
