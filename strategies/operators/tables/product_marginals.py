"""Product marginals: tables with a strategy of its own along each attribute, answered jointly.

`Marginals` measure single codes along an attribute, and a Kronecker product one table; here each
attribute i has a matrix ``A_i`` in every table that keeps it. With ``K = (A_iᵀA_i)⁻¹``,
``τ_i = 1/1ᵀK1``, ``z_i = τ_i K1`` and ``Z_iZ_iᵀ = K - z_iz_iᵀ/τ_i``, the pencil of ``A_iᵀA_i`` and
``11ᵀ`` is ``diag(τ_i, I)`` and ``diag(1, 0)`` in the basis ``[z_i, Z_i]``. Least squares over all
tables together is then a division by one number for each set of attributes.

Two groups side by side see different classes of codes. What both see are coarser classes, of which
they have two independent estimates. With C the rows of those, ``Σ_g`` a group's covariance and
``X = (CΣ_1Cᵀ + CΣ_2Cᵀ)⁻¹``, a row w that group g determines has the error
``wΣ_gwᵀ - wΣ_gCᵀ X CΣ_gwᵀ``, and its answer moves by ``wΣ_gCᵀ X (d_other - d_g)``, d the estimates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array, Bools, Longs, check_allocation, fits
from strategies.operators.base.operator import Operator
from strategies.operators.base.qr import has_full_rank, qr_triangle, thin_qr
from strategies.operators.base.recovery import RowSpaceError, estimate, row_errors
from strategies.operators.explicit import Dense
from strategies.operators.kronecker import Kronecker, blocks_over, kronecker_product
from strategies.operators.masks.packed_masks import containment
from strategies.operators.tables.framed_tables import FramedTables, Side, apply_along
from strategies.operators.wrappers import Stack


@dataclass(frozen=True, eq=False)
class ClassSide(Side):
    """One attribute in coordinates: of classes of codes whose columns of ``A_i`` are equal."""

    measured: Array  # A_i [z, Z], (m, 1 + r): columns of length sqrt(τ), then orthonormal ones
    tau: float
    labels: Longs  # the class of every code, (n,)
    first = 0

    def project_answers(self, table: Array, axis: int) -> Array:
        return apply_along(self.measured.T, table, axis)

    @classmethod
    def of(cls, matrix: Array) -> "ClassSide | None":
        """Return the coordinates, None where columns that differ depend on each other."""
        columns, labels = np.unique(matrix, axis=1, return_inverse=True)
        if len(columns) < columns.shape[1]:
            return None
        basis, triangle = thin_qr(columns)
        if not has_full_rank(triangle):
            return None
        labels = labels.ravel()
        sizes = np.bincount(labels)
        ones = linalg.solve_triangular(triangle, np.ones(len(sizes)), trans="T")
        tau = float(1.0 / (ones @ ones))
        turned = np.column_stack([tau * ones, linalg.qr(ones[:, None])[0][:, 1:]])
        inverse = linalg.solve_triangular(triangle, turned) / sizes[:, None]
        members = np.eye(len(sizes))[labels]
        spanned = None if len(sizes) == len(labels) else (members / sizes, members.T)
        return cls(inverse[labels], spanned, 1.0, basis @ turned, tau, labels)


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
    def sides(self) -> tuple[ClassSide, ...] | None:
        """The coordinates of every attribute; of its total alone where no table keeps it."""
        used = {i for s, w in zip(self.attribute_sets, self.weights, strict=True) if w for i in s}
        ones = [np.ones((1, size)) for size in self.domain_sizes]
        known: dict[int, ClassSide | None] = {}
        for i, part in enumerate(self.factors):
            if i in used and id(part) not in known:
                known[id(part)] = ClassSide.of(part.array.astype(np.float64))
        sides = [
            known[id(part)] if i in used else ClassSide.of(ones[i])
            for i, part in enumerate(self.factors)
        ]
        found = tuple(side for side in sides if side is not None)
        return found if len(found) == len(sides) else None

    def components_below(self, used: Sequence[int]) -> tuple[Bools, Array]:
        check_allocation("sets of attributes", (2 ** len(used), len(self.weights)))
        sets = np.zeros((2 ** len(used), len(self.factors)), dtype=bool)
        for place, i in enumerate(used):
            sets[:, i] = np.arange(len(sets)) >> place & 1
        values = self._values(sets)
        return sets[values > 0], values[values > 0]

    def _values(self, sets: Bools) -> Array:
        """Return λ_U of sets (u, d): ``Σ_{S ⊇ U} θ_S² Π_S τ_i / Π_U τ_i``."""
        taus = np.array([side.tau for side in self.sides or ()])
        pairs = zip(self.attribute_sets, self.weights, strict=True)
        scales = [float(weight) ** 2 * prod(taus[list(chosen)]) for chosen, weight in pairs]
        above = containment(sets, self.set_table) @ scales
        return np.asarray(above / np.where(sets, taus, 1.0).prod(axis=1))

    @cached_property
    def has_cheap_inverse(self) -> bool:
        """Whether all coordinates are determined, so that they give the pseudo-inverse itself."""
        if self.sides is None:
            return False
        used = [i for i, side in enumerate(self.sides) if side.rank > 1]
        whole = np.isin(np.arange(len(self.factors)), used)[None]
        return bool(self._values(whole)[0] > 0)


def coarser_classes(one: Longs, two: Longs) -> Longs:
    """Return the class of every code under the finest partition coarser than two.

    >>> coarser_classes(np.array([0, 0, 1, 2]), np.array([0, 1, 2, 2])).tolist()
    [0, 0, 1, 1]
    """
    lowest, known = np.arange(int(one.max()) + 1), None
    while known is None or (lowest != known).any():  # until no class meets a lower number
        known, met = lowest, np.full(int(two.max()) + 1, len(lowest))
        np.minimum.at(met, two, known[one])
        lowest = known.copy()
        np.minimum.at(lowest, one, met[two])
    return np.unique(lowest[one], return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Coupling:
    """The classes that two groups share, and what each learns of them from the other."""

    axes: tuple[int, ...]  # attributes of which they share more than the total
    onto: tuple[Array, ...]  # the classes' rows of each, (c_i, n_i)
    basis: Array  # combinations of shared cells that both determine, (c, r)
    root: Array  # lower triangle L of ``LLᵀ = CΣ_1Cᵀ + CΣ_2Cᵀ``, C those combinations' rows
    gains: tuple[Array, ...]  # ``L⁻¹CΣ_g`` of both groups, (r, coordinates along the axes)

    @classmethod
    def of(cls, blocks: Sequence[ProductMarginals]) -> "Coupling | None":
        """Return it for two groups, None where one has no coordinates, or they share too much."""
        one, two = (block.sides for block in blocks)
        if one is None or two is None:
            return None
        labels = [coarser_classes(a.labels, b.labels) for a, b in zip(one, two, strict=True)]
        axes = tuple(i for i, own in enumerate(labels) if own.any())
        onto = tuple(np.eye(int(labels[i].max()) + 1)[:, labels[i]] for i in axes)
        cells = [prod(sides[i].rank for i in axes) for sides in (one, two)]
        if not fits((prod(map(len, onto)), sum(cells), 3)):
            return None
        inverses = [block.inverse_values(axes) for block in blocks]
        rows = [
            kronecker_product([np.ones((1, 1)), *shared_rows(block, axes, onto)])
            for block in blocks
        ]
        unknown = [
            part[:, inverse.ravel() == 0] for part, inverse in zip(rows, inverses, strict=True)
        ]
        basis = linalg.null_space(np.hstack(unknown).T)
        crossed = [
            basis.T @ part * inverse.ravel() for part, inverse in zip(rows, inverses, strict=True)
        ]
        spread = crossed[0] @ (basis.T @ rows[0]).T + crossed[1] @ (basis.T @ rows[1]).T
        root = np.linalg.cholesky(spread)
        gains = tuple(
            linalg.solve_triangular(root, part, lower=True).reshape(-1, *inverse.shape)
            for part, inverse in zip(crossed, inverses, strict=True)
        )
        return cls(axes, onto, basis, np.asarray(root, np.float64), gains)

    def shared_estimate(self, block: ProductMarginals, answers: Array) -> Array:
        """Return a group's own estimate of what both determine, (r, k)."""
        rows = shared_rows(block, self.axes, self.onto)
        table = block.table(self.axes, rows, block.set_parts(answers))
        return np.asarray(self.basis.T @ table.reshape(len(self.basis), table.shape[-1]))

    def gain_rows(self, blocks: Sequence[ProductMarginals], group: int, rows: Kronecker) -> Array:
        """Return ``L⁻¹CΣ_gwᵀ`` of the rows of a product, (c, rows)."""
        check_allocation("what rows gain", (len(self.root), rows.shape[0], 2))
        result = self.gains[group]
        for i, factor in enumerate(rows.factors):
            side = blocks[group].coordinates(i, factor)
            axis = 1 + i
            if i in self.axes:
                result = apply_along(side, result, axis)
            else:
                result = np.expand_dims(result, axis) * side[:, 0].reshape(
                    [-1 if a == axis else 1 for a in range(result.ndim + 1)]
                )
        return result.reshape(len(self.root), rows.shape[0])

    def gain(self, blocks: Sequence[ProductMarginals], group: int, rows: Kronecker) -> float:
        """Return the sum of squares of the same, in numbers of coordinates."""
        result, scale = self.gains[group], 1.0
        for i, factor in enumerate(rows.factors):
            side = blocks[group].coordinates(i, factor)
            if i not in self.axes:
                scale *= float(side[:, 0] @ side[:, 0])
                continue
            tall = len(side) > side.shape[1]
            result = apply_along(
                qr_triangle(side) if tall else side, result, 1 + self.axes.index(i)
            )
        return scale * float((result**2).sum())


def shared_rows(block: ProductMarginals, axes: Sequence[int], onto: Sequence[Array]) -> list[Array]:
    """Return the coordinates of shared classes' rows, attribute by attribute."""
    return [block.coordinates(i, Dense(rows)) for i, rows in zip(axes, onto, strict=True)]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class JointMarginals(Stack):
    """The rows of two product marginals over one domain.

    Parameters
    ----------
    blocks : sequence of two ProductMarginals
        Over the same attributes.

    Notes
    -----
    Errors and answers of products of which every row lies in the row space of one of the two are
    those of least squares over all rows, in numbers of cells of the tables measured. Other rows
    are answered as by any `Stack`.

    Examples
    --------
    >>> fine = ProductMarginals([np.eye(4), np.ones((1, 2))], [(0,)], [1.0])
    >>> coarse = ProductMarginals([[[1, 1, 0, 0], [0, 0, 1, 1]], np.eye(2)], [(0, 1)], [1.0])
    >>> row = Kronecker([Dense(np.eye(4)[:1]), Dense(np.ones((1, 2)))])
    >>> round(JointMarginals([fine, coarse]).error_trace(row), 4)
    0.75
    """

    blocks: tuple[ProductMarginals, ...]

    def __init__(self, blocks: Sequence[ProductMarginals]) -> None:
        super().__init__(blocks)
        if len(blocks) != 2 or not all(isinstance(one, ProductMarginals) for one in blocks):
            raise TypeError(f"blocks={list(blocks)!r}: expected two ProductMarginals.")
        if self.sizes is None:
            raise ValueError("blocks have other attributes: expected the same sizes in both.")

    @cached_property
    def coupling(self) -> Coupling | None:
        """The cells that both groups estimate; None as for `Coupling.of`."""
        return Coupling.of(self.blocks)

    def row_errors(self, workload: Operator) -> Array | None:
        found, coupling = self._assign_groups(workload), self.coupling
        if found is None or coupling is None:
            return super().row_errors(workload)
        parts = []
        for weight, rows, group, _ in found:
            own = row_errors(rows, self.blocks[group])
            gains = coupling.gain_rows(self.blocks, group, rows)
            parts.append(weight**2 * (own - (gains**2).sum(axis=0)))
        return np.concatenate(parts)

    def error_trace(self, workload: Operator) -> float | None:
        found, coupling = self._assign_groups(workload), self.coupling
        if found is None or coupling is None:
            return super().error_trace(workload)
        total = 0.0
        for weight, rows, group, own in found:
            total += weight**2 * (own - coupling.gain(self.blocks, group, rows))
        return total

    def _estimate(self, workload: Operator, answers: Array) -> Array | None:
        found, coupling = self._assign_groups(workload), self.coupling
        if found is None or coupling is None:
            return super()._estimate(workload, answers)
        own = self.split(answers)
        seen = [coupling.shared_estimate(*pair) for pair in zip(self.blocks, own, strict=True)]
        step = linalg.solve_triangular(coupling.root, seen[1] - seen[0], lower=True)
        parts = []
        for weight, rows, group, _ in found:
            alone = estimate(rows, self.blocks[group], own[group])
            moved = coupling.gain_rows(self.blocks, group, rows).T @ step
            parts.append(weight * (alone + (moved if group == 0 else -moved)))
        return np.concatenate(parts)

    def _assign_groups(
        self, workload: Operator
    ) -> list[tuple[float, Kronecker, int, float]] | None:
        """Return a workload's products, each with the group that determines it and its trace."""
        blocks = blocks_over(workload, self.sizes or ())
        if self.coupling is None or not blocks:
            return None
        found = [(weight, block, self._group(block)) for weight, block in blocks]
        placed = [(weight, block, *own) for weight, block, own in found if own is not None]
        return placed if len(placed) == len(blocks) else None

    def _group(self, workload: Kronecker) -> tuple[int, float] | None:
        for number, block in enumerate(self.blocks):
            try:
                trace = block.error_trace(workload)
            except RowSpaceError:
                continue
            if trace is not None:
                return number, trace
        return None
