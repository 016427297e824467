"""A workload of which only the Gram ``WᵀW`` is known, or is enough."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array
from strategies.operators.base.explicit_forms import as_shape
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.validation import checked_sizes, real_array
from strategies.operators.masks.energies import Energies, line_gram_energies, structure_energies

PSD_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Gram(Operator):
    """The symmetric root of ``WᵀW``: it stands for any W with this Gram.

    Loss and bounds depend on a workload through its Gram alone, so all ranges over n cells, say,
    need n x n numbers and not n²/2 rows.

    Parameters
    ----------
    array : array-like of shape (n, n)
        Symmetric and positive semidefinite.
    sizes : tuple of int, optional
        Attribute sizes of the product domain whose cells are the columns.

    Examples
    --------
    >>> Gram([[2.0, 1.0], [1.0, 2.0]]).gram_dense()
    array([[2., 1.],
           [1., 2.]])
    """

    array: Array
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        array = real_array("gram", self.array, 2).astype(np.float64, copy=False)
        if array.shape[0] != array.shape[1]:
            raise ValueError(f"gram has shape {array.shape}: expected a square matrix W.T @ W.")
        scale = float(np.abs(array).max(initial=0.0))
        if np.abs(array - array.T).max(initial=0.0) > PSD_TOLERANCE * scale:
            raise ValueError("gram is not symmetric: expected W.T @ W.")
        lowest = float(linalg.eigvalsh(array, subset_by_index=[0, 0])[0]) if array.size else 0.0
        if lowest < -PSD_TOLERANCE * scale * len(array):
            raise ValueError(
                f"gram has the eigenvalue {lowest:.3g}: expected W.T @ W, with none < 0."
            )
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "sizes", checked_sizes(self.sizes, len(array)))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of the root, and cells."""
        return as_shape(*self.array.shape)

    @cached_property
    def root(self) -> Array:
        """The symmetric positive semidefinite root of the Gram."""
        values, vectors = linalg.eigh(self.array)
        noise = len(values) * np.finfo(float).eps * values[-1]
        # the root of a rounding error of 1e-16 would be 1e-8, and would raise the rank
        roots = np.sqrt(np.where(values > noise, values, 0.0))
        return np.asarray((vectors * roots) @ vectors.T)

    def _matmat(self, right: Array) -> Array:
        return self.root @ right

    def _rmatmat(self, left: Array) -> Array:
        return self.root @ left

    def to_dense(self) -> Array:
        """Return the symmetric root."""
        return self.root

    def gram_dense(self) -> Array:
        """Return the Gram as given."""
        return self.array

    def row_squares(self) -> Array:
        """Return the diagonal: the squared norms of the root's rows."""
        return np.diagonal(self.array).copy()

    def column_norms(self, norm: Norm) -> Array:
        """Return the norm of every column; the L2 norms are the workload's own."""
        return np.sqrt(np.diagonal(self.array)) if norm == "l2" else super().column_norms("l1")


@structure_energies.register
def gram_energies(workload: Gram) -> Energies | None:
    """Return the energies of the mean column and of the rest, over one attribute."""
    return line_gram_energies(workload.array, workload.sizes)
