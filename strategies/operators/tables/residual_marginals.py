"""What each marginal adds to the smaller ones, measured set by set.

Along an attribute of n codes, ``C = I - J/n`` takes off the mean. An integer matrix D stands for
it, with ``DᵀD = k C``: the difference of two codes (k = 2), the three differences of three
(k = 3), and ``n I - J`` otherwise (k = n²). Of these the columns have the smallest L1 norms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from strategies.operators.base.arrays import Array, Bools, Longs, Numbers, as_columns
from strategies.operators.base.operator import Norm
from strategies.operators.masks.attribute_sets import unique_rows
from strategies.operators.masks.energies import Energies, products_over, structure_energies
from strategies.operators.masks.residuals import Residuals
from strategies.operators.tables.product_tables import ProductTables


def differences(n: int) -> Longs:
    """Return the integer matrix D of an attribute of n codes.

    >>> differences(2).tolist(), differences(3).tolist()
    ([[1, -1]], [[1, -1, 0], [1, 0, -1], [0, 1, -1]])
    >>> differences(4)[0].tolist()
    [3, -1, -1, -1]
    """
    if n > 3:
        return n * np.eye(n, dtype=np.int64) - 1
    first, second = np.triu_indices(n, 1)
    unit = np.eye(n, dtype=np.int64)
    return np.asarray(unit[first] - unit[second]) if n > 1 else np.zeros((1, 1), dtype=np.int64)


def difference_scale(n: int) -> int:
    """Return k with ``DᵀD = k (I - J/n)``."""
    return n * n if n > 3 else n


def difference_norm(n: int, norm: Norm) -> int:
    """Return the L1 norm ("l1") or the squared L2 norm ("l2") of every column of D."""
    if norm == "l2":
        return difference_scale(n) * (n - 1) // n
    return 2 * (n - 1) if n > 3 else n - 1


def difference_rows(n: int) -> int:
    """Return the number of rows of D."""
    return n if n > 3 or n == 1 else n * (n - 1) // 2


def difference_square(n: int) -> int:
    """Return the squared L2 norm of every row of D."""
    return n * (n - 1) if n > 3 else 2


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ResidualMarginals(ProductTables):
    """``θ_U`` times ``⊗ (D on U, the row of ones elsewhere)``, for each attribute set U.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the attributes.
    attribute_sets : sequence of sequences of int
        The sets U, distinct; ``()`` is the total.
    weights : sequence of float or int
        One weight for each set, finite and not negative.

    Notes
    -----
    Sets do not meet: ``AᵀA = Σ_U θ_U² Π_{U} k_i Π_{not U} n_j E_U``, so each component has a weight
    of its own. For Gaussian noise the best weights have a closed form (Xiao, He, Zhang and Kifer,
    2023). Every column has L1 norm ``Σ_U θ_U Π_U |D_i|``.

    Examples
    --------
    >>> A = ResidualMarginals((2, 2), [(), (0,)], [1, 1])
    >>> A.to_dense()
    array([[ 1.,  1.,  1.,  1.],
           [ 1.,  1., -1., -1.]])
    """

    singular, plural = "residual marginal", "residual marginals"

    def __init__(
        self,
        sizes: Sequence[int],
        attribute_sets: Sequence[Sequence[int]],
        weights: Sequence[float],
    ) -> None:
        super().__init__(sizes, attribute_sets, weights)
        if any(self.domain_sizes[i] == 1 for chosen in self.attribute_sets for i in chosen):
            raise ValueError(
                "attribute_sets names an attribute of one code: expected attributes that differ "
                "between cells."
            )

    def factor(self, i: int) -> Longs:
        """Return the differences of the attribute's codes."""
        return differences(self.domain_sizes[i])

    def factor_rows(self, i: int) -> int:
        """Return the number of their rows."""
        return difference_rows(self.domain_sizes[i])

    def factor_norm(self, i: int, norm: Norm) -> int:
        """Return the L1 norm, or the squared L2 norm, of every column of them."""
        return difference_norm(self.domain_sizes[i], norm)

    def factor_squares(self, i: int) -> Array:
        """Return the squared L2 norms of their rows."""
        size = self.domain_sizes[i]
        return np.full(difference_rows(size), float(difference_square(size)))

    def largest_entry(self) -> int:
        """Return the largest absolute entry of integer weights, exactly."""
        pairs = zip(self.integer_weights(), self.attribute_sets, strict=True)
        return max(abs(weight) * self._largest(chosen) for weight, chosen in pairs)

    def largest_scale(self) -> int:
        """Return the largest absolute entry at weight one, exactly."""
        return max(map(self._largest, self.attribute_sets))

    def _largest(self, chosen: tuple[int, ...]) -> int:
        sizes = [self.domain_sizes[i] for i in chosen]
        return prod(size - 1 if size > 3 else 1 for size in sizes)

    @property
    def _scales(self) -> Array:
        """``λ_U / (n θ_U²) = Π_U k_i / n_i`` of every set."""
        return residual_scales(self.domain_sizes, self.set_table)

    def eigenvalues(self, sets: Bools) -> Array:
        """Return ``λ_U / n`` for attribute sets (u, d): zero where U is not measured."""
        own = np.asarray(self.weights, dtype=np.float64) ** 2 * self._scales
        number = unique_rows(np.concatenate([self.set_table, sets]))[1]
        values = np.zeros(int(number.max()) + 1)
        values[number[: len(own)]] = own
        return values[number[len(own) :]]

    def residuals(self, answers: Numbers) -> Residuals:
        """Return the components of ``n A⁺ @ answers``, each as a table over its own attributes."""
        checked = self.checked_answers(answers)
        tables = self.split(as_columns(checked))
        result: Residuals = {}
        for chosen, weight, key, scale, table in zip(
            self.attribute_sets, self.weights, self.set_table, self._scales, tables, strict=True
        ):
            if weight:
                inverse = 1.0 / (float(weight) * scale)
                result[tuple(map(bool, key))] = inverse * self.spread(chosen, table)
        return result


def residual_scales(sizes: Sequence[int], sets: Bools) -> Array:
    """Return ``Π_{i in U} k_i / n_i`` of every attribute set, shape (u,)."""
    return products_over(sets, np.array([difference_scale(size) / size for size in sizes]))


@structure_energies.register
def residual_energies(workload: ResidualMarginals) -> Energies:
    """Return the energies: a set reaches its own component only."""
    sets = workload.set_table
    known = Energies(workload.domain_sizes, sets, workload.eigenvalues(sets), True)
    values = known.values * known.ranks
    return Energies(known.sizes, sets[values > 0], values[values > 0], True)
