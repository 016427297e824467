"""Weighted tables over attribute sets: one matrix along each attribute of a set, sums elsewhere."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Self

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Integers, Longs
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Norm
from strategies.operators.base.validation import (
    attribute_set,
    attribute_sizes,
    plain_array,
    set_weights,
)
from strategies.operators.tables.product_tables import ProductTables


@dataclass(frozen=True, eq=False, repr=False, init=False)
class WeightedTables(ProductTables):
    """Tables of one kind: the same matrix along each attribute of a set, the sum elsewhere."""

    def __init__(
        self,
        sizes: Sequence[int],
        attribute_sets: Sequence[Sequence[int]],
        weights: Sequence[float],
    ) -> None:
        object.__setattr__(self, "sizes", attribute_sizes(sizes))
        sets = tuple(attribute_set(chosen, len(sizes)) for chosen in attribute_sets)
        if len(set(sets)) != len(sets) or not sets:
            raise ValueError(
                f"attribute_sets={list(attribute_sets)!r}: expected at least one set, each once."
            )
        object.__setattr__(self, "attribute_sets", sets)
        object.__setattr__(self, "weights", set_weights(weights, len(sets)))

    def cell_codes(self, cells: Integers) -> Longs:
        """Return cells as rows of codes (N, d), from flat numbers too."""
        cells = plain_array("cells", cells)
        if cells.ndim == 1:
            return np.stack(np.unravel_index(cells, self.domain_sizes), axis=1).astype(np.int64)
        sizes = np.asarray(self.domain_sizes)
        if cells.shape[1:] != sizes.shape or (cells < 0).any() or (cells >= sizes).any():
            raise ValueError(
                f"cells of shape {cells.shape} holds codes outside the domain: expected rows of "
                f"{len(sizes)} codes, each from 0 up to the attribute's size {tuple(sizes)} less 1."
            )
        return cells.astype(np.int64, copy=False)

    # Along one attribute of a set -----------------------------------------------------------

    @staticmethod
    def factor(n: int) -> Longs | None:
        """Return what is measured of an attribute of n codes, None for the identity."""
        return None

    @staticmethod
    def factor_rows(n: int) -> int:
        """Return the number of its rows."""
        return n

    @staticmethod
    def factor_norm(n: int, norm: Norm) -> int:
        """Return the L1 norm, or the squared L2 norm, of every column of it."""
        return 1

    @staticmethod
    def factor_square(n: int) -> int:
        """Return the squared L2 norm of every row of it."""
        return 1

    # Action ---------------------------------------------------------------------------------

    @property
    def rows(self) -> tuple[int, ...]:
        """Number of rows of each table, as exact integers."""
        count = [self.factor_rows(size) for size in self.domain_sizes]
        return tuple(prod(count[i] for i in chosen) for chosen in self.attribute_sets)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (of all tables) and columns (the domain's), as exact integers."""
        return sum(self.rows), prod(self.domain_sizes)

    def _matmat(self, right: Array) -> Array:
        tensor, k = right.reshape(*self.domain_sizes, right.shape[1]), right.shape[1]
        tables = []
        for chosen, weight, count in zip(self.attribute_sets, self.weights, self.rows, strict=True):
            rest = tuple(i for i in range(len(self.domain_sizes)) if i not in chosen)
            table = tensor.sum(axis=rest)
            for axis, i in enumerate(chosen):
                table = along(self.factor(self.domain_sizes[i]), table, axis)
            tables.append(weight * table.reshape(count, k))
        return np.concatenate(tables)

    def _rmatmat(self, left: Array) -> Array:
        check_allocation("a vector over the domain", (self.shape[1], left.shape[1]))
        result = np.zeros((*self.domain_sizes, left.shape[1]))
        parts = zip(self.attribute_sets, self.weights, self.split(left), strict=True)
        for chosen, weight, answers in parts:
            kept = [size if i in chosen else 1 for i, size in enumerate(self.domain_sizes)]
            result += weight * self.spread(chosen, answers).reshape(*kept, left.shape[1])
        return result.reshape(self.shape[1], left.shape[1])

    def split(self, answers: Array) -> list[Array]:
        """Cut an array with one entry a row into the tables' parts."""
        return np.split(answers, list(accumulate(self.rows))[:-1])

    def spread(self, chosen: tuple[int, ...], answers: Array) -> Array:
        """Return a transposed table's answers (rows, k) as a table over the cells of its set."""
        sizes, k = [self.domain_sizes[i] for i in chosen], answers.shape[1]  # k may be 0
        table = answers.reshape(*map(self.factor_rows, sizes), k)
        for axis, size in enumerate(sizes):
            matrix = self.factor(size)
            table = along(None if matrix is None else matrix.T, table, axis)
        return table.reshape(prod(sizes), k)

    @abstractmethod
    def columns(self, cells: Integers) -> sparse.csr_array:
        """Return the columns at the given cells."""

    # Norms ----------------------------------------------------------------------------------

    def _norms(self, norm: Norm) -> list[int]:
        """Return the L1 norms, or squared L2 norms, of the columns of each set at weight one."""
        single = [self.factor_norm(size, norm) for size in self.domain_sizes]
        return [prod(single[i] for i in chosen) for chosen in self.attribute_sets]

    def uniform_column_norm(self, norm: Norm) -> float:
        """Return the norm of every column: they are all alike."""
        norms = np.asarray(self._norms(norm), dtype=np.float64)
        weights = np.asarray(self.weights, dtype=np.float64)
        return float((weights * norms).sum() if norm == "l1" else np.sqrt(weights**2 @ norms))

    def row_squares(self) -> Array:
        """Return the squared L2 norm of every row."""
        n, squares = self.shape[1], []
        for chosen, weight in zip(self.attribute_sets, self.weights, strict=True):
            sizes = [self.domain_sizes[i] for i in chosen]
            lengths = prod(map(self.factor_square, sizes))
            squares.append(float(weight) ** 2 * lengths * float(n // prod(sizes)))
        return np.repeat(squares, self.rows)

    def rounded(self, scale: int) -> Self:
        """Return the tables with integer weights ``round(scale * θ)``.

        A weight that rounds to zero keeps its rows, all zero, so that answers keep their places.
        """
        weights = [round(weight * scale) for weight in self.weights]
        return type(self)(self.domain_sizes, self.attribute_sets, weights)

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return the exact sensitivity of integer weights, as a Python integer."""
        power = 1 if norm == "l1" else 2
        pairs = zip(self.integer_weights(), self._norms(norm), strict=True)
        return int(sum(weight**power * size for weight, size in pairs))

    def integer_weights(self) -> list[int]:
        """Return the weights as Python integers, or refuse."""
        if not all(isinstance(weight, int) for weight in self.weights):
            raise ValueError(
                f"weights={self.weights!r}: expected integers. Round the {self.plural} first."
            )
        return [int(weight) for weight in self.weights]


def along(matrix: Longs | None, tensor: Array, axis: int) -> Array:
    """Multiply one axis of an array by a matrix, None for the identity."""
    if matrix is None:
        return tensor
    return np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)
