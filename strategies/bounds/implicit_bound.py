"""Lower bounds from inner products of paths, over domains too large to enumerate.

For every distribution y over the cells, ``(||W diag(√y)||_*)²`` is a lower bound on the loss of
every strategy, for both norms: with S the singular values,
``||W √Y||_* = tr-norm of (W A⁺)(A √Y) <= ||W A⁺||_F ||A √Y||_F`` and
``||A √Y||_F² = Σ y_j ||a_j||² <= ||A||²``. Where the rows of W are combinations ``M P`` of
Kronecker products of masks and y is a product of distributions, the row Gram

    P diag(y) Pᵀ = ∘_i  V_i diag(y_i) V_iᵀ        (∘: entry by entry)

needs nothing of the domain's length, and ``||W √Y||_* = tr sqrt(M P diag(y) Pᵀ Mᵀ)``.

The bound holds for whatever y is chosen; the choice climbs by multiplicative updates,
``y_i ← y_i · gradient``, the fixed point of the optimum (every factor enters linearly);
`strategies.bounds.path_climb` goes on from there. Rows may be left out: a strategy's loss on some
rows of a workload is no more than on all of them.
"""

from dataclasses import replace

import numpy as np
from scipy import linalg, sparse

from strategies.bounds.path_patterns import PatternRows
from strategies.bounds.pinched_bound import pinched_bound
from strategies.operators import Array, fits
from strategies.operators.masks.components import MaskRows
from strategies.operators.masks.packed_masks import mask_widths

ProductWeights = tuple[Array, ...]  # (n_i,): one distribution over the codes of each attribute

SAFETY = 1e-9  # share taken off the reported bound for rounding, beside the eigenvalues' own error

STALLED = 1e-5  # relative gain of an update below which the climb ends

MOST_WHOLE = 6000  # distinct paths that are bounded together, at equal weights of all cells

MOST_MASKS = 6_000_000
"""Masks, of all paths and attributes, that equal paths are looked for among: some 1.5 seconds."""


def looked_through(rows: MaskRows) -> MaskRows:
    """Keep the heaviest rows, with `MOST_MASKS` at most behind them."""
    n_paths, room = len(rows.masks[0]), MOST_MASKS // len(rows.masks)
    if n_paths <= room:
        return rows
    shares = np.ones(n_paths)
    for mask in rows.masks:
        shares *= mask_widths([mask])[:, 0] / mask.shape[1]
    mix = sparse.csr_array(sparse.eye_array(n_paths) if rows.mix is None else rows.mix)
    heaviest = np.argsort(-np.asarray(abs(mix) @ np.sqrt(shares)), kind="stable")
    behind = np.cumsum(np.diff(mix.indptr)[heaviest])
    chosen = np.sort(heaviest[: max(1, int(np.searchsorted(behind, room, side="right")))])
    kept = mix[chosen]
    used = np.unique(kept.indices)
    return MaskRows(
        tuple(mask[used] for mask in rows.masks),
        None if rows.mix is None else sparse.csr_array(kept[:, used]),
        None if rows.groups is None else rows.groups[used],
    )


def climbed_weights(paths: PatternRows, steps: int) -> ProductWeights:
    """Return the best weights of some updates of even ones, while that pays.

    Up to one update is none at all: even weights are close to the best for paths alone.
    """
    best = weights = even_weights(paths)
    value = 0.0
    for step in range(steps if steps > 1 else 0):
        found, moved = climb(paths, weights)
        stalled = found < value * (1 + STALLED)
        if found > value:
            best, value = weights, found
        if stalled and step >= 2:
            break
        weights = moved
    return best


def is_plain(paths: PatternRows) -> bool:
    """Tell whether every row of a workload is one path, weighted, and none stands twice."""
    one = paths.mix.shape[0] == paths.n_paths
    return one and np.diff(paths.mix.indptr).max(initial=0) == 1


def even_bound(paths: PatternRows) -> float:
    """Return the bound at equal weights of all cells, pinched where paths are very many."""
    if paths.n_paths <= MOST_WHOLE and fits((paths.n_paths, paths.n_paths, 3)):
        return certified_bound(paths, even_weights(paths))
    return pinched_bound(paths)


def heaviest_rows(paths: PatternRows, limit: int) -> PatternRows:
    """Keep the heaviest rows of the workload, as many as the limit on rows and paths allows."""
    mix = paths.mix
    weight = np.asarray(abs(mix) @ np.sqrt(paths.shares()))
    heaviest = np.argsort(-weight, kind="stable")
    fresh = np.zeros(paths.n_paths, dtype=bool)
    chosen: list[int] = []
    for row in heaviest:
        own = mix.indices[mix.indptr[row] : mix.indptr[row + 1]]
        if chosen and (len(chosen) == limit or fresh.sum() + (~fresh[own]).sum() > limit):
            break
        fresh[own] = True
        chosen.append(int(row))
    used = np.flatnonzero(fresh)
    kept = sparse.csr_array(mix[np.sort(chosen)][:, used])
    numbers = tuple(number[used] for number in paths.numbers)
    groups = None if paths.groups is None else paths.groups[used]
    return replace(paths, numbers=numbers, mix=kept, groups=groups)


def pattern_gram(paths: PatternRows, i: int, factor: Array) -> Array:
    """Return ``V diag(y) Vᵀ`` of one attribute's patterns (u_i x u_i)."""
    mask = paths.patterns[i].astype(np.float64)
    return np.asarray((mask * factor) @ mask.T)


def weighted_gram(paths: PatternRows, weights: ProductWeights) -> Array:
    """Return ``P diag(y) Pᵀ`` (p x p)."""
    return paths.hadamard({i: pattern_gram(paths, i, weights[i]) for i in paths.varied})


def even_weights(paths: PatternRows) -> ProductWeights:
    """Return equal weights of all cells."""
    return tuple(np.full(size, 1.0 / size) for size in paths.sizes)


def climb(paths: PatternRows, weights: ProductWeights) -> tuple[float, ProductWeights]:
    """Return ``(tr sqrt(K))²`` at the weights, and the weights after one multiplicative update."""
    gram = weighted_gram(paths, weights)
    root, inverse = _roots(paths.mix @ (paths.mix @ gram).T)
    gram *= np.asarray(paths.mix.T @ (paths.mix.T @ inverse).T)
    if not gram.sum() > 0:  # rows that cancel
        return root**2, weights
    return root**2, tuple(_update(paths, i, own, gram) for i, own in enumerate(weights))


def _roots(gram: Array) -> tuple[float, Array]:
    """Return ``tr sqrt(K)`` and ``K^(-1/2)`` on the range."""
    values, vectors = linalg.eigh((gram + gram.T) / 2, overwrite_a=True)
    kept = values > 1e-11 * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    return float(np.sqrt(values).sum()), np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def _update(paths: PatternRows, i: int, factor: Array, products: Array) -> Array:
    """Return one attribute's factor times its gradient, normalised.

    ``products`` holds slope times Gram, entry by entry; leaving attribute i out divides it by
    the attribute's own Gram, pattern by pattern.
    """
    pattern, number = paths.patterns[i], paths.numbers[i]
    if len(pattern) == 1:
        return factor
    count = len(number)
    member = sparse.csr_array(
        (np.ones(count), (number, np.arange(count))), shape=(len(pattern), count)
    )
    sums = np.asarray(member @ np.asarray(member @ products).T)
    own = pattern_gram(paths, i, factor)
    ratio = np.divide(sums, own, out=np.zeros_like(sums), where=own > 0)
    mask = pattern.astype(np.float64)
    moved = factor * np.maximum(np.einsum("ac,ab,bc->c", mask, ratio, mask), 0.0)
    return np.asarray(moved / moved.sum()) if moved.sum() > 0 else factor


def certified_bound(paths: PatternRows, weights: ProductWeights) -> float:
    """Return the bound at given weights, rounded down.

    Every eigenvalue is lowered by what the rounding of the Gram's entries and a symmetric
    eigenvalue solver can make of it.
    """
    gram = paths.mix @ (paths.mix @ weighted_gram(paths, weights)).T
    values = linalg.eigvalsh((gram + gram.T) / 2)
    roundings = len(values) + 4 * len(paths.patterns) + 16
    error = roundings * np.finfo(float).eps * np.abs(gram.diagonal()).sum()
    root = np.sqrt(np.maximum(values - error, 0.0)).sum()
    return float(root**2 * (1 - SAFETY))
