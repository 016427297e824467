"""Two groups of product marginals side by side, answered by least squares over both.

Each group sees classes of codes and determines tables over them; what both see are coarser
classes, of which they have two independent estimates. With C the rows of those classes, ``Σ_g`` a
group's covariance and ``X = (CΣ_1Cᵀ + CΣ_2Cᵀ)⁻¹``, a row w that group g determines has the error
``wΣ_gwᵀ - wΣ_gCᵀ X CΣ_gwᵀ``, and its answer moves by ``wΣ_gCᵀ X (d_other - d_g)``, d the estimates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components

from strategies.operators.base.arrays import Array, Longs, as_columns
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Operator
from strategies.operators.base.pseudo_inverse import RowSpaceError
from strategies.operators.base.qr import triangular
from strategies.operators.base.recovery import error_trace, estimate, row_errors
from strategies.operators.dense import Dense
from strategies.operators.kronecker import Kronecker, kronecker_blocks, kronecker_product
from strategies.operators.stack import Stack
from strategies.operators.tables.product_marginals import ProductMarginals
from strategies.operators.tables.weighted_tables import along


def coarser_classes(one: Longs, two: Longs) -> Longs:
    """Return the class of every code under the finest partition coarser than two.

    >>> coarser_classes(np.array([0, 0, 1, 2]), np.array([0, 1, 2, 2])).tolist()
    [0, 0, 1, 1]
    """
    shape = int(one.max()) + 1, int(two.max()) + 1
    meets = sparse.coo_array((np.ones(len(one)), (one, two)), shape=shape)
    whole = sparse.block_array([[None, meets], [meets.T, None]])
    return np.asarray(connected_components(whole, directed=False)[1][one], dtype=np.int64)


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
        """Return it for two groups, None where one has no coordinates."""
        one, two = (block.sides for block in blocks)
        if one is None or two is None:
            return None
        labels = [coarser_classes(a.labels, b.labels) for a, b in zip(one, two, strict=True)]
        axes = tuple(i for i, own in enumerate(labels) if own.any())
        onto = tuple(np.eye(int(labels[i].max()) + 1)[:, labels[i]] for i in axes)
        count = prod(map(len, onto))
        inverses = [block.inverse_values(axes) for block in blocks]
        check_allocation("what two groups share", (count, sum(one.size for one in inverses), 3))
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

    def seen(self, block: ProductMarginals, answers: Array) -> Array:
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
                result = along(side, result, axis)
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
            result = along(triangular(side) if tall else side, result, 1 + self.axes.index(i))
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
    >>> float(JointMarginals([fine, coarse]).error_trace(Kronecker([Dense(np.eye(4)[:1]),
    ...     Dense(np.ones((1, 2)))])).round(4))
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
        """What the groups' estimates have in common; None where one has no coordinates."""
        return Coupling.of(self.blocks)

    def row_errors(self, workload: Operator) -> Array | None:
        """Return ``||(W A⁺)_r||²`` for stacked products, each determined by a group."""
        found, coupling = self._placed(workload), self.coupling
        if found is None or coupling is None:
            return super().row_errors(workload)
        parts = []
        for weight, rows, group in found:
            own = row_errors(rows, self.blocks[group])
            gains = coupling.gain_rows(self.blocks, group, rows)
            parts.append(weight**2 * (own - (gains**2).sum(axis=0)))
        return np.concatenate(parts)

    def error_trace(self, workload: Operator) -> float | None:
        """Return ``||W A⁺||_F²``, for stacked products without their rows."""
        found, coupling = self._placed(workload), self.coupling
        if found is None or coupling is None:
            return super().error_trace(workload)
        total = 0.0
        for weight, rows, group in found:
            own = error_trace(rows, self.blocks[group])
            total += weight**2 * (own - coupling.gain(self.blocks, group, rows))
        return total

    def estimate(self, workload: Operator, answers: Array) -> Array | None:
        """Return ``W A⁺ @ answers`` in numbers of the tables' cells, None without a rule."""
        checked = self.checked_answers(answers)
        found, coupling = self._placed(workload), self.coupling
        if found is None or coupling is None:
            return super().estimate(workload, checked)
        own = self.split(as_columns(checked))
        seen = [coupling.seen(*pair) for pair in zip(self.blocks, own, strict=True)]
        step = linalg.solve_triangular(coupling.root, seen[1] - seen[0], lower=True)
        parts = []
        for weight, rows, group in found:
            alone = estimate(rows, self.blocks[group], own[group])
            moved = coupling.gain_rows(self.blocks, group, rows).T @ step
            parts.append(weight * (alone + (moved if group == 0 else -moved)))
        result = np.concatenate(parts)
        return result[:, 0] if checked.ndim == 1 else result

    def _placed(self, workload: Operator) -> list[tuple[float, Kronecker, int]] | None:
        """Return every product of a workload with the group that determines its rows."""
        blocks = kronecker_blocks(workload)
        if self.coupling is None or not blocks:
            return None
        if sum(block.shape[0] for _, block in blocks) != workload.shape[0]:
            return None
        groups = [self._group(block) for _, block in blocks]
        found = zip(blocks, groups, strict=True)
        placed = [(weight, block, group) for (weight, block), group in found if group is not None]
        return placed if len(placed) == len(blocks) else None

    def _group(self, workload: Kronecker) -> int | None:
        for number, block in enumerate(self.blocks):
            try:
                if block.error_trace(workload) is not None:
                    return number
            except RowSpaceError:
                continue
        return None
