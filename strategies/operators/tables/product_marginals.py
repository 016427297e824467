"""Product marginals: tables with a strategy of its own along each attribute, answered jointly.

`Marginals` measure single codes along an attribute, and a Kronecker product one table; here each
attribute i has a matrix ``A_i`` in every table that keeps it. With ``K = (A_iᵀA_i)⁻¹``,
``τ_i = 1/1ᵀK1``, ``z_i = τ_i K1`` and ``Z_iZ_iᵀ = K - z_iz_iᵀ/τ_i``, the pencil of ``A_iᵀA_i`` and
``11ᵀ`` is ``diag(τ_i, I)`` and ``diag(1, 0)`` in the basis ``[z_i, Z_i]``. Least squares over all
tables together is then a division by one number for each set of attributes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array, Bools, Longs, as_columns
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.qr import has_full_rank, orthogonal
from strategies.operators.masks.attribute_sets import contained
from strategies.operators.tables.framed_tables import FramedTables, Parts
from strategies.operators.tables.weighted_tables import along


@dataclass(frozen=True, eq=False)
class Side:
    """One attribute in coordinates: of classes of codes whose columns of ``A_i`` are equal."""

    inverse: Array  # [z, Z] over the codes, (n, r)
    measured: Array  # A_i [z, Z], (m, r): columns of length sqrt(τ), then orthonormal ones
    tau: float
    labels: Longs  # the class of every code, (n,)

    @property
    def spans(self) -> bool:
        """Whether every code is a class of its own."""
        return bool(self.inverse.shape[1] == len(self.labels))

    @classmethod
    def of(cls, matrix: Array) -> "Side | None":
        """Return the coordinates, None where columns that differ depend on each other."""
        columns, labels = np.unique(matrix, axis=1, return_inverse=True)
        if len(columns) < columns.shape[1]:
            return None
        basis, triangle = orthogonal(columns)
        if not has_full_rank(triangle):
            return None
        labels = labels.ravel()
        sizes = np.bincount(labels)
        ones = linalg.solve_triangular(triangle, np.ones(len(sizes)), trans="T")
        tau = float(1.0 / (ones @ ones))
        turned = np.column_stack([tau * ones, linalg.qr(ones[:, None])[0][:, 1:]])
        inverse = linalg.solve_triangular(triangle, turned) / sizes[:, None]
        return cls(inverse[labels], basis @ turned, tau, labels)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ProductMarginals(FramedTables):
    """``θ_S`` times ``⊗ (A_i for i in S, the row of ones elsewhere)``, for each attribute set S.

    Parameters
    ----------
    factors : sequence of array-like or Dense, each of shape (m_i, n_i)
        ``A_i`` of every attribute; integers stay exact. Codes with equal columns are one class,
        and ``A_i`` has to tell classes apart: full column rank over them.
    attribute_sets : sequence of sequences of int
        The sets S, distinct; ``()`` is the total.
    weights : sequence of float or int
        One weight for each set, finite and not negative.

    Notes
    -----
    On the set U of attributes ``AᵀA`` is the number ``λ_U = Σ_{S ⊇ U} θ_S² Π_{S∖U} τ_i``. Under
    least squares over all that is measured, a row ``⊗ w_i`` has the error
    ``Σ_U 1/λ_U Π_U |w_i Z_i|² Π_{not U} (w_i z_i)²``. All sets have the same worst codes, so
    ``Σ_S θ_S Π_S max_c |A_i e_c|₁`` is the exact L1 sensitivity. ``A_i = I`` gives `Marginals`,
    one set a Kronecker product.

    Examples
    --------
    >>> A = ProductMarginals([[[1, 0], [1, 1]], [[1, 0], [0, 1]]], [(0,), (1,)], [1, 2])
    >>> A.to_dense()
    array([[1., 1., 0., 0.],
           [1., 1., 1., 1.],
           [2., 0., 2., 0.],
           [0., 2., 0., 2.]])
    >>> A.integer_sensitivity("l1")
    4
    """

    singular, plural = "product marginal", "product marginals"

    @cached_property
    def sides(self) -> tuple[Side, ...] | None:
        """The coordinates of every attribute; of its total alone where no table keeps it."""
        used = {i for s, w in zip(self.attribute_sets, self.weights, strict=True) if w for i in s}
        ones = [np.ones((1, size)) for size in self.domain_sizes]
        known: dict[int, Side | None] = {}
        for i, part in enumerate(self.factors):
            if i in used and id(part) not in known:
                known[id(part)] = Side.of(part.array.astype(np.float64))
        sides = [
            known[id(part)] if i in used else Side.of(ones[i])
            for i, part in enumerate(self.factors)
        ]
        found = tuple(side for side in sides if side is not None)
        return found if len(found) == len(sides) else None

    @cached_property
    def frame_inverses(self) -> tuple[Array, ...] | None:
        """``[z_i, Z_i]`` (n_i, r_i) of every attribute; None where classes are not told apart."""
        return None if self.sides is None else tuple(side.inverse for side in self.sides)

    @cached_property
    def _lost_directions(self) -> tuple[Array | None, ...]:
        lost: list[Array | None] = []
        for side in self.sides or ():
            same = side.labels[:, None] == side.labels
            average = same / same.sum(axis=1)
            lost.append(None if side.spans else np.eye(len(same)) - average)
        return tuple(lost)

    def components_below(self, used: Sequence[int]) -> tuple[Bools, Array]:
        """Return all sets of some attributes below a table, and λ_U of each."""
        sets = self._subsets(used)
        values = self._values(sets)
        return sets[values > 0], values[values > 0]

    def _values(self, sets: Bools) -> Array:
        """Return λ_U of sets (u, d): ``Σ_{S ⊇ U} θ_S² Π_S τ_i / Π_U τ_i``."""
        taus = np.array([side.tau for side in self.sides or ()])
        scales = [float(w) ** 2 * prod(taus[list(s)]) for s, w in self._measured()]
        table = np.array([[i in s for i in range(len(taus))] for s, _ in self._measured()])
        return np.asarray(contained(sets, table) @ scales / np.where(sets, taus, 1.0).prod(axis=1))

    def _measured(self) -> list[tuple[tuple[int, ...], float]]:
        return [one for one in zip(self.attribute_sets, self.weights, strict=True) if one[1]]

    def set_parts(self, answers: Array) -> Parts:
        """Return ``θ_S ⊗ [z_i, Z_i]ᵀA_iᵀ y_S`` for every table that is measured."""
        columns, parts = as_columns(answers), {}
        tables = zip(self.attribute_sets, self.weights, self.split(columns), strict=True)
        for chosen, weight, part in tables:
            if not weight:
                continue
            table = weight * part.reshape(*map(self.factor_rows, chosen), columns.shape[1])
            for axis, i in enumerate(chosen):
                table = along((self.sides or ())[i].measured.T, table, axis)
            parts[chosen] = table
        return parts

    def _coefficients(self, chosen: Sequence[int], parts: Parts) -> Array:
        k = next(iter(parts.values())).shape[-1]
        ranks = [(self.frame_inverses or ())[i].shape[1] for i in chosen]
        check_allocation("answers below a table", (*ranks, max(k, 1)))
        table = np.zeros((*ranks, k))
        for own, part in parts.items():
            seen = part[tuple(slice(None) if i in chosen else 0 for i in own)]
            table[tuple(slice(None) if i in own else 0 for i in chosen)] += seen
        return np.asarray(table * self.inverse_values(chosen)[..., None])

    def inverse_values(self, chosen: Sequence[int]) -> Array:
        """Return 1/λ_U at every coordinate of a table, 0 where nothing is measured."""
        values = self._values(self._subsets(chosen))
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
        inverse = inverse.reshape([2] * len(chosen))
        for axis, i in enumerate(chosen):
            rank = (self.frame_inverses or ())[i].shape[1]
            inverse = np.repeat(inverse, [1, rank - 1], axis=axis)
        return inverse

    def _subsets(self, chosen: Sequence[int]) -> Bools:
        """Return all sets of some attributes, the last one fastest."""
        check_allocation("sets of attributes", (2 ** len(chosen), len(self.weights)))
        sets = np.zeros((2 ** len(chosen), len(self.factors)), dtype=bool)
        numbers = np.arange(len(sets))
        for place, i in enumerate(reversed(chosen)):
            sets[:, i] = numbers >> place & 1
        return sets

    @cached_property
    def has_cheap_inverse(self) -> bool:
        """Whether all coordinates are determined, so that they give the pseudo-inverse itself."""
        if self.sides is None:
            return False
        used = [i for i, side in enumerate(self.sides) if side.inverse.shape[1] > 1]
        whole = np.isin(np.arange(len(self.factors)), used)[None]
        return bool(self._values(whole)[0] > 0)
