"""Parts of a forest whose cells can be searched, where those of the whole cannot.

A strategy of parts side by side has a squared sensitivity of at most the sum of theirs, and an
error of their sum. With weights α_j² = √(e_j / s_j²) of the parts, for errors e_j and squared
sensitivities s_j², the loss is ``(Σ_j √loss_j)²``: what each part gains is gained.
"""

from dataclasses import replace
from math import prod

import numpy as np
from scipy import sparse

from strategies.bounds.path_patterns import PatternRows
from strategies.operators.base.arrays import Longs
from strategies.operators.masks.attribute_sets import members, unique_rows
from strategies.operators.masks.heaviest_cell import MOST_TOGETHER

MOST_CELLS = 2 * 10**8  # cells of a part, codes that it does not tell apart counted once


def searchable_parts(paths: PatternRows) -> list[Longs]:
    """Return the paths of parts with few enough cells each: whole trees, alike ones together."""
    whole = [np.arange(paths.n_paths)]
    if paths.groups is None or np.diff(paths.mix.indptr).max(initial=0) > 1:
        return whole
    if distinct_cells(paths, whole[0]) <= MOST_TOGETHER:
        return whole
    trees = members(np.unique(paths.groups, return_inverse=True)[1].astype(np.int64))
    parts = []
    while trees:
        part = trees.pop()
        while trees:
            cells = [distinct_cells(paths, np.concatenate([part, tree])) for tree in trees]
            nearest = int(np.argmin(cells))
            if cells[nearest] > MOST_CELLS:
                break
            part = np.concatenate([part, trees.pop(nearest)])
        parts.append(np.sort(part))
    return parts


def distinct_cells(paths: PatternRows, chosen: Longs) -> float:
    """Return the number of cells, codes that some paths do not tell apart counted once."""
    counts = []
    for i in paths.varied:
        patterns = paths.patterns[i][np.unique(paths.numbers[i][chosen])]
        counts.append(len(unique_rows(np.ascontiguousarray(patterns.T))[0]))
    return float(prod(counts))


def part_of(paths: PatternRows, chosen: Longs) -> PatternRows:
    """Return some paths, with the workload's rows over them."""
    mix = sparse.csr_array(paths.mix[:, chosen])
    return replace(
        paths,
        numbers=tuple(number[chosen] for number in paths.numbers),
        mix=sparse.csr_array(mix[np.diff(mix.indptr) > 0]),
        groups=None if paths.groups is None else paths.groups[chosen],
    )
