"""The loss of weighted marginals in numbers of attribute sets, and the sets worth measuring.

With ``w_U = tr(WᵀW E_U)/n`` (the workload's energy on the component of U) and
``λ_U = Σ_{S ⊇ U} θ_S² / Π_{i ∈ S} n_i`` (the Gram's eigenvalue there, over n), the loss of the
marginals with weights θ is ``(Σ θ)² Σ_U w_U/λ_U`` for Laplace noise and ``(Σ θ²) Σ_U w_U/λ_U``
for Gaussian noise. Nothing depends on the number of cells.

A marginal on S answers every row that restricts attributes of S only, at an error in proportion
to the cells of S. One set S for the m rows of the sets F inside it pays, next to one marginal
for each F, when ``(Σ m_F)^(1/3) cells_S^(1/3) < Σ (m_F cells_F)^(1/3)`` (the cube-root law of
optimal weights); the ratio ranks the unions that are generated.

For Laplace noise sets made of groups are where descents start: the attributes are dealt into g
groups of about the same number of cells, and all unions of m of them are measured alike. One group
is the Identity, d groups are the tables of m attributes, and ``g = t + 1``, ``m = t`` covers every
t attributes by few large tables: all tables of three of 12 binary attributes at 0.85 of the
Identity, from four tables of nine attributes.
"""

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators import Array, Operator, current_cap, fits
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.anova import (
    Energies,
    gram_energies,
    positive_energies,
    products_over,
)
from strategies.operators.masks.components import MAX_FIXED, components_of, mask_rows
from strategies.operators.masks.packed_masks import containment, unique_rows

Ints = NDArray[np.int64]


def expanded_energies(workload: Operator, known: Energies | None) -> Energies | None:
    """Return the energies of a workload, None where its structure offers no way to them.

    `known`: what the structure's own rule says (`structure_energies`), asked already since it takes
    seconds. Rows of masks, and their combinations, are expanded attribute set by attribute set; any
    other workload over a product domain goes through its Gram, where that fits the memory cap.
    """
    if known is not None and (known.is_invariant or workload.sizes is not None):
        return known
    rows = mask_rows(workload)
    if rows is not None and rows.is_fixed.sum(axis=1).max(initial=0) <= MAX_FIXED:
        parts = components_of(workload, rows)
        return positive_energies(rows.sizes, parts.sets, parts.totals)
    sizes, n = workload.sizes, workload.shape[1]
    if sizes is None or len(sizes) > MAX_FIXED or not fits((n, n), 24):
        return None
    return gram_energies(workload.gram_dense(), sizes)


def lattice_sum(values: Array, d: int, over: Literal["supersets", "subsets"]) -> Array:
    """Return sums over the supersets or subsets of each of 2**d sets, bit i of a number for i.

    >>> lattice_sum(np.array([1.0, 10.0, 100.0, 1000.0]), 2, "supersets").tolist()
    [1111.0, 1010.0, 1100.0, 1000.0]
    >>> lattice_sum(np.array([1.0, 10.0, 100.0, 1000.0]), 2, "subsets").tolist()
    [1.0, 11.0, 101.0, 1111.0]
    """
    result = np.array(values, dtype=np.float64)
    into = 0 if over == "supersets" else 1
    for i in range(d):
        view = result.reshape(-1, 2, 1 << i)
        view[:, into] += view[:, 1 - into]
    return result


@dataclass(frozen=True, eq=False)
class SparseCover:
    """Which of K candidate sets contain which of u components: a matrix of ``1/Π_{S} n_i``."""

    matrix: sparse.csc_array

    @property
    def work(self) -> float:
        return 6e-6 + 1.5e-9 * float(self.matrix.nnz)

    def eigenvalues(self, squares: Array) -> Array:
        return np.asarray(self.matrix @ squares)

    def pull(self, gradient: Array) -> Array:
        return np.asarray(gradient @ self.matrix)

    def columns_of(self, index: Ints) -> "SparseCover":
        return SparseCover(self.matrix[:, index])


@dataclass(frozen=True, eq=False)
class LatticeCover:
    """The same over all subsets of d <= 16 attributes, by fast superset and subset sums."""

    d: int
    candidates: Ints
    components: Ints
    inverse_cells: Array

    @property
    def work(self) -> float:
        return self.d * (3e-6 + 1.2e-9 * float(1 << self.d))

    def eigenvalues(self, squares: Array) -> Array:
        table = np.zeros(1 << self.d)
        table[self.candidates] = squares * self.inverse_cells
        return lattice_sum(table, self.d, "supersets")[self.components]

    def pull(self, gradient: Array) -> Array:
        table = np.zeros(1 << self.d)
        table[self.components] = gradient
        return lattice_sum(table, self.d, "subsets")[self.candidates] * self.inverse_cells

    def columns_of(self, index: Ints) -> "Cover":
        """Return the cover by some of the candidate sets, explicit where that is cheaper."""
        chosen, inverse = self.candidates[index], self.inverse_cells[index]
        if len(self.components) * len(chosen) <= EXPLICIT_PAIRS:
            outside = self.components[:, None] & ~chosen
            explicit = _explicit(sparse.csc_array(outside == 0), inverse)
            if explicit.work < self.work:
                return explicit
        return LatticeCover(self.d, chosen, self.components, inverse)


Cover: TypeAlias = SparseCover | LatticeCover

EXPLICIT_PAIRS = 2 * 10**7
"""Pairs of a component and a candidate set up to which containment is tried explicitly."""


def make_cover(energies: Energies, candidates: Bools) -> Cover:
    """Return the cheaper form of containment between components and candidate sets.

    Raises MemoryCapError if there are more than 16 attributes and containment does not fit the
    memory cap.
    """
    d = len(energies.sizes)
    inverse = 1 / set_cells(candidates, energies.sizes)
    if d <= 16:
        numbers = 1 << np.arange(d)
        lattice = LatticeCover(d, candidates @ numbers, energies.sets @ numbers, inverse)
        return lattice.columns_of(np.arange(len(candidates)))
    return _explicit(containment(energies.sets, candidates), inverse)


def _explicit(inside: sparse.csc_array, inverse: Array) -> SparseCover:
    inside.data = np.repeat(inverse, np.diff(inside.indptr))
    return SparseCover(inside)


def set_cells(sets: Bools, sizes: tuple[int, ...]) -> Array:
    """Return ``Π_{i ∈ S} n_i`` of every set, as floats."""
    return products_over(sets, np.asarray(sizes, dtype=np.float64))


ENUMERATED = 16  # attributes up to which every subset is a candidate

MOST_SEEDS = 200
ROUNDS = 3  # in which the best unions found so far are joined again
TRIPLES_A_SECOND = 1.5e8
"""Pairs of a seed and a set, each compared with every set, in the rounds of unions."""

BYTES_A_CELL = 128  # what a cell of a marginal may take in all, from release to reconstruction


def candidate_sets(energies: Energies, limit: int = 3000, work: float = 2.0) -> Bools:
    """Return attribute sets that together contain every component of a workload.

    Only those whose table stays within the memory cap, beside the maximal components; of more than
    `ENUMERATED` attributes `limit` generated ones, joined for some seconds of work.
    """
    d = len(energies.sizes)
    if d <= ENUMERATED:
        every = (np.arange(1 << d)[:, None] >> np.arange(d) & 1).astype(bool)
        small = set_cells(every, energies.sizes) <= largest_table()
        return distinct(np.concatenate([energies.maximal, every[small]]))
    base = energies.maximal
    pool = distinct(np.concatenate([base, _unions(base, energies, limit // 2, work)]))
    below = energies.sets[np.argsort(-energies.values)][: max(limit - len(pool), 0)]
    return distinct(np.concatenate([pool, below, np.zeros((1, d), dtype=bool)]))


def largest_table() -> float:
    """Return the cells that one marginal may have under the memory cap in force."""
    return current_cap() / BYTES_A_CELL


def distinct(sets: Bools) -> Bools:
    return sets[unique_rows(sets)[0]]


def are_among(sets: Bools, known: Bools) -> Bools:
    """Tell which sets are among known ones."""
    rows = {row.tobytes() for row in known}
    return np.array([row.tobytes() in rows for row in sets], dtype=bool)


def _unions(base: Bools, energies: Energies, limit: int, work: float) -> Bools:
    """Return the best unions of maximal sets, joined greedily round after round."""
    found, values = base, np.ones(len(base))
    for _ in range(ROUNDS):
        count = min(MOST_SEEDS, max(1, int(TRIPLES_A_SECOND * work / len(base) ** 2)))
        seeds = found[np.argsort(-values, kind="stable")[:count]]
        near = seeds.astype(np.float32) @ base.T.astype(np.float32) > 0
        pairs = np.argwhere(near)
        if not len(pairs):
            break
        joined = seeds[pairs[:, 0]] | base[pairs[:, 1]]
        joined = joined[set_cells(joined, energies.sizes) <= min(largest_table(), 2.0**20)]
        joined = np.concatenate([found, joined])
        first = unique_rows(joined)[0]
        known = first < len(found)
        ranked = np.empty(len(first))
        ranked[known] = values[first[known]]
        ranked[~known] = worth(joined[first[~known]], base, energies)
        best = np.argsort(-ranked, kind="stable")[:limit]
        found, values = joined[first[best]], ranked[best]
    return found


def worth(sets: Bools, base: Bools, energies: Energies) -> Array:
    """Return how many times better a set is than the marginals of the base sets inside it.

    ``Σ_{F ⊆ S} (m_F cells_F)^(1/3) / (cells_S Σ m_F)^(1/3)`` with m_F the energy of the
    component of F in units of its cells.
    """
    index = {
        row.tobytes(): value for row, value in zip(energies.sets, energies.values, strict=True)
    }
    cells = set_cells(base, energies.sizes)
    rows = np.array([index[row.tobytes()] for row in base]) * cells
    result = np.empty(len(sets))
    for start in range(0, len(sets), 4096):
        part = sets[start : start + 4096]
        inside = containment(base, part).T
        separate = inside @ np.cbrt(rows * cells)
        joint = np.cbrt(set_cells(part, energies.sizes) * (inside @ rows))
        result[start : start + 4096] = np.divide(
            separate, joint, out=np.zeros(len(part)), where=joint > 0
        )
    return result


MOST_SETS = 500  # unions of a design
MOST_DESIGNS = 2


def group_designs(energies: Energies) -> list[Bools]:
    """Return the best designs at equal weights, best first, each of shape (K, d).

    Only those that hold every component of the workload, with tables within the memory cap. The
    largest array has a byte for every component and union.
    """
    d, order = len(energies.sizes), int(energies.sets.sum(axis=1).max(initial=0))
    found: list[tuple[float, Bools]] = []
    most = np.log2(largest_table()) / max(1.0, float(np.log2(energies.sizes).sum()))
    for g in range(1, d + 1):
        unions = [m for m in range(max(1, min(order, g)), max(g, 2)) if m <= most * g]
        unions = [m for m in unions if comb(g, m) <= MOST_SETS]
        groups = deal_attributes(energies.sizes, g) if unions else np.zeros((0, d), dtype=bool)
        for m in unions:
            if fits((len(energies.values), comb(g, m)), 4):
                sets = np.array(
                    [groups[list(chosen)].any(0) for chosen in combinations(range(g), m)]
                )
                found.append((equal_loss(energies, sets), sets))
    ranked = sorted(found, key=lambda one: one[0])[:MOST_DESIGNS]
    return [sets for loss, sets in ranked if loss < np.inf]


def deal_attributes(sizes: tuple[int, ...], count: int) -> Bools:
    """Return the attributes of each group: the largest first, each to the smallest group.

    >>> deal_attributes((2, 2, 4), 2).astype(int).tolist()
    [[0, 0, 1], [1, 1, 0]]
    """
    logs, groups = np.log2(sizes), np.zeros((count, len(sizes)), dtype=bool)
    for i in np.argsort(-logs, kind="stable"):
        groups[np.argmin(groups @ logs), i] = True
    return groups


def equal_loss(energies: Energies, sets: Bools) -> float:
    cells = set_cells(sets, energies.sizes)
    if cells.max() > largest_table():
        return float("inf")
    eigenvalues = containment(energies.sets, sets) @ (1 / cells)
    if not (eigenvalues > 0).all():
        return float("inf")
    return float(len(sets) ** 2 * np.sum(energies.values / eigenvalues))
