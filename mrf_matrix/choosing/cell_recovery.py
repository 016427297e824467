r"""How a mechanism's answers tell the cells, and with what noise: public, before any measurement.

Cells are recovered by least squares, ``x = A⁺ y``. A sum of cells with weights p has noise of
variance

.. math::

    v\,\lVert (A^+)^\top p\rVert^2 = v\, p^\top (A^\top A)^+ p,

v that of one draw. It is not ``Σ p² var(x)``: cells that share a noisy total go together, and a
total that was measured beside them makes their errors cancel.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import query_matrix
from mrf_matrix.mechanisms import Mechanism, Release
from mrf_matrix.mechanisms.measurement.least_squares import estimated_cells, recovered_squares
from strategies.operators import (
    Identity,
    Marginals,
    MemoryCapError,
    Operator,
    RowSpaceError,
    Scaled,
    as_operator,
    check_allocation,
)
from strategies.problem.merging import can_merge, merge_columns

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CellRecovery:
    """All cells of a domain, or the groups of cells that a mechanism tells apart.

    Attributes
    ----------
    mechanism : Mechanism
    sizes : tuple of int
        Attribute sizes of the domain.
    n_classes : int
    matrix : Operator of shape (m, n)
        The measured matrix over the cells or groups.
    codes : ndarray of shape (n, d)
        Each cell, or the first cell of each group.
    noise : ndarray of shape (n,)
        Exact variance of each cell's noise in every class.
    """

    mechanism: Mechanism
    sizes: tuple[int, ...]
    n_classes: int
    matrix: Operator
    codes: NDArray[np.int32]
    noise: Array

    @classmethod
    def of(cls, mechanism: Mechanism, sizes: tuple[int, ...], n_classes: int) -> "CellRecovery":
        """Find how cells will be recovered.

        Raises
        ------
        RowSpaceError
            If the mechanism does not determine every cell.
        MemoryCapError
            If the cells cannot be enumerated.
        """
        recovery = mechanism.rounded.recovery
        check_allocation("estimates of the cells", (recovery.shape[1], 4 * n_classes))
        matrix, numbers = _groups(recovery)
        check_allocation("codes of the cells", (len(numbers), len(sizes)), 12)
        codes = np.stack(np.unravel_index(numbers, sizes), axis=1).astype(np.int32)
        one: Operator = Identity(len(numbers))
        if matrix is recovery and _is_symmetric(matrix):  # one cell speaks for all
            one = query_matrix(np.zeros((1, len(sizes)), dtype=np.int32), sizes)
        try:
            noise = mechanism.law.variance * recovered_squares(one, matrix)
        except RowSpaceError as error:
            raise RowSpaceError(
                f"release does not determine the single cells of its domain, on which forests "
                f"are scored without optimism: expected a release of cells, such as "
                f"strategy='identity' ({error})"
            ) from error
        noise = np.broadcast_to(noise, (len(numbers),))
        return cls(mechanism, sizes, n_classes, matrix, codes, noise)

    def cells(self, answers: Array) -> Array:
        """Return ``A⁺ @ answers``, shape (n, k)."""
        found = estimated_cells(self.matrix, answers)
        if found is None:
            raise MemoryCapError(
                f"release: its strategy of shape {self.matrix.shape} is too large to recover "
                f"cells from. Expected a smaller domain, or strategy='identity'."
            )
        return found

    def noise_of_sums(self, weights: Array) -> Array:
        """Return the noise variance of ``Σ_x weights[x, j] x`` for every j, shape (j,)."""
        return self.mechanism.law.variance * inverse_gram_squares(self.matrix, weights)

    @cached_property
    def noise_of_total(self) -> float:
        """Noise variance of the number of records, the sum of all cells in all classes."""
        return self.n_classes * float(self.noise_of_sums(np.ones((len(self.codes), 1)))[0])

    def blank_release(self) -> Release:
        """Return a release of nothing: it has the noise of one to come, and no answer."""
        return blank_release(self.mechanism, self.sizes, self.n_classes)


def blank_release(mechanism: Mechanism, sizes: tuple[int, ...], n_classes: int) -> Release:
    """Return a release whose answers are all zero: good for asking what noise it would have."""
    zeros = np.zeros((mechanism.rounded.matrix.shape[0], n_classes), dtype=np.int64)
    return Release(mechanism, zeros, "none" if mechanism.budget.is_infinite else "research", sizes)


def inverse_gram_squares(matrix: Operator, weights: Array) -> Array:
    """Return ``pᵀ (AᵀA)⁺ p`` of every column p of weights (n, j), shape (j,).

    Every cell must be determined, that is, A of full column rank.
    """
    if isinstance(matrix, Scaled):
        return inverse_gram_squares(matrix.inner, weights) / float(matrix.weight) ** 2
    if isinstance(matrix, Identity):
        return np.asarray((weights**2).sum(axis=0), dtype=np.float64)
    if isinstance(matrix, Marginals):
        return _marginal_squares(matrix, weights)
    return recovered_squares(as_operator(np.ascontiguousarray(weights.T), "weights"), matrix)


def _marginal_squares(matrix: Marginals, weights: Array) -> Array:
    """Return the squares for marginals, a table that tells all cells apart among them.

    Such a table holds every attribute of more than one code. With the cells θ and the total η
    alone, ``AᵀA = θ² I + η² J`` has the inverse of Sherman and Morrison. Otherwise ``Aᵀ z = p``
    for z that is p / θ on the cells, and ``(AᵀA)⁺ p = A⁺ z``.
    """
    sizes = np.asarray(matrix.domain_sizes)
    told = matrix.set_table[:, sizes > 1]
    own = np.where(told.all(axis=1), np.asarray(matrix.weights, dtype=np.float64), 0.0)
    place = int(own.argmax())
    if own[place] == 0:  # no table tells the cells apart: the general way says so
        return recovered_squares(as_operator(np.ascontiguousarray(weights.T), "weights"), matrix)
    rest = np.where(own > 0, 0.0, np.asarray(matrix.weights, dtype=np.float64))
    if not (told.any(axis=1) & (rest > 0)).any():
        square, total = float(own @ own), float(rest @ rest)
        share = total / (square + total * matrix.shape[1])
        return np.asarray(
            ((weights**2).sum(axis=0) - share * weights.sum(axis=0) ** 2) / square,
            dtype=np.float64,
        )
    check_allocation("answers of sums of cells", (matrix.shape[0], weights.shape[1]))
    answers = np.zeros((matrix.shape[0], weights.shape[1]))
    first = sum(matrix.rows[:place])
    answers[first : first + matrix.shape[1]] = weights / own[place]
    return np.asarray((weights * matrix.least_squares(answers)).sum(axis=0))


def _is_symmetric(matrix: Operator) -> bool:
    """Tell whether any cell can be taken for any other: codes of an attribute are all alike."""
    return isinstance(matrix.inner if isinstance(matrix, Scaled) else matrix, Identity | Marginals)


def _groups(recovery: Operator) -> tuple[Operator, NDArray[np.int64]]:
    """Return the matrix over groups of equal columns, and the first cell of each."""
    if _is_symmetric(recovery):  # tells all cells apart, or determines none
        return recovery, np.arange(recovery.shape[1])
    if not can_merge(recovery):
        raise MemoryCapError(
            f"release: the {recovery.shape[1]} cells of its domain are too many to score forests "
            f"on one by one. Expected a smaller domain."
        )
    merging = merge_columns(recovery)
    return merging.apply(recovery), merging.grouping.representatives
