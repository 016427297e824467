"""A certified bound for many paths: their highest components apart, the rest compressed.

Take all maximal attribute sets F that paths fix, and split the row space into the components of
these sets (projection E) and the rest. A path that fixes F reaches no other maximal component, so
W E consists of one small block for each F. With P the left projection on the blocks' ranges,
pinching a matrix lowers its nuclear norm:

    ||W √Y||_* >= ||P W √Y E||_* + ||(I - P) W √Y (I - E)||_*,

for Y uniform. The first term is a sum over small blocks. The second has only as many rows as are
left by P: for complete multi-way trees a fraction of the paths.
"""

import numpy as np
from scipy import linalg, sparse

from strategies.bounds.path_patterns import PatternRows
from strategies.operators import check_allocation
from strategies.operators.base.arrays import Array
from strategies.operators.masks.attribute_sets import unique_rows
from strategies.operators.masks.energies import is_maximal

NEGLIGIBLE = 1e-10  # eigenvalues of a block below this share of its largest are left to the rest

SAFETY = 1e-9  # share taken off for rounding, beside the eigenvalues' own errors


def pinched_bound(paths: PatternRows, largest_rest: int = 2400) -> float:
    """Return a certified lower bound on the loss of every strategy, of either norm.

    `paths`: with one path in each row of the workload (weights allowed); `largest_rest`: rows of
    the rest that are kept; leaving rows out keeps the bound valid.

    Raises ValueError if a row of the workload combines several paths; MemoryCapError if three paths
    x paths arrays do not fit the memory cap.
    """
    mix = paths.mix
    if np.diff(mix.indptr).max(initial=0) > 1 or mix.shape[0] != paths.n_paths:
        raise ValueError("paths.mix combines paths: expected one path in each row.")
    check_allocation("row Gram of the distinct paths", (paths.n_paths, paths.n_paths, 3))
    weights = np.asarray(abs(mix).sum(axis=0), dtype=np.float64).ravel()
    gram = _uniform_gram(paths)
    gram *= weights[:, None]
    gram *= weights
    top, basis = _split_off(paths, weights, gram)
    kept = np.argsort(-np.asarray(_diagonal(gram, basis)), kind="stable")[:largest_rest]
    basis = sparse.csc_array(basis[:, np.sort(kept)])
    rest = np.asarray(basis.T @ np.asarray(basis.T @ gram).T)
    roundings = (len(weights) + 4 * len(paths.patterns) + 16) * np.finfo(float).eps
    left = _root_sum(rest, roundings * float(weights**2 @ paths.shares()))
    return (top + left) ** 2 * (1 - SAFETY)


def _uniform_gram(paths: PatternRows) -> Array:
    """Return ``P Pᵀ / n``."""
    tables = {}
    for i in paths.varied:
        mask = paths.patterns[i].astype(np.float64)
        tables[i] = mask @ mask.T / mask.shape[1]
    return paths.hadamard(tables)


def _split_off(paths: PatternRows, weights: Array, gram: Array) -> tuple[float, sparse.csc_array]:
    """Take the maximal components off the Gram, in place.

    Returns ``||P W √Y E||_*``, and an orthonormal basis of what P leaves, (p, rest).
    """
    masks = paths.masks()
    fixed = np.stack([~mask.all(axis=1) for mask in masks], axis=1)
    first, group = unique_rows(fixed)
    maximal = is_maximal(fixed[first])
    order = np.argsort(group, kind="stable")
    total, blocks = 0.0, []
    for number, index in enumerate(np.split(order, np.cumsum(np.bincount(group))[:-1])):
        basis = np.eye(len(index))
        if maximal[number]:
            block = np.outer(weights[index], weights[index])
            for i in np.flatnonzero(fixed[first[number]]):
                mask = masks[int(i)][index].astype(np.float64)
                mask -= mask.mean(axis=1, keepdims=True)
                block *= mask @ mask.T / mask.shape[1]
            values, vectors = linalg.eigh(block)
            strong = values > NEGLIGIBLE * max(values[-1], 0.0)
            errors = 64 * len(index) * np.finfo(float).eps * values[-1]
            total += np.sqrt(np.maximum(values[strong] - errors, 0.0)).sum()
            basis = vectors[:, ~strong]
            gram[np.ix_(index, index)] -= block
        blocks.append(basis)
    stacked: sparse.csr_array = sparse.csr_array(
        sparse.block_diag([sparse.coo_array(block) for block in blocks])
    )
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return float(total), sparse.csc_array(stacked[back])


def _diagonal(gram: Array, basis: sparse.csc_array) -> Array:
    """Return the diagonal of ``Bᵀ G B``."""
    return np.asarray(basis.multiply(sparse.csc_array(gram @ basis)).sum(axis=0)).ravel()


def _root_sum(gram: Array, error: float) -> float:
    """Return ``tr sqrt(G)`` with every eigenvalue lowered by an error."""
    if not len(gram):
        return 0.0
    values = linalg.eigvalsh((gram + gram.T) / 2)
    return float(np.sqrt(np.maximum(values - error, 0.0)).sum())
