"""Lower bounds from inner products of paths, over domains too large to enumerate.

A forest repeats itself: the same path occurs in many trees, and an attribute's masks are few.
Whatever is a sum over pairs of paths of a product over attributes is computed on the patterns
and looked up.

At equal weights of all cells a path is a Kronecker product of vectors over the attributes, each
split into its mean and what is orthogonal to it. So the columns split into one space for each
attribute set, and paths that test S lie in the spaces of S and of its subsets. The space of a set
S that no other contains is met by the paths of S alone: their *own* part. All else is shared. For
any A_S, B_S with ``A_S A_Sᵀ + B_S B_Sᵀ ⪯ I``,

    ||W √Y||_* >= Σ_S ||A_Sᵀ W_S^own||_* + ||stack_S (B_Sᵀ W_S^shared)||_*,

for the right side is the inner product of W √Y with
``[diag(A_S), diag(B_S)] · diag(C_S, D)``, C_S and D the polar factors of the terms: a product of
two contractions. A_S and B_S are the two parts of the polar factor of W_S, its columns scaled to
mean energy one. Rows that are left out keep the bound valid.

For every distribution y over the cells, ``(||W diag(√y)||_*)²`` is a lower bound on the loss of
every strategy, for both norms: with S the singular values,
``||W √Y||_* = tr-norm of (W A⁺)(A √Y) <= ||W A⁺||_F ||A √Y||_F`` and
``||A √Y||_F² = Σ y_j ||a_j||² <= ||A||²``. Where the rows of W are combinations ``M P`` of
Kronecker products of masks and y is a product of distributions, the row Gram

    P diag(y) Pᵀ = ∘_i  V_i diag(y_i) V_iᵀ        (∘: entry by entry)

needs nothing of the domain's length, and ``||W √Y||_* = tr sqrt(M P diag(y) Pᵀ Mᵀ)``.

The bound holds for whatever y is chosen; here all cells have the same weight, and
`strategies.bounds.path_climb` goes on from there. Rows may be left out: a strategy's loss on some
rows of a workload is no more than on all of them.
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from scipy import linalg, sparse

from strategies.bounds.dual_ascent import MARGIN, root_traces
from strategies.operators import fits
from strategies.operators.base.arrays import Array, Bools, Longs
from strategies.operators.masks.anova import is_maximal
from strategies.operators.masks.components import MaskRows
from strategies.operators.masks.packed_masks import mask_widths, members, unique_rows


@dataclass(frozen=True, eq=False)
class PatternRows:
    """Distinct paths by their patterns: per attribute, the distinct masks and every row's."""

    patterns: tuple[Bools, ...]  # (u_i, n_i)
    numbers: tuple[Longs, ...]  # (p,)
    mix: sparse.csr_array  # (q, p): the workload's rows over the paths
    groups: Longs | None = None  # (p,): paths of one group are pairwise disjoint

    @property
    def n_paths(self) -> int:
        return int(self.mix.shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(pattern.shape[1]) for pattern in self.patterns)

    @property
    def varying_attributes(self) -> list[int]:
        return [i for i, pattern in enumerate(self.patterns) if not pattern.all()]

    def masks(self) -> list[Bools]:
        """Return one mask for each path, attribute by attribute: arrays of shape (p, n_i)."""
        pairs = zip(self.patterns, self.numbers, strict=True)
        return [pattern[number] for pattern, number in pairs]

    def shares(self) -> Array:
        result = np.ones(self.n_paths)
        for i in self.varying_attributes:
            result *= self.patterns[i].mean(axis=1)[self.numbers[i]]
        return result

    def hadamard(self, tables: dict[int, Array]) -> Array:
        """Return ``Π_i tables_i[number_i(r), number_i(s)]`` for all pairs of paths (p x p)."""
        result = np.ones((self.n_paths, self.n_paths))
        for i, table in tables.items():
            result *= table[np.ix_(self.numbers[i], self.numbers[i])]
        return result


def distinct_paths(rows: MaskRows) -> PatternRows:
    """Return the distinct paths that a workload uses, and its rows over them.

    Paths without any cell are left out.

    Equal rows of a workload become one, weighted by the root of their number: the singular
    values stay the same.
    """
    numbers, patterns = [], []
    for mask in rows.masks:
        first, number = unique_rows(mask)
        patterns.append(mask[first])
        numbers.append(number)
    first, path = unique_rows(np.stack(numbers, axis=1))
    if rows.mix is None:
        mix = sparse.csr_array(sparse.diags_array(np.sqrt(np.bincount(path).astype(float))))
    else:
        ones = (np.ones(len(path)), (np.arange(len(path)), path))
        mix = sparse.csr_array(rows.mix @ sparse.csr_array(ones, shape=(len(path), len(first))))
    nonempty = np.stack([mask[first].any(axis=1) for mask in rows.masks], axis=1)
    weight = np.asarray(abs(mix).sum(axis=0)).ravel()
    used = np.flatnonzero((weight > 0) & np.asarray(nonempty.all(axis=1)))
    kept = tuple(number[first[used]] for number in numbers)
    groups = None if rows.groups is None else rows.groups[first[used]]
    return PatternRows(tuple(patterns), kept, sparse.csr_array(mix[:, used]), groups)


MOST_COLUMNS = 4096  # joint codes of a set; sets of more are left out
MOST_SHARED = 4000  # dimensions of what is shared; sets that would exceed them are left out
MOST_ROWS = 2500  # paths of one set; the heaviest are kept
NEGLIGIBLE = 1e-12  # share of the largest energy that a shared direction counts with at least
FAINT = 1e-6  # the same for directions of a set's rows, along which they are made contractions
PINCHING_SAFETY = 5e-7  # share taken off for rounding of the contractions and the eigenvalues


@dataclass(frozen=True, eq=False)
class SetRows:
    """The paths of one set, split into what is their own and what is shared."""

    own: Array  # (k, h)
    shared: Array  # (k, l)
    places: Longs  # (l,): number of every shared direction


def pinched_bound(paths: PatternRows) -> float:
    """Return a certified lower bound on the loss of every strategy, of either norm.

    `paths`: with one path in each row of the workload, weights allowed.

    Raises ValueError if a row of the workload combines several paths.
    """
    mix = paths.mix
    if np.diff(mix.indptr).max(initial=0) > 1 or mix.shape[0] != paths.n_paths:
        raise ValueError("paths.mix combines paths: expected one path in each row.")
    blocks, dimensions = split_rows(paths)
    energies = np.zeros(dimensions)
    for block in blocks:
        np.add.at(energies, block.places, np.square(block.shared).sum(axis=0))
    total, gram = 0.0, np.zeros((dimensions, dimensions))
    for block in blocks:
        left, right = contractions(block, energies)
        total += nuclear_norm(left.T @ block.own)
        part = right.T @ block.shared
        gram[np.ix_(block.places, block.places)] += part.T @ part
    total += float(root_traces(gram))
    return float(total**2 * (1 - PINCHING_SAFETY))


def split_rows(paths: PatternRows) -> tuple[list[SetRows], int]:
    """Return the paths of every set in coordinates of its spaces, and the shared dimensions."""
    masks = paths.masks()
    tested = np.stack([~mask.all(axis=1) for mask in masks], axis=1)
    first, number = unique_rows(tested)
    sets, rows = tested[first], members(number)
    maximal = is_maximal(sets)
    weights = np.asarray(abs(paths.mix).sum(axis=0), dtype=np.float64).ravel()
    start: dict[bytes, int] = {}
    dimensions, blocks = 0, []
    for j in np.argsort(-np.array([len(own) for own in rows]), kind="stable"):
        attributes = np.flatnonzero(sets[j])
        sizes = [masks[i].shape[1] for i in attributes]
        if np.prod(sizes, dtype=float) > MOST_COLUMNS:
            continue
        fresh, more = new_spaces(attributes, sizes, bool(maximal[j]), start, dimensions)
        if more > MOST_SHARED:
            continue
        start, dimensions = fresh, more
        lengths = (weights * paths.shares())[rows[j]]
        kept = rows[j][np.argsort(-lengths, kind="stable")[:MOST_ROWS]]
        own = [masks[i][kept] @ centred_basis(masks[i].shape[1]) for i in attributes]
        blocks.append(split_block(weights[kept], own, attributes, bool(maximal[j]), start))
    return blocks, dimensions


def centred_basis(size: int) -> Array:
    """Return an orthonormal basis over a root of the codes' number, its first vector constant."""
    start = np.eye(size)
    start[:, 0] = 1.0
    basis = np.linalg.qr(start)[0]
    return np.asarray(basis / np.sqrt(size))


def subsets(count: int) -> Bools:
    return (np.arange(1 << count)[:, None] >> np.arange(count) & 1).astype(bool)


def new_spaces(
    attributes: Longs, sizes: list[int], is_own: bool, start: dict[bytes, int], dimensions: int
) -> tuple[dict[bytes, int], int]:
    """Give numbers to the shared directions of a set and its subsets that have none."""
    start = dict(start)
    for chosen in subsets(len(attributes)):
        key = attributes[chosen].tobytes()
        if key not in start and not (is_own and chosen.all()):
            start[key] = dimensions
            free = [size - 1 for size, one in zip(sizes, chosen, strict=True) if one]
            dimensions += int(np.prod(free, dtype=np.int64))
    return start, dimensions


def split_block(
    weights: Array, own: list[Array], attributes: Longs, is_own: bool, start: dict[bytes, int]
) -> SetRows:
    """Return paths of a set over its joint codes: on the set's own space, and on the others."""
    parts, places = [], []
    for chosen in subsets(len(attributes)):
        pairs = zip(own, chosen, strict=True)
        factors = [one[:, 1:] if here else one[:, :1] for one, here in pairs]
        part = reduce(row_products, factors, weights[:, None])
        if is_own and chosen.all():
            alone = part
            continue
        parts.append(part)
        first = start[attributes[chosen].tobytes()]
        places.append(np.arange(first, first + part.shape[1]))
    if not is_own:
        alone = np.zeros((len(weights), 0))
    elif not parts:  # the path that tests nothing, alone
        return SetRows(alone, np.zeros((len(weights), 0)), np.zeros(0, np.int64))
    return SetRows(alone, np.concatenate(parts, axis=1), np.concatenate(places))


def row_products(left: Array, right: Array) -> Array:
    return np.asarray((left[:, :, None] * right[:, None, :]).reshape(len(left), -1))


def contractions(block: SetRows, energies: Array) -> tuple[Array, Array]:
    """Return A (k, h) and B (k, l): the polar factor of a set's rows, columns scaled."""
    own = np.sqrt(np.square(block.own).sum() / max(block.own.shape[1], 1))
    scale = np.sqrt(np.maximum(energies[block.places], NEGLIGIBLE * energies.max(initial=1e-300)))
    scaled = np.concatenate([block.own / (own or 1.0), block.shared / scale], axis=1)
    values, vectors = linalg.eigh(scaled @ scaled.T)
    kept = values > FAINT * values[-1]
    polar = (vectors[:, kept] / np.sqrt(values[kept])) @ (vectors[:, kept].T @ scaled)
    return polar[:, : block.own.shape[1]], polar[:, block.own.shape[1] :]


def nuclear_norm(matrix: Array) -> float:
    wide = matrix.shape[0] < matrix.shape[1]
    return float(root_traces(matrix @ matrix.T if wide else matrix.T @ matrix))


ProductWeights = tuple[Array, ...]  # (n_i,): one distribution over the codes of each attribute


MOST_WHOLE = 6000  # distinct paths that are bounded together, at equal weights of all cells

MOST_MASKS = 6_000_000
"""Masks, of all paths and attributes, that equal paths are looked for among: some 1.5 seconds."""


def keep_heaviest(rows: MaskRows) -> MaskRows:
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


def weighted_gram(paths: PatternRows, weights: ProductWeights) -> Array:
    """Return ``P diag(y) Pᵀ`` (p x p)."""
    masks = {i: paths.patterns[i].astype(np.float64) for i in paths.varying_attributes}
    return paths.hadamard({i: (mask * weights[i]) @ mask.T for i, mask in masks.items()})


def even_weights(paths: PatternRows) -> ProductWeights:
    return tuple(np.full(size, 1.0 / size) for size in paths.sizes)


def certified_bound(paths: PatternRows, weights: ProductWeights) -> float:
    """Return the bound at given weights, rounded down."""
    moment = weighted_gram(paths, weights)
    return rounded_down_bound(paths, moment, 4 * len(paths.patterns) + 16)


def rounded_down_bound(paths: PatternRows, moment: Array, roundings: int) -> float:
    """Return ``(tr (M P diag(y) Pᵀ Mᵀ)^½)²`` from ``P diag(y) Pᵀ``, rounded down.

    Every eigenvalue is lowered by what the rounding of the Gram's entries and a symmetric
    eigenvalue solver can make of it. `roundings`: of each entry of the moment.
    """
    gram = paths.mix @ (paths.mix @ moment).T
    values = linalg.eigvalsh((gram + gram.T) / 2)
    error = (len(values) + roundings) * np.finfo(float).eps * np.abs(gram.diagonal()).sum()
    root = np.sqrt(np.maximum(values - error, 0.0)).sum()
    return float(root**2 * (1 - MARGIN))
