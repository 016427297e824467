"""A certified lower bound for workloads over domains too large to enumerate.

For every distribution y over the cells, ``(||W diag(√y)||_*)²`` is a lower bound on the loss of
every strategy, for both norms: with S the singular values,
``||W √Y||_* = tr-norm of (W A⁺)(A √Y) <= ||W A⁺||_F ||A √Y||_F`` and
``||A √Y||_F² = Σ y_j ||a_j||² <= ||A||²``. Where the rows of W are combinations ``M P`` of
Kronecker products of masks and y is a mixture of product distributions, the row Gram

    P diag(y) Pᵀ = Σ_j π_j  ∘_i  V_i diag(y_ij) V_iᵀ        (∘: entry by entry)

needs nothing of the domain's length, and ``||W √Y||_* = tr sqrt(M P diag(y) Pᵀ Mᵀ)``.

The bound holds for whatever y is chosen; the choice climbs by multiplicative updates,
``y_ij ← y_ij · gradient``, the fixed point of the optimum (every factor enters linearly). Rows
may be left out: a strategy's loss on some rows of a workload is no more than on all of them.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse

from strategies.bounds.path_patterns import PatternRows, distinct_paths
from strategies.bounds.pinched_bound import pinched_bound
from strategies.operators import Array, Operator, check_allocation, fits
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.operators.masks.packed_masks import mask_widths

SAFETY = 1e-9  # share taken off the reported bound for rounding, beside the eigenvalues' own error

STALLED = 1e-5  # relative gain of an update below which the climb ends

MOST_WHOLE = 6000  # distinct paths that are bounded together, at equal weights of all cells

MOST_MASKS = 6_000_000
"""Masks, of all paths and attributes, that equal paths are looked for among: some 1.5 seconds."""

LARGEST_GRAM = 1600  # rows, and paths behind them, that are kept unless the caller allows more


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of product distributions over the cells."""

    shares: Array  # (J,): positive, with sum 1
    # (J, n_i): one distribution over each attribute's codes for each part of the mixture
    factors: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class ImplicitBound:
    """A certified bound and the weights that prove it."""

    value: float  # no strategy of either norm has a smaller loss
    weights: Mixture  # the distribution y over the cells
    rows: int  # rows of the workload that were kept (distinct ones counted once)
    steps: int  # updates of the weights


def implicit_bound(
    workload: Operator,
    generator: np.random.Generator | None = None,
    *,
    work: float = 2.0,
    max_rows: int = LARGEST_GRAM,
    parts: int | None = None,
) -> ImplicitBound | None:
    """Return a certified lower bound on the loss of every strategy, without n.

    `workload`: (q, n), rows of masks or combinations of them; for anything else the answer is None.
    `generator`: breaks the symmetry between the parts of a mixture. `work`: seconds of the
    reference machine; the number of updates follows from it. `max_rows`: Rows and distinct paths
    that are kept. Eigenvalues of a matrix of this side are found at every update; the largest
    arrays are a few of its size. `parts`: Product distributions in the mixture y. By default 1 for
    rows of masks and 8 for combinations of them: few test records want weight around each of them.

    Raises MemoryCapError if the row Gram does not fit the memory cap.
    """
    rows = mask_rows(workload)
    if rows is None:
        return None
    every = distinct_paths(looked_through(rows))
    if every.n_paths > max_rows and is_plain(every):
        return whole_bound(every)
    paths = heaviest_rows(every, max_rows)
    if paths.n_paths == 0:
        return ImplicitBound(0.0, first_weights(paths, 1, np.random.default_rng(0)), 0, 0)
    parts = parts or (1 if rows.mix is None else 8)
    side = max(paths.n_paths, paths.mix.shape[0])
    check_allocation("row Grams of the distinct paths", (side, side, 3 + parts))
    own = 8e-10 * side**3 + (2e-8 * parts + 2e-9 * len(paths.varied)) * side**2
    weights = first_weights(paths, parts, generator or np.random.default_rng(0))
    best, steps = climbed_weights(paths, weights, min(200, int(work / (2e-3 + own))))
    return ImplicitBound(certified_bound(paths, best), best, int(paths.mix.shape[0]), steps)


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


def climbed_weights(paths: PatternRows, weights: Mixture, steps: int) -> tuple[Mixture, int]:
    """Update the weights while that pays; return the best and the number of updates.

    Up to one update is none at all: uniform weights are close to the best for paths alone.
    """
    best, value, step = weights, 0.0, 0
    for step in range(steps if steps > 1 else 0):
        found, moved = climb(paths, weights)
        stalled = found < value * (1 + STALLED)
        if found > value:
            best, value = weights, found
        if stalled and step >= 2:
            break
        weights = moved
    return best, step


def is_plain(paths: PatternRows) -> bool:
    """Tell whether every row of a workload is one path, weighted, and none stands twice."""
    one = paths.mix.shape[0] == paths.n_paths
    return one and np.diff(paths.mix.indptr).max(initial=0) == 1


def whole_bound(paths: PatternRows) -> ImplicitBound:
    """Return the bound of very many paths at equal weights of all cells, pinched beyond some."""
    uniform = first_weights(paths, 1, np.random.default_rng(0))
    whole = paths.n_paths <= MOST_WHOLE and fits((paths.n_paths, paths.n_paths, 3))
    value = certified_bound(paths, uniform) if whole else pinched_bound(paths)
    return ImplicitBound(value, uniform, paths.n_paths, 0)


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


def weighted_gram(paths: PatternRows, weights: Mixture, part: int) -> Array:
    """Return ``P diag(y_j) Pᵀ`` of one part of a mixture (p x p)."""
    tables = {i: pattern_gram(paths, i, weights.factors[i][part]) for i in paths.varied}
    return paths.hadamard(tables)


def first_weights(paths: PatternRows, parts: int, generator: np.random.Generator) -> Mixture:
    """Return uniform weights; several parts lean towards random codes to break symmetry."""
    factors = []
    for pattern in paths.patterns:
        factor = np.ones((parts, pattern.shape[1]))
        if parts > 1:
            factor += generator.exponential(size=factor.shape)
        factors.append(factor / factor.sum(axis=1, keepdims=True))
    return Mixture(np.full(parts, 1 / parts), tuple(factors))


def climb(paths: PatternRows, weights: Mixture) -> tuple[float, Mixture]:
    """Return ``(tr sqrt(K))²`` at the weights, and the weights after one multiplicative update."""
    grams = [weighted_gram(paths, weights, j) for j in range(len(weights.shares))]
    total = np.zeros_like(grams[0])
    for share, gram in zip(weights.shares, grams, strict=True):
        total += share * gram
    root, inverse = _roots(paths.mix @ (paths.mix @ total).T)
    slope = np.asarray(paths.mix.T @ (paths.mix.T @ inverse).T)
    shares = np.empty_like(weights.shares)
    factors = [np.empty_like(factor) for factor in weights.factors]
    for j, gram in enumerate(grams):
        gram *= slope
        shares[j] = weights.shares[j] * gram.sum()
        for i, factor in enumerate(weights.factors):
            factors[i][j] = _update(paths, i, factor[j], gram)
    if not shares.sum() > 0:  # rows that cancel
        return root**2, weights
    return root**2, Mixture(shares / shares.sum(), tuple(factors))


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


def certified_bound(paths: PatternRows, weights: Mixture) -> float:
    """Return the bound at given weights, rounded down.

    Every eigenvalue is lowered by what the rounding of the Gram's entries and a symmetric
    eigenvalue solver can make of it.
    """
    total = np.zeros((paths.n_paths, paths.n_paths))
    for j, share in enumerate(weights.shares):
        total += share * weighted_gram(paths, weights, j)
    gram = paths.mix @ (paths.mix @ total).T
    values = linalg.eigvalsh((gram + gram.T) / 2)
    roundings = len(values) + 4 * len(paths.patterns) + 16
    error = roundings * np.finfo(float).eps * np.abs(gram.diagonal()).sum()
    root = np.sqrt(np.maximum(values - error, 0.0)).sum()
    return float(root**2 * (1 - SAFETY))
