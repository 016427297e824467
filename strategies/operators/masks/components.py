"""Rows over a product domain, split into the components of their attribute sets.

The functions on a product domain split orthogonally into one component for each attribute set U:
those that depend on the attributes of U only, and sum to zero along each of them. The projection
is ``E_U = ⊗ (I - J/n_i for i in U, J/n_i elsewhere)``. A row that is a Kronecker product of 0/1
masks with means ``p_i`` has energy ``||v E_U||² = n Π_{U} p_i (1 - p_i) Π_{not U} p_i²``, so
nothing of length n is ever built. Energies here are divided by n: they stay moderate on any
domain.

The rows of a marginal table differ in which codes they admit, not in how many: all have the same
energies ``θ² Π_{U} p_i (1 - p_i) Π_{S - U} p_i²`` with ``p_i = 1/n_i``, for U inside S.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators.base.arrays import Array, Bools, Longs, Numbers, check_allocation
from strategies.operators.base.operator import Operator, cached_per_value
from strategies.operators.masks.packed_masks import mask_widths, unique_rows

MAX_FIXED = 20  # a row that fixes more attributes than this has too many components to enumerate


@dataclass(frozen=True, eq=False)
class MaskRows:
    """Rows ``mix @ (⊗ masks)``: combinations of Kronecker products of 0/1 masks."""

    masks: tuple[Bools, ...]  # (o, n_i) of each attribute, whose rows r multiply to inner row r
    mix: sparse.csr_array | None = None  # (q, o): coefficients; None for the inner rows themselves
    groups: Longs | None = None  # (o,): inner rows of one group are pairwise disjoint

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(mask.shape[1]) for mask in self.masks)

    @property
    def means(self) -> Array:
        """Share of the codes that each mask admits, shape (o, d)."""
        shares: Array = mask_widths(self.masks) / np.asarray(self.sizes)
        return shares

    @property
    def is_fixed(self) -> Bools:
        """Whether a mask excludes some code, shape (o, d)."""
        return np.stack([~mask.all(axis=1) for mask in self.masks], axis=1)

    @property
    def squares(self) -> Array:
        """Sum of the squared coefficients of every inner row, shape (o,)."""
        if self.mix is None:
            return np.ones(len(self.masks[0]))
        return np.asarray(self.mix.multiply(self.mix).sum(axis=0), dtype=np.float64).ravel()

    def mix_rows(self, left: Array | sparse.csr_array) -> "MaskRows":
        mix = sparse.csr_array(left.astype(np.float64))
        mix = mix if self.mix is None else sparse.csr_array(mix @ self.mix)
        return MaskRows(self.masks, mix, self.groups)

    def scale(self, weights: Numbers) -> "MaskRows":
        return self.mix_rows(sparse.csr_array(sparse.diags_array(weights.astype(np.float64))))


@dataclass(frozen=True, eq=False)
class Components:
    """Energies of rows on the components that they reach."""

    sets: Bools  # (u, d): the attribute sets U
    energies: sparse.csr_array  # (q, u): ``||w_r E_U||² / n``

    @property
    def totals(self) -> Array:
        """``tr(WᵀW E_U) / n``, shape (u,)."""
        return np.asarray(self.energies.sum(axis=0), dtype=np.float64).ravel()


@singledispatch
def mask_rows(workload: Operator) -> MaskRows | None:
    """Read an operator as combinations of mask products, None where its structure shows none."""
    return None


def stacked_rows(parts: Sequence[MaskRows | None]) -> MaskRows | None:
    """Put the rows of several blocks on top of each other, None where a block has none."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({part.sizes for part in known}) > 1:
        return None
    masks = tuple(np.concatenate(same) for same in zip(*(p.masks for p in known), strict=True))
    mixes = [p.mix if p.mix is not None else sparse.eye_array(len(p.masks[0])) for p in known]
    plain = all(part.mix is None for part in known)
    mix = None if plain else sparse.csr_array(sparse.block_diag(mixes))
    return MaskRows(masks, mix, _stacked_groups(known))


def _stacked_groups(parts: Sequence[MaskRows]) -> Longs | None:
    """Return groups numbered apart for several blocks, None where a block has none."""
    groups, first = [], 0
    for part in parts:
        if part.groups is None:
            return None
        groups.append(part.groups + first)
        first += int(part.groups.max(initial=-1)) + 1
    return np.concatenate(groups)


def components(rows: MaskRows) -> Components:
    """Return the energies of every row on every component that it reaches.

    For plain rows, ``Π_U p_i(1 - p_i) Π_{not U} p_i²``. Mixed rows are expanded into *atoms*
    (the product of the centred masks over U): atoms of different sets are orthogonal, and two of
    one set have inner product ``Π_U (v_i·v'_i / n_i - p_i p'_i)``. The largest arrays hold one
    entry for each row and each subset of the attributes that it fixes.

    Rows that fix more than `MAX_FIXED` attributes are refused.
    """
    if rows.mix is None:
        return _unmixed_components(rows)
    if np.diff(rows.mix.indptr).max(initial=0) <= 1:  # rows scaled and picked, never added
        plain = _unmixed_components(MaskRows(rows.masks))
        squares = rows.mix.multiply(rows.mix)
        return Components(plain.sets, sparse.csr_array(squares @ plain.energies))
    return _mix_components(rows)


@cached_per_value
def components_of(workload: Operator, rows: MaskRows) -> Components:
    """Return the components of a workload's rows, once for as long as it lives: many ask."""
    return components(rows)


def subsets_of_fixed(rows: MaskRows) -> list[tuple[Longs, Longs, Bools]]:
    """Return, for each number h of fixed attributes: rows (k,), attributes (k, h), subsets."""
    fixed = rows.is_fixed
    counts = fixed.sum(axis=1)
    if counts.max(initial=0) > MAX_FIXED:
        raise ValueError(
            f"a row fixes {counts.max()} attributes: at most {MAX_FIXED} can be expanded into "
            f"components. Use a family that works on merged cells or on the paths themselves."
        )
    d = fixed.shape[1]
    expanded = int((2.0**counts).sum())
    check_allocation("components of every row", (expanded, 4 * d + 16), 1)
    return subset_blocks(fixed)


def subset_blocks(sets: Bools) -> list[tuple[Longs, Longs, Bools]]:
    """Return, for each size h of sets: them (k,), attributes (k, h), subsets (2**h, h)."""
    counts, blocks = sets.sum(axis=1), []
    for h in np.unique(counts):
        chosen = np.flatnonzero(counts == h)
        attributes = np.nonzero(sets[chosen])[1].reshape(len(chosen), h)
        subsets = (np.arange(1 << h)[:, None] >> np.arange(h) & 1).astype(bool)
        blocks.append((chosen, attributes, subsets))
    return blocks


def _unmixed_components(rows: MaskRows) -> Components:
    """Return the energies of rows that are not mixed; they depend on the masks' means alone.

    A forest has far fewer combinations of widths than leaves, so each is expanded once.
    """
    first, number = unique_rows(rows.means)
    if len(first) == len(number):
        return _expand_components(rows)
    few = _expand_components(MaskRows(tuple(mask[first] for mask in rows.masks)))
    longest = int(np.diff(few.energies.indptr).max(initial=0))
    check_allocation("components of every row", (len(number), longest), 12)
    return Components(few.sets, sparse.csr_array(few.energies[number]))


def _expand_components(rows: MaskRows) -> Components:
    means = rows.means
    row, sets, values = subset_products(rows, means * (1 - means), means * means)
    first, number = unique_rows(sets)
    energies = sparse.csr_array((values, (row, number)), shape=(len(means), len(first)))
    return Components(sets[first], energies)


def subset_products(rows: MaskRows, inside: Array, outside: Array) -> tuple[Longs, Bools, Array]:
    """Return the row, U and ``Π_U inside Π_{not U} outside`` of every subset U that a row fixes.

    `inside`, `outside`: (o, d), multiplied over the attributes that the row fixes.
    """
    row, sets, values = [], [], []
    for chosen, attributes, subsets in subsets_of_fixed(rows):
        place = chosen[:, None], attributes
        factors = np.where(subsets, inside[place][:, None], outside[place][:, None])
        values.append(factors.prod(axis=2).ravel())
        row.append(np.repeat(chosen, len(subsets)))
        sets.append(as_sets(attributes, subsets, len(rows.masks)))
    return np.concatenate(row), np.concatenate(sets), np.concatenate(values)


def as_sets(attributes: Longs, subsets: Bools, d: int) -> Bools:
    """Return every subset of every row's attributes as a mask over all d attributes."""
    k, h = attributes.shape
    sets = np.zeros((k, len(subsets), d), dtype=bool)
    spread = np.broadcast_to(attributes[:, None, :], (k, len(subsets), h))
    np.put_along_axis(sets, spread, np.broadcast_to(subsets, spread.shape), axis=2)
    return sets.reshape(-1, d)


def _mix_components(rows: MaskRows) -> Components:
    assert rows.mix is not None
    atoms, coefficients = expand(rows)
    shares = sparse.csc_array(rows.mix @ coefficients)
    first, number = unique_rows(atoms >= 0)
    order = np.argsort(number, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(first)))])
    distinct = [mask[unique_rows(mask)[0]] for mask in rows.masks]
    columns = [
        _quadratic(shares[:, order[start:stop]], atoms[order[start:stop]], distinct)
        for start, stop in pairwise(ends)
    ]
    table = sparse.hstack(columns, format="csr")
    return Components(atoms[first] >= 0, sparse.csr_array(table))


def expand(rows: MaskRows) -> tuple[NDArray[np.int32], sparse.csr_array]:
    """Write each inner row as a combination of atoms.

    Returns `atoms`: (a, d), number of the distinct mask on each attribute of U, -1 off U;
    `coefficients`: (o, a), ``Π_{not U} p_i``.
    """
    means = rows.means
    numbers = np.stack([unique_rows(mask)[1] for mask in rows.masks], axis=1).astype(np.int32)
    row, sets, values = subset_products(rows, np.ones_like(means), means)
    atoms = np.where(sets, numbers[row], np.int32(-1))
    first, number = unique_rows(atoms)
    coefficients = sparse.csr_array((values, (row, number)), shape=(len(means), len(first)))
    return atoms[first], coefficients


def _quadratic(
    shares: sparse.csc_array, atoms: NDArray[np.int32], distinct: Sequence[Bools]
) -> sparse.csc_array:
    """Return ``diag(B G Bᵀ)`` as a column, for coefficients B on the atoms of one set."""
    check_allocation("inner products of the atoms of one attribute set", (len(atoms),) * 2)
    gram = np.ones((len(atoms), len(atoms)))
    for i in map(int, np.flatnonzero(atoms[0] >= 0)):
        mask = distinct[i].astype(np.float64)
        mean = mask.mean(axis=1)
        pairs = mask @ mask.T / mask.shape[1] - np.outer(mean, mean)
        gram *= pairs[np.ix_(atoms[:, i], atoms[:, i])]
    block = sparse.csr_array(shares)
    used = np.flatnonzero(np.diff(block.indptr))
    dense = block[used].toarray()
    value = np.einsum("ij,ij->i", dense @ gram, dense)
    shape = (shares.shape[0], 1)
    return sparse.csc_array((np.maximum(value, 0.0), (used, np.zeros_like(used))), shape=shape)


def table_components(
    sizes: Sequence[int], sets: Bools, weights: Sequence[float] | Array
) -> Components:
    """Return the energies of one row of every weighted marginal table, on attribute sets (u, d).

    >>> table_components((2, 4), np.array([[False, True]]), [1.0]).energies.toarray().tolist()
    [[0.0625, 0.1875]]
    """
    check_allocation("masks of the marginals", (len(sets), sum(sizes)), 1)
    masks = [np.ones((len(sets), size), dtype=bool) for size in sizes]
    for mask, fixed in zip(masks, sets.T, strict=True):
        mask[fixed, 1:] = False  # its first code, for any
    mix = sparse.csr_array(sparse.diags_array(np.asarray(weights, dtype=np.float64)))
    return components(MaskRows(tuple(masks), mix))
