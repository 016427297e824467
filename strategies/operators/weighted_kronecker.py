"""A Kronecker product of square matrices whose rows have a weight each."""

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array, Numbers, Real, as_columns, check_allocation
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.qr import has_full_rank, triangular
from strategies.operators.base.validation import check_range
from strategies.operators.explicit import Dense
from strategies.operators.kronecker import Kronecker, along_axes, kronecker_blocks
from strategies.operators.product import RowScaled

NEAR = 1e-9  # share by which doubles may be off


@dataclass(frozen=True, eq=False, repr=False)
class WeightedKronecker(RowScaled):
    """``diag(w) (T_1 ⊗ T_2 ⊗ ...)`` with invertible ``T_i``.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Finite, none of them 0. Integers keep the entries of integer factors exact.
    inner : Kronecker
        Of `Dense` factors, square and of full rank.

    Notes
    -----
    With ``B_i = T_i⁻¹`` a product ``⊗ W_i`` has ``W A⁺ = (⊗ W_i B_i) diag(1/w)``, so errors and
    answers take one axis after the other. Sums over columns are ``(⊗ |T_i|^p)ᵀ |w|^p``.

    Raises ValueError if a factor is none of those, or a weight is 0.

    Examples
    --------
    >>> frames = Kronecker([Dense([[1, 1], [1, -1]]), Dense([[1, 0], [0, 1]])])
    >>> WeightedKronecker([1, 2, 3, 4], frames).to_dense().sum(axis=1).tolist()
    [2.0, 4.0, 0.0, 0.0]
    >>> WeightedKronecker([1, 2, 3, 4], frames).integer_sensitivity("l2")
    20
    """

    inner: Kronecker
    has_cheap_inverse = True

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = self.inner.factors if isinstance(self.inner, Kronecker) else ()
        square = all(isinstance(one, Dense) and one.shape[0] == one.shape[1] for one in parts)
        full = square and all(has_full_rank(triangular(one.to_dense())) for one in parts)
        if not parts or not full:
            raise ValueError(
                f"inner is {self.inner!r}: expected a Kronecker product of Dense factors, square "
                f"and of full rank."
            )
        if not np.all(self.weights):
            raise ValueError("weights holds 0: expected a weight for every row.")

    @cached_property
    def inverses(self) -> tuple[Array, ...]:
        """``B_i`` of every factor."""
        return tuple(linalg.inv(one.to_dense()) for one in self._frames)

    @property
    def _frames(self) -> tuple[Dense, ...]:
        return tuple(one for one in self.inner.factors if isinstance(one, Dense))

    @property
    def _sides(self) -> tuple[int, ...]:
        return tuple(one.shape[0] for one in self._frames)

    # Norms ----------------------------------------------------------------------------------

    def column_norms(self, norm: Norm) -> Array:
        check_allocation("column norms", self.shape[:1])
        sums = self._power_sums(norm, np.float64).astype(np.float64)
        return sums if norm == "l1" else np.sqrt(sums)

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return the exact sensitivity of integer weights and factors, as a Python integer.

        Unsigned sums are exact modulo 2**64, and doubles tell the multiple: they are off by far
        less than 2**63 where sums are below 2**100.

        Raises OverflowError where they are not.
        """
        near = self._power_sums(norm, np.float64)
        check_range(float(near.max()) / 2.0**38)
        largest = near >= near.max() * (1.0 - NEAR)
        rests = self._power_sums(norm, np.uint64)[largest]
        pairs = zip(near[largest].tolist(), rests.tolist(), strict=True)
        return int(max(rest + 2**64 * round((value - rest) / 2**64) for value, rest in pairs))

    def _power_sums(self, norm: Norm, kind: type[np.number]) -> Real:
        """Return the sums of absolute entries ("l1") or of their squares of every column."""
        parts: list[Any] = [self.weights, *(one.array for one in self._frames)]
        sizes = [abs(one).astype(kind) for one in parts]
        weights, *sides = sizes if norm == "l1" else [one * one for one in sizes]
        actions = [side.T.__matmul__ for side in sides]
        return along_axes(actions, self._sides, weights[:, None])[:, 0]

    # Inverses -------------------------------------------------------------------------------

    def least_squares(self, answers: Numbers) -> Array:
        checked = self.checked_answers(answers)
        columns = as_columns(checked) / self.weights[:, None]
        cells = along_axes([one.__matmul__ for one in self.inverses], self._sides, columns)
        return cells[:, 0] if checked.ndim == 1 else cells

    def row_errors(self, workload: Operator) -> Array | None:
        """Return ``||(W A⁺)_r||²`` for stacked Kronecker products over the same attributes."""
        blocks = self._blocks(workload)
        if blocks is None:
            return super().row_errors(workload)
        variances = (1.0 / self.weights.astype(np.float64) ** 2)[:, None]
        found = []
        for weight, block in blocks:
            check_allocation("errors of rows", (block.shape[0],))
            sides = [f.matmat(b) ** 2 for f, b in zip(block.factors, self.inverses, strict=True)]
            errors = along_axes([one.__matmul__ for one in sides], self._sides, variances)
            found.append(weight**2 * errors[:, 0])
        return np.concatenate(found)

    def error_trace(self, workload: Operator) -> float | None:
        """Return ``||W A⁺||_F²`` from sums of squares of the columns of ``W_i B_i``."""
        blocks = self._blocks(workload)
        if blocks is None:
            return super().error_trace(workload)
        variances = (1.0 / self.weights.astype(np.float64) ** 2).reshape(self._sides)
        squares: dict[tuple[int, int], Array] = {}
        total = 0.0
        for weight, block in blocks:
            for i, factor in enumerate(block.factors):
                if (i, id(factor)) not in squares:
                    squares[i, id(factor)] = self._squares(i, factor)
            sides = [squares[i, id(factor)] for i, factor in enumerate(block.factors)]
            total += weight**2 * float((reduce(np.multiply.outer, sides) * variances).sum())
        return total

    def has_rule_for(self, workload: Operator) -> bool:
        return self._blocks(workload) is not None or super().has_rule_for(workload)

    def _squares(self, i: int, factor: Operator) -> Array:
        """Return ``Σ_r (W_i B_i)_rk²``, by the Gram where rows are many."""
        inverse = self.inverses[i]
        if factor.shape[0] <= 2 * factor.shape[1]:
            return np.asarray((factor.matmat(inverse) ** 2).sum(axis=0))
        return np.asarray(np.einsum("ij,ij->j", factor.gram_dense() @ inverse, inverse))

    def _blocks(self, workload: Operator) -> list[tuple[float, Kronecker]] | None:
        """Return the workload's products over these attributes, None where it is no such stack."""
        blocks = kronecker_blocks(workload)
        if not blocks or sum(block.shape[0] for _, block in blocks) != workload.shape[0]:
            return None
        widths = {tuple(factor.shape[1] for factor in block.factors) for _, block in blocks}
        return blocks if widths == {self._sides} else None
