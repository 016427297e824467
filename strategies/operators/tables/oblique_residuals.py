"""Oblique residuals: what each table adds to the smaller ones, along directions that are free.

Along an attribute of n codes, ``C = I - J/n`` takes off the mean. An integer matrix D stands for
it, with ``DᵀD = k C``. Tables of such on every set are residual marginals, and do not mix
components.

Attribute i has a frame: the row of ones and the rows of a matrix ``B_i`` that do not span it. With
``[z_i, Z_i]`` the pseudo-inverse of the frame, ``1ᵀz = 1``, ``B z = 0``, ``1ᵀZ = 0``, a row of an
attribute splits into ``w = (w z) 1ᵀ + (w Z) B``: its total and its residual. Differences of codes
have ``z = 1/n``, residuals orthogonal to the total, and components of their own; elsewhere z is
whatever serves best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Longs,
    Numbers,
    as_columns,
    check_allocation,
)
from strategies.operators.base.qr import has_full_rank, least_squares, qr_triangle
from strategies.operators.explicit import Dense
from strategies.operators.masks.anova import (
    Energies,
    Residuals,
    positive_energies,
    products_over,
    structure_energies,
)
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.tables.framed_tables import FramedTables, Side
from strategies.operators.tables.marginals import ProductTables


def differences(n: int) -> Longs:
    """Return integer rows D of an attribute of n codes with ``DᵀD = k (I - J/n)``.

    The difference of two codes (k = 2), the three of three (k = 3), and ``n I - J`` otherwise
    (k = n²): of such matrices the columns have the smallest L1 norms.

    >>> differences(2).tolist(), differences(3).tolist()
    ([[1, -1]], [[1, -1, 0], [1, 0, -1], [0, 1, -1]])
    >>> differences(4)[0].tolist()
    [3, -1, -1, -1]
    """
    unit = np.eye(n, dtype=np.int64)
    if n > 3:
        return n * unit - 1
    first, second = np.triu_indices(n, 1)
    return np.asarray(unit[first] - unit[second]) if n > 1 else np.zeros((1, 1), dtype=np.int64)


FREE = 1e-16  # squared length, beside 1, of what tells that the ones lie in a factor's row space


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ObliqueResiduals(ProductTables, FramedTables):
    """``θ_S`` times ``⊗ (B_i for i in S, the row of ones elsewhere)``, for each attribute set S.

    Parameters
    ----------
    factors : sequence of array-like or Dense, each of shape (m_i, n_i)
        ``B_i`` of every attribute; integers stay exact.
    attribute_sets : sequence of sequences of int
        The sets S, distinct; ``()`` is the total.
    weights : sequence of float or int
        One weight for each set, finite and not negative.

    Notes
    -----
    Rows of different sets are independent where no row space of a ``B_i`` holds the ones. A row
    ``⊗ w_i`` then has the error ``Σ_S 1/θ_S² Π_S |w_i Z_i|² Π_{not S} (w_i z_i)²``, answers are
    taken back along one axis after the other, and ``Σ_S θ_S² Π_S max_c |B_i e_c|²`` is the exact
    squared sensitivity: all sets have the same worst codes.

    Examples
    --------
    >>> A = ObliqueResiduals([[[1, 0]], [[1, -1]]], [(), (0,)], [1, 2])
    >>> A.to_dense()
    array([[1., 1., 1., 1.],
           [2., 2., 0., 0.]])
    >>> A.integer_sensitivity("l2")
    5
    """

    singular, plural = "oblique residual", "oblique residuals"

    @classmethod
    def of_codes(
        cls, sizes: Sequence[int], attribute_sets: Sequence[Sequence[int]], weights: Sequence[float]
    ) -> "ObliqueResiduals":
        """Return what each marginal adds to smaller ones (Xiao, He, Zhang and Kifer, 2023).

        >>> ObliqueResiduals.of_codes((2, 2), [(), (0,)], [1, 1]).to_dense()
        array([[ 1.,  1.,  1.,  1.],
               [ 1.,  1., -1., -1.]])
        """
        if any(sizes[i] == 1 for chosen in attribute_sets for i in chosen):
            raise ValueError("attribute_sets: an attribute of one code is in a set, leave it out.")
        for size in set(sizes):
            check_allocation("differences of an attribute's codes", (size, size), 16)
        known = {size: Dense(differences(size)) for size in set(sizes)}
        return cls([known[size] for size in sizes], attribute_sets, weights)

    @cached_property
    def sides(self) -> tuple[Side, ...] | None:
        """The coordinates of every attribute, for B_i of largest column norm 1.

        None where the ones lie in the row space of a factor: then rows of sets depend on others.
        """
        sides = []
        for i, scale in enumerate(self._scales):
            frame = self._frame(i, scale)
            inverse = least_squares(frame, np.eye(len(frame)))
            ones = frame @ inverse[:, 0]
            ones[0] -= 1.0
            if ones @ ones > FREE:
                return None
            spans = len(frame) >= frame.shape[1] and has_full_rank(qr_triangle(frame))
            sides.append(Side(inverse, None if spans else (inverse, frame), scale))
        return tuple(sides)

    def _frame(self, i: int, scale: float) -> Array:
        """Return the ones and ``B_i``, of which nothing is measured where i is in no set."""
        ones = np.ones((1, self.domain_sizes[i]))
        if not any(i in chosen for chosen in self.attribute_sets):
            return np.vstack([ones, np.zeros_like(ones).repeat(len(self.factors[i]), axis=0)])
        return np.vstack([ones, self.factors[i].array / scale])

    @cached_property
    def _scales(self) -> Array:
        """``max_c |B_i e_c|`` of every attribute, 1 for rows of zeros."""
        norms = [float(self.factor_norm(i, "l2")) for i in range(len(self.factors))]
        return np.sqrt([norm or 1.0 for norm in norms])

    @cached_property
    def has_cheap_inverse(self) -> bool:
        """Whether the frames' inverses along the axes are the pseudo-inverse itself."""
        if self.is_diagonal or self.frame_inverses is None:
            return self.is_diagonal
        spans = all(map(self.spans_attribute, range(len(self.factors))))
        if spans and np.count_nonzero(self.weights) == 2 ** len(self.domain_sizes):
            return True  # full column rank
        firsts = (one[:, 0] for one in self.frame_inverses)
        return all(np.allclose(z, 1.0 / len(z), rtol=1e-12, atol=0.0) for z in firsts)

    def components_below(self, used: Sequence[int]) -> tuple[Bools, Array]:
        """Return measured sets of some attributes, and ``(θ_S Π_S max_c |B_i e_c|)²`` of each."""
        others = [i for i in range(len(self.factors)) if i not in used]
        below = ~self.set_table[:, others].any(axis=1) & (self._set_values > 0)
        return self.set_table[below], self._set_values[below]

    @cached_property
    def _set_values(self) -> Array:
        squares = np.asarray(self.weights, dtype=np.float64) ** 2
        return squares * products_over(self.set_table, self._scales**2)

    # Differences of codes -------------------------------------------------------------------

    @cached_property
    def is_diagonal(self) -> bool:
        """Whether all that is measured along attributes are differences of codes."""
        used = {i for chosen in self.attribute_sets for i in chosen}
        parts = {(id(self.factors[i]), self.factors[i]) for i in used}
        return all(np.array_equal(one.array, differences(one.shape[1])) for _, one in parts)

    def eigenvalues(self, sets: Bools) -> Array:
        """Return ``λ_U / n = θ_U² Π_U k_i / n_i`` for sets (u, d): zero where not measured."""
        scales = [float(size) if size > 3 else 1.0 for size in self.domain_sizes]
        own = np.asarray(self.weights, dtype=np.float64) ** 2
        own *= products_over(self.set_table, np.array(scales))
        number = unique_rows(np.concatenate([self.set_table, sets]))[1]
        values = np.zeros(int(number.max()) + 1)
        values[number[: len(own)]] = own
        return values[number[len(own) :]]

    def residuals(self, answers: Numbers) -> Residuals:
        tables = self.split(as_columns(self.checked_answers(answers)))
        parts = zip(self.table_blocks(), self.set_table, tables, strict=True)
        known = zip(parts, self.eigenvalues(self.set_table), strict=True)
        return {
            tuple(map(bool, key)): rows.rmatmat(table) / value
            for ((_, rows), key, table), value in known
            if value > 0
        }


@structure_energies.register
def difference_energies(workload: ObliqueResiduals) -> Energies | None:
    """Return the energies of differences of codes: a set reaches its own component only."""
    if not workload.is_diagonal:
        return None
    sets = workload.set_table
    known = Energies(workload.domain_sizes, sets, workload.eigenvalues(sets), True)
    return positive_energies(known.sizes, sets, known.values * known.ranks, True)
