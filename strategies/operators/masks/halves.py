"""Products with row-wise Kronecker matrices by two halves of the attributes.

``A[r] = L[left_r] ⊗ R[right_r]``, where L and R hold the *distinct* rows over the first and the
last attributes. With x laid out as an (n_L, n_R) array X, ``(A x)_r = L[left_r] X R[right_r]``:
two small matrix products take the place of o x n work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Longs
from strategies.operators.base.memory import check_allocation
from strategies.operators.masks.attribute_sets import unique_rows
from strategies.operators.masks.khatri_rao import khatri_rao
from strategies.operators.masks.packed_masks import Masks, as_columns, pack


@dataclass(frozen=True, eq=False)
class Halves:
    """Distinct rows of two halves, and every row's pair."""

    # left, right: the distinct masks over the attributes of each half
    left: tuple[Masks, ...]
    right: tuple[Masks, ...]
    # left_index, right_index: (o,)
    left_index: Longs
    right_index: Longs

    @classmethod
    def of(cls, masks: Sequence[Masks]) -> "Halves":
        """Split the attributes so that both halves have about as many cells."""
        sizes = np.cumsum(np.log([mask.shape[1] for mask in masks]))
        cut = int(np.argmin(np.abs(sizes - sizes[-1] / 2))) + 1
        left, left_index = distinct_rows(masks[:cut])
        if cut == len(masks):
            return cls(left, (), left_index, np.zeros_like(left_index))
        right, right_index = distinct_rows(masks[cut:])
        return cls(left, right, left_index, right_index)

    @property
    def cells(self) -> tuple[int, int]:
        """Cells of each half."""
        return (
            prod(mask.shape[1] for mask in self.left),
            prod(mask.shape[1] for mask in self.right),
        )

    @property
    def distinct_rows(self) -> tuple[int, int]:
        """Distinct rows of each half."""
        return len(self.left[0]), len(self.right[0]) if self.right else 1

    @property
    def work(self) -> int:
        """Multiply-adds of one product with a vector."""
        (n_left, n_right), (rows, _) = self.cells, self.distinct_rows
        return n_left * n_right * rows + len(self.left_index) * max(n_left, n_right)

    def matmat(self, block: Array) -> Array:
        """Return ``A @ block`` for an (n, j) array, one column at a time."""
        n_left, n_right = self.cells
        left, right = joint_rows(self.left), joint_rows(self.right)
        check_allocation("distinct half rows times half cells", (left.shape[0], n_right))
        result = np.empty((len(self.left_index), block.shape[1]))
        for j, column in enumerate(block.T):
            inner = left @ column.reshape(n_left, n_right)
            result[:, j] = self._gather(inner, right)
        return result

    def _gather(self, inner: Array, right: sparse.csr_array) -> Array:
        """Return the sum over the right half's cells of ``inner[left_r] * R[right_r]``."""
        o, width = len(self.left_index), max(inner.shape[1], 1)
        if inner.shape[0] * right.shape[0] <= max(8 * o, 2**22):
            return np.asarray((right @ inner.T)[self.right_index, self.left_index])
        step = max(1, 2**24 // width)
        parts = []
        for start in range(0, o, step):
            rows = right[self.right_index[start : start + step]]
            parts.append(rows.multiply(inner[self.left_index[start : start + step]]).sum(axis=1))
        return np.concatenate(parts)

    def rmatmat(self, block: Array) -> Array:
        """Return ``A.T @ block`` for an (o, j) array, one column at a time."""
        n_left, n_right = self.cells
        check_allocation("cells times columns", (n_left * n_right, block.shape[1]))
        left, right = joint_rows(self.left), joint_rows(self.right)
        check_allocation("distinct half rows times half cells", (left.shape[0], n_right))
        result = np.empty((n_left * n_right, block.shape[1]))
        shape = self.distinct_rows
        for j, column in enumerate(block.T):
            pairs = sparse.csr_array((column, (self.left_index, self.right_index)), shape=shape)
            result[:, j] = (left.T @ (pairs @ right).toarray()).ravel()
        return result


def distinct_rows(masks: Sequence[Masks]) -> tuple[tuple[Masks, ...], Longs]:
    """Return the distinct rows of some attributes' masks, and every row's number among them."""
    first, index = unique_rows(pack(masks))
    return tuple(mask[first] for mask in masks), index


def joint_rows(masks: Sequence[Masks]) -> sparse.csr_array:
    """Return the explicit rows over a half, in CSR form of floats."""
    if not masks:
        return sparse.csr_array(np.ones((1, 1)))
    form = khatri_rao([as_columns(mask) for mask in masks])
    return sparse.csr_array(form.T.astype(np.float64))
