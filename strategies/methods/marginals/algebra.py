"""The loss of weighted marginals, in numbers of attribute sets.

With ``w_U = tr(WᵀW E_U)/n`` (the workload's energy on the component of U) and
``λ_U = Σ_{S ⊇ U} θ_S² / Π_{i ∈ S} n_i`` (the Gram's eigenvalue there, over n), the loss of the
marginals with weights θ is ``(Σ θ)² Σ_U w_U/λ_U`` for Laplace noise and ``(Σ θ²) Σ_U w_U/λ_U``
for Gaussian noise. Nothing depends on the number of cells.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators import Array, Norm, Operator, fits
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.components import MAX_FIXED, components_of, mask_rows
from strategies.operators.masks.energies import (
    Energies,
    gram_energies,
    positive_energies,
    products_over,
)
from strategies.operators.masks.packed_masks import contained

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
    if rows is not None and rows.fixed.sum(axis=1).max(initial=0) <= MAX_FIXED:
        parts = components_of(workload, rows)
        return positive_energies(rows.sizes, parts.sets, parts.totals)
    sizes, n = workload.sizes, workload.shape[1]
    if sizes is None or len(sizes) > MAX_FIXED or not fits((n, n), 24):
        return None
    return gram_energies(workload.gram_dense(), sizes)


def superset_sum(values: Array, d: int) -> Array:
    """Return ``out[U] = Σ_{S ⊇ U} values[S]`` over all 2**d sets, bit i of a number for i.

    >>> superset_sum(np.array([1.0, 10.0, 100.0, 1000.0]), 2).tolist()
    [1111.0, 1010.0, 1100.0, 1000.0]
    """
    result = np.array(values, dtype=np.float64)
    for i in range(d):
        view = result.reshape(-1, 2, 1 << i)
        view[:, 0] += view[:, 1]
    return result


def subset_sum(values: Array, d: int) -> Array:
    """Return ``out[S] = Σ_{U ⊆ S} values[U]`` over all 2**d sets, bit i of a number for i.

    >>> subset_sum(np.array([1.0, 10.0, 100.0, 1000.0]), 2).tolist()
    [1.0, 11.0, 101.0, 1111.0]
    """
    result = np.array(values, dtype=np.float64)
    for i in range(d):
        view = result.reshape(-1, 2, 1 << i)
        view[:, 1] += view[:, 0]
    return result


@dataclass(frozen=True, eq=False)
class SparseCover:
    """Which of K candidate sets contain which of u components: a matrix of ``1/Π_{S} n_i``."""

    matrix: sparse.csc_array

    @property
    def work(self) -> float:
        """Seconds of one product on the reference machine."""
        return 6e-6 + 1.5e-9 * float(self.matrix.nnz)

    def eigenvalues(self, squares: Array) -> Array:
        """Return λ."""
        return np.asarray(self.matrix @ squares)

    def pull(self, gradient: Array) -> Array:
        """Return the transposed product."""
        return np.asarray(gradient @ self.matrix)

    def columns_of(self, index: Ints) -> "SparseCover":
        """Return the columns of some candidate sets."""
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
        """Seconds of one product on the reference machine."""
        return self.d * (3e-6 + 1.2e-9 * float(1 << self.d))

    def eigenvalues(self, squares: Array) -> Array:
        """Return λ."""
        table = np.zeros(1 << self.d)
        table[self.candidates] = squares * self.inverse_cells
        return superset_sum(table, self.d)[self.components]

    def pull(self, gradient: Array) -> Array:
        """Return the transposed product."""
        table = np.zeros(1 << self.d)
        table[self.components] = gradient
        return subset_sum(table, self.d)[self.candidates] * self.inverse_cells

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
    return _explicit(contained(energies.sets, candidates), inverse)


def _explicit(inside: sparse.csc_array, inverse: Array) -> SparseCover:
    inside.data = np.repeat(inverse, np.diff(inside.indptr))
    return SparseCover(inside)


def set_cells(sets: Bools, sizes: tuple[int, ...]) -> Array:
    """Return ``Π_{i ∈ S} n_i`` of every set, as floats."""
    return products_over(sets, np.asarray(sizes, dtype=np.float64))


def marginals_loss(weights: Array, cover: Cover, energies: Energies, norm: Norm) -> float:
    """Return the loss of the candidate sets' marginals with weights θ.

    ``(Σ θ)² Σ w/λ`` for "l1" and ``(Σ θ²) Σ w/λ`` for "l2"; infinite where a component that the
    workload reaches is not contained in any set of positive weight.
    """
    eigenvalues = cover.eigenvalues(weights**2)
    if not (eigenvalues > 0).all():
        return float("inf")
    cost = weights.sum() ** 2 if norm == "l1" else weights @ weights
    return float(cost * np.sum(energies.values / eigenvalues))
