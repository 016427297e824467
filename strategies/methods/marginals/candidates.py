"""Attribute sets worth measuring: all of them up to 16 attributes, generated ones above that.

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

from itertools import combinations
from math import comb

import numpy as np

from strategies.methods.marginals.algebra import set_cells
from strategies.operators import Array, current_cap, fits
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.energies import Energies
from strategies.operators.masks.packed_masks import contained, unique_rows

ENUMERATED = 16  # attributes up to which every subset is a candidate

MOST_SEEDS = 200
TRIPLES_A_SECOND = 1.5e8
"""Pairs of a seed and a set, each compared with every set, in the rounds of unions."""

BYTES_A_CELL = 128  # what a cell of a marginal may take in all, from release to reconstruction


def candidate_sets(
    energies: Energies, limit: int = 3000, rounds: int = 3, work: float = 2.0
) -> Bools:
    """Return attribute sets that together contain every component of a workload.

    `limit`: most generated sets, where there are more attributes than `ENUMERATED`; `rounds`: how
    often the best unions found so far are joined again; `work`: seconds of the reference machine
    for that.

    Of shape (K, d): only sets whose table stays within the memory cap, beside the maximal
    components.
    """
    d = len(energies.sizes)
    if d <= ENUMERATED:
        every = (np.arange(1 << d)[:, None] >> np.arange(d) & 1).astype(bool)
        small = set_cells(every, energies.sizes) <= largest_table()
        return distinct(np.concatenate([energies.maximal, every[small]]))
    base = energies.maximal
    pool = distinct(np.concatenate([base, _unions(base, energies, limit // 2, rounds, work)]))
    below = energies.sets[np.argsort(-energies.values)][: max(limit - len(pool), 0)]
    return distinct(np.concatenate([pool, below, np.zeros((1, d), dtype=bool)]))


def largest_table() -> float:
    """Return the cells that one marginal may have under the memory cap in force."""
    return current_cap() / BYTES_A_CELL


def distinct(sets: Bools) -> Bools:
    """Return every set once."""
    return sets[unique_rows(sets)[0]]


def _unions(base: Bools, energies: Energies, limit: int, rounds: int, work: float) -> Bools:
    """Return the best unions of maximal sets, joined greedily round after round."""
    found, values = base, np.ones(len(base))
    for _ in range(rounds):
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
        inside = contained(base, part).T
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
        groups = dealt(energies.sizes, g) if unions else np.zeros((0, d), dtype=bool)
        for m in unions:
            if fits((len(energies.values), comb(g, m)), 4):
                sets = np.array(
                    [groups[list(chosen)].any(0) for chosen in combinations(range(g), m)]
                )
                found.append((equal_loss(energies, sets), sets))
    ranked = sorted(found, key=lambda one: one[0])[:MOST_DESIGNS]
    return [sets for loss, sets in ranked if loss < np.inf]


def dealt(sizes: tuple[int, ...], count: int) -> Bools:
    """Return the attributes of each group: the largest first, each to the smallest group.

    >>> dealt((2, 2, 4), 2).astype(int).tolist()
    [[0, 0, 1], [1, 1, 0]]
    """
    logs, groups = np.log2(sizes), np.zeros((count, len(sizes)), dtype=bool)
    for i in np.argsort(-logs, kind="stable"):
        groups[np.argmin(groups @ logs), i] = True
    return groups


def equal_loss(energies: Energies, sets: Bools) -> float:
    """Return the loss for Laplace noise of marginals that all weigh the same."""
    cells = set_cells(sets, energies.sizes)
    if cells.max() > largest_table():
        return float("inf")
    eigenvalues = contained(energies.sets, sets) @ (1 / cells)
    if not (eigenvalues > 0).all():
        return float("inf")
    return float(len(sets) ** 2 * np.sum(energies.values / eigenvalues))
