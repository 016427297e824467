"""The distinct paths behind a workload, each attribute's masks numbered once.

A forest repeats itself: the same path occurs in many trees, and an attribute's masks are few.
Whatever is a sum over pairs of paths of a product over attributes is computed on the patterns
and looked up.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Bools, Longs
from strategies.operators.masks.components import MaskRows
from strategies.operators.masks.packed_masks import unique_rows


@dataclass(frozen=True, eq=False)
class PatternRows:
    """Distinct paths by their patterns: per attribute, the distinct masks and every row's."""

    patterns: tuple[Bools, ...]  # (u_i, n_i)
    numbers: tuple[Longs, ...]  # (p,)
    mix: sparse.csr_array  # (q, p): the workload's rows over the paths
    groups: Longs | None = None  # (p,): paths of one group are pairwise disjoint

    @property
    def n_paths(self) -> int:
        """Distinct paths p."""
        return int(self.mix.shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the attributes."""
        return tuple(int(pattern.shape[1]) for pattern in self.patterns)

    @property
    def varied(self) -> list[int]:
        """Attributes whose masks are not all free."""
        return [i for i, pattern in enumerate(self.patterns) if not pattern.all()]

    def masks(self) -> list[Bools]:
        """Return one mask for each path, attribute by attribute: arrays of shape (p, n_i)."""
        pairs = zip(self.patterns, self.numbers, strict=True)
        return [pattern[number] for pattern, number in pairs]

    def shares(self) -> Array:
        """Return each path's share of all cells, shape (p,)."""
        result = np.ones(self.n_paths)
        for i in self.varied:
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
