"""Differences of codes: residuals that are orthogonal to totals, each a component of its own.

Along an attribute of n codes, ``C = I - J/n`` takes off the mean. An integer matrix D stands for
it, with ``DᵀD = k C``. Tables of such on every set do not mix components: what each marginal adds
to the smaller ones, with a weight of its own.
"""

from functools import cached_property

import numpy as np

from strategies.operators.base.arrays import Array, Bools, Longs, Numbers, as_columns
from strategies.operators.explicit import Dense
from strategies.operators.masks.attribute_sets import unique_rows
from strategies.operators.masks.energies import (
    Energies,
    positive_energies,
    products_over,
    structure_energies,
)
from strategies.operators.masks.residuals import Residuals
from strategies.operators.tables.product_tables import ProductTables


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


class CodeDifferences(ProductTables):
    """Tables of a matrix along each attribute, with what holds where all are differences."""

    factors: tuple[Dense, ...]

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
        """Return the components of ``n A⁺ @ answers``, each as a table over its own attributes."""
        tables = self.split(as_columns(self.checked_answers(answers)))
        values, result = self.eigenvalues(self.set_table), {}
        for chosen, weight, key, value, table in zip(
            self.attribute_sets, self.weights, self.set_table, values, tables, strict=True
        ):
            if weight:
                result[tuple(map(bool, key))] = float(weight) / value * self.spread(chosen, table)
        return result


@structure_energies.register
def difference_energies(workload: CodeDifferences) -> Energies | None:
    """Return the energies of differences of codes: a set reaches its own component only."""
    if not workload.is_diagonal:
        return None
    sets = workload.set_table
    known = Energies(workload.domain_sizes, sets, workload.eigenvalues(sets), True)
    return positive_energies(known.sizes, sets, known.values * known.ranks, True)
