"""Attribute sets made of groups: where descents for Laplace noise start at once.

The attributes are dealt into g groups of about the same number of cells, and all unions of m of
them are measured alike. One group is the Identity, d groups are the tables of m attributes, and
``g = t + 1``, ``m = t`` covers every t attributes by few large tables: all tables of three of 12
binary attributes at 0.85 of the Identity, from four tables of nine attributes.
"""

from itertools import combinations
from math import comb

import numpy as np

from strategies.methods.marginals.algebra import set_cells
from strategies.methods.marginals.candidates import largest_table
from strategies.operators import fits
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.attribute_sets import contained
from strategies.operators.masks.energies import Energies

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
