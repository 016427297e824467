"""Weighted tables over attribute sets: one matrix along each attribute of a set, sums elsewhere.

Their rows, columns, norms and integer weights; nothing of length n is built.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from numbers import Integral
from typing import Self

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    cell_codes,
    check_allocation,
    cut_rows,
    divide,
    exponent,
)
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.identity import Identity
from strategies.operators.kronecker import Kronecker
from strategies.operators.masks.anova import sum_over_cells
from strategies.operators.wrappers import Scaled


class Tables(Operator):
    """Blocks of rows, each over the cells of some attributes and summed over all others."""

    @property
    def domain_sizes(self) -> tuple[int, ...]:
        """Sizes of the attributes (never None here)."""
        assert self.sizes is not None
        return self.sizes

    @abstractmethod
    def table_blocks(self) -> Iterable[tuple[tuple[int, ...], Operator]]:
        """Return every block's attributes, and its rows over the cells of their table."""

    def _matmat(self, right: Array) -> Array:
        tensor, k = right.reshape(*self.domain_sizes, right.shape[1]), right.shape[1]
        parts = []
        for chosen, block in self.table_blocks():
            rest = tuple(i for i in range(len(self.domain_sizes)) if i not in chosen)
            parts.append(block.matmat(tensor.sum(axis=rest).reshape(block.shape[1], k)))
        return np.concatenate(parts)

    def _rmatmat(self, left: Array) -> Array:
        parts = zip(self.table_blocks(), self.split(left), strict=True)
        tables = ((chosen, block.rmatmat(part)) for (chosen, block), part in parts)
        return sum_over_cells(self.domain_sizes, tables, left.shape[1])

    def split(self, answers: Array) -> list[Array]:
        """Cut an array with one entry a row into the blocks' parts."""
        return cut_rows(answers, (block.shape[0] for _, block in self.table_blocks()))


@dataclass(frozen=True, eq=False, repr=False, init=False)
class WeightedTables(Tables):
    """Tables of one kind: the same matrix along an attribute in every set, the sum elsewhere."""

    attribute_sets: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]
    singular, plural = "table", "tables"
    """Their names in messages."""

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

    def with_weights(self, weights: Sequence[float]) -> Self:
        """Return the same tables with other weights."""
        return type(self)(self.domain_sizes, self.attribute_sets, weights)

    def to_unit(self) -> tuple[Operator, int]:
        power = exponent(self.weights)
        weights = divide(self.weights, power)
        return (self.with_weights(weights.tolist()), power) if power else (self, 0)

    @cached_property
    def set_table(self) -> Bools:
        """The attribute sets as rows of a 0/1 table, shape (number of sets, d)."""
        table = np.zeros((len(self.attribute_sets), len(self.domain_sizes)), dtype=bool)
        for row, chosen in zip(table, self.attribute_sets, strict=True):
            row[list(chosen)] = True
        return table

    @abstractmethod
    def factor(self, i: int) -> Operator:
        """Return what is measured of attribute i in a set."""

    def table_blocks(self) -> Iterable[tuple[tuple[int, ...], Operator]]:
        return zip(self.attribute_sets, self._set_rows, strict=True)

    @cached_property
    def _set_rows(self) -> tuple[Operator, ...]:
        factors = [self.factor(i) for i in range(len(self.domain_sizes))]
        return tuple(
            Scaled(weight, Kronecker([factors[i] for i in chosen]) if chosen else Identity(1))
            for chosen, weight in zip(self.attribute_sets, self.weights, strict=True)
        )

    def factor_norm(self, i: int, norm: Norm) -> float:
        """Return its largest column norm, L1 or squared L2, exact where it is of integers."""
        return 1

    # Action ---------------------------------------------------------------------------------

    @property
    def rows(self) -> tuple[int, ...]:
        """Number of rows of each table, as exact integers: its cells, where no kind says else."""
        sizes = self.domain_sizes
        return tuple(prod(sizes[i] for i in chosen) for chosen in self.attribute_sets)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.rows), prod(self.domain_sizes)

    def columns(self, cells: Integers) -> sparse.csr_array:
        codes = cell_codes(cells, self.domain_sizes)
        check_allocation(f"columns of {self.plural}", (len(codes), len(self.weights), 2))
        rows = np.empty((len(codes), len(self.weights)), dtype=np.int64)
        first = 0
        for j, (chosen, size) in enumerate(zip(self.attribute_sets, self.rows, strict=True)):
            shape = tuple(self.domain_sizes[i] for i in chosen)
            parts = tuple(codes[:, i] for i in chosen)
            rows[:, j] = first + (np.ravel_multi_index(parts, shape) if chosen else 0)
            first += size
        values = np.tile(np.asarray(self.weights), len(codes))
        ends = np.arange(len(codes) + 1) * len(self.weights)
        shape = (self.shape[0], len(codes))
        return sparse.csr_array(sparse.csc_array((values, rows.ravel(), ends), shape=shape))

    def to_sparse(self) -> sparse.csr_array:
        check_allocation(f"sparse {self.plural}", (self.entries, 2))
        check_allocation("codes of every cell", (self.shape[1], len(self.domain_sizes)))
        return self.columns(np.arange(self.shape[1]))

    # Norms ----------------------------------------------------------------------------------

    def set_norms(self, norm: Norm) -> list[float]:
        """Return the largest column norm, L1 or squared L2, of each set at weight one."""
        single = [self.factor_norm(i, norm) for i in range(len(self.domain_sizes))]
        return [prod(single[i] for i in chosen) for chosen in self.attribute_sets]

    def sensitivity(self, norm: Norm) -> float:
        """Return the largest column norm: every attribute has a worst code, the same in each set.

        A set's norm is a product of numbers that are not negative, one for each attribute's code,
        so the sum of all is largest where every attribute takes the code of its own largest.
        """
        norms = np.asarray([float(one) for one in self.set_norms(norm)])
        weights = np.asarray(self.weights, dtype=np.float64)
        return float((weights * norms).sum() if norm == "l1" else np.sqrt(weights**2 @ norms))

    def row_squares(self) -> Array:
        n, squares = self.shape[1], []
        single = [self.factor(i).row_squares() for i in range(len(self.domain_sizes))]
        for chosen, weight in zip(self.attribute_sets, self.weights, strict=True):
            rest = float(n // prod(self.domain_sizes[i] for i in chosen))
            lengths = reduce(np.multiply.outer, [single[i] for i in chosen], np.ones(()))
            squares.append(float(weight) ** 2 * rest * lengths.ravel())
        return np.concatenate(squares)

    def rounded(self, scale: int) -> Operator:
        """Return the tables with integer weights ``round(scale * θ)``.

        A weight that rounds to zero keeps its rows, all zero, so that answers keep their places.
        """
        return self.with_weights([round(weight * scale) for weight in self.weights])

    def integer_sensitivity(self, norm: Norm) -> int:
        power = 1 if norm == "l1" else 2
        pairs = zip(self.integer_weights(), self.set_norms(norm), strict=True)
        return int(sum(weight**power * size for weight, size in pairs))

    def integer_weights(self) -> list[int]:
        """Return the weights as Python integers, or refuse."""
        if not all(isinstance(weight, int) for weight in self.weights):
            raise ValueError(
                f"weights={self.weights!r}: expected integers. Round the {self.plural} first."
            )
        return [int(weight) for weight in self.weights]


def format_sets(sets: tuple[tuple[int, ...], ...], most: int = 8) -> str:
    """Write attribute sets for people, the first few of them."""
    return ", ".join(map(str, sets[:most])) + (", ..." if len(sets) > most else "")


def attribute_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a product domain's attributes as exact integers, or refuse."""
    if not sizes or any(not isinstance(size, Integral) or size < 1 for size in sizes):
        raise ValueError(f"sizes={sizes!r}: expected one positive integer for each attribute.")
    return tuple(int(size) for size in sizes)


def attribute_set(chosen: Sequence[int], d: int) -> tuple[int, ...]:
    """Return distinct attribute numbers below d in order, or refuse."""
    ordered = tuple(sorted(int(i) for i in chosen))
    if len(set(ordered)) != len(ordered) or any(not 0 <= i < d for i in ordered):
        raise ValueError(
            f"attribute set {tuple(chosen)!r}: expected distinct attribute numbers from 0 to "
            f"{d - 1}."
        )
    return ordered


def set_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Return one finite weight, none negative, for each attribute set; integers stay exact."""
    exact = tuple(int(w) if isinstance(w, Integral) else float(w) for w in weights)
    if len(exact) != count or not all(np.isfinite(float(w)) and w >= 0 for w in exact):
        raise ValueError(
            f"weights={weights!r}: expected {count} finite numbers, one for each attribute set, "
            f"none negative."
        )
    return exact
