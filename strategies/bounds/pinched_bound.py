"""A certified bound for very many paths, by the attribute sets that they test.

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
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import linalg

from strategies.bounds.dual_weights import root_traces
from strategies.bounds.path_patterns import PatternRows
from strategies.operators.base.arrays import Array, Bools, Longs
from strategies.operators.masks.energies import is_maximal
from strategies.operators.masks.packed_masks import members, unique_rows

MOST_COLUMNS = 4096  # joint codes of a set; sets of more are left out
MOST_SHARED = 4000  # dimensions of what is shared; sets that would exceed them are left out
MOST_ROWS = 2500  # paths of one set; the heaviest are kept
NEGLIGIBLE = 1e-12  # share of the largest energy that a shared direction counts with at least
FAINT = 1e-6  # the same for directions of a set's rows, along which they are made contractions
SAFETY = 5e-7  # share taken off for rounding of the contractions and the eigenvalues


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
    return float(total**2 * (1 - SAFETY))


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
        kept = heaviest(rows[j], weights * paths.shares())
        own = [masks[i][kept] @ centred_basis(masks[i].shape[1]) for i in attributes]
        blocks.append(split_block(weights[kept], own, attributes, bool(maximal[j]), start))
    return blocks, dimensions


def heaviest(rows: Longs, weights: Array) -> Longs:
    """Return the heaviest of some rows, as many as are kept."""
    return rows[np.argsort(-weights[rows], kind="stable")[:MOST_ROWS]]


def centred_basis(size: int) -> Array:
    """Return an orthonormal basis over a root of the codes' number, its first vector constant."""
    start = np.eye(size)
    start[:, 0] = 1.0
    basis = np.linalg.qr(start)[0]
    return np.asarray(basis / np.sqrt(size))


def subsets(count: int) -> Bools:
    """Return all subsets of some attributes, shape (2**count, count)."""
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
    """Return the row-wise Kronecker products of two arrays."""
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
    """Return a bound just below the sum of the singular values."""
    wide = matrix.shape[0] < matrix.shape[1]
    return float(root_traces(matrix @ matrix.T if wide else matrix.T @ matrix))
