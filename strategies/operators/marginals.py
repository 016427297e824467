"""Weighted marginals of a product domain, without anything of the domain's length."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators.base.cross_gram import cross_gram, rows_product
from strategies.operators.base.memory import check_allocation, fits
from strategies.operators.base.operator import Array, Norm, Operator
from strategies.operators.base.pseudo_inverse import RowSpaceError, numbered
from strategies.operators.base.validation import attribute_set, attribute_sizes, set_weights
from strategies.operators.marginal_rows import marginal_rows, split_cheaply
from strategies.operators.masks.components import Bools, Components, MaskRows, components, mask_rows
from strategies.operators.masks.residuals import Residuals, answer_rows, residual_answers

TOLERANCE = 1e-12
"""Share of a workload's energy that may lie outside the row space."""


@dataclass(frozen=True, eq=False, repr=False)
class Marginals(Operator):
    """``θ_S`` times the marginal table on attribute set S, for each S, on top of each other.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the attributes.
    attribute_sets : sequence of sequences of int
        The attributes of each marginal, distinct; ``()`` is the total.
    weights : sequence of float or int
        One weight for each set, finite and not negative.

    Notes
    -----
    Every cell lies in one row of each marginal, so every column has L1 norm ``Σ θ_S`` and L2 norm
    ``sqrt(Σ θ_S²)``. ``AᵀA = Σ θ_S² ⊗(I on S, J elsewhere)`` has on the component of the
    attribute set U the eigenvalue ``λ_U = Σ_{S ⊇ U} θ_S² Π_{i ∉ S} n_i`` (McKenna, Maity,
    Mazumdar and Miklau, 2020; Xiao, He, Zhang and Kifer, 2023), which gives pseudo-inverses and
    errors in numbers of marginal cells.

    Examples
    --------
    >>> A = Marginals((2, 3), [(0,), (0, 1)], [0.5, 0.5])
    >>> A.shape, A.sensitivity("l1")
    ((8, 6), 1.0)
    """

    attribute_sets: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]

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

    @property
    def domain_sizes(self) -> tuple[int, ...]:
        """Sizes of the attributes (never None here)."""
        assert self.sizes is not None
        return self.sizes

    @property
    def cells(self) -> tuple[int, ...]:
        """Number of cells of each marginal, as exact integers."""
        sizes = self.domain_sizes
        return tuple(prod(sizes[i] for i in chosen) for chosen in self.attribute_sets)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (all marginals' cells) and columns (the domain's), as exact integers."""
        return sum(self.cells), prod(self.domain_sizes)

    @property
    def set_table(self) -> Bools:
        """The attribute sets as rows of a 0/1 table, shape (number of sets, d)."""
        table = np.zeros((len(self.attribute_sets), len(self.domain_sizes)), dtype=bool)
        for row, chosen in zip(table, self.attribute_sets, strict=True):
            row[list(chosen)] = True
        return table

    @property
    def prefers_sparse(self) -> bool:
        """A column has one entry for each marginal."""
        return True

    @property
    def has_cheap_inverse(self) -> bool:
        """Least squares cost one pass over the domain and the marginals."""
        return True

    # Action ---------------------------------------------------------------------------------

    def _matmat(self, right: Array) -> Array:
        tensor = right.reshape(*self.domain_sizes, -1)
        blocks = []
        for chosen, weight in zip(self.attribute_sets, self.weights, strict=True):
            rest = tuple(i for i in range(len(self.domain_sizes)) if i not in chosen)
            blocks.append(weight * tensor.sum(axis=rest).reshape(-1, right.shape[1]))
        return np.concatenate(blocks)

    def _rmatmat(self, left: Array) -> Array:
        check_allocation("a vector over the domain", (self.shape[1], left.shape[1]))
        result = np.zeros((*self.domain_sizes, left.shape[1]))
        for chosen, weight, table in zip(
            self.attribute_sets, self.weights, self.split(left), strict=True
        ):
            kept = [size if i in chosen else 1 for i, size in enumerate(self.domain_sizes)]
            result += weight * table.reshape(*kept, -1)
        return result.reshape(-1, left.shape[1])

    def split(self, answers: Array) -> list[Array]:
        """Cut an array with one entry a row into the marginals' parts."""
        return np.split(answers, list(accumulate(self.cells))[:-1])

    def columns(self, cells: NDArray[np.integer[Any]]) -> sparse.csr_array:
        """Return the columns at the given cells: one entry for each marginal and cell."""
        codes = self.cell_codes(cells)
        check_allocation("columns of marginals", (len(codes), len(self.weights), 2))
        rows = np.empty((len(codes), len(self.weights)), dtype=np.int64)
        first = 0
        for j, (chosen, size) in enumerate(zip(self.attribute_sets, self.cells, strict=True)):
            shape = tuple(self.domain_sizes[i] for i in chosen)
            parts = tuple(codes[:, i] for i in chosen)
            rows[:, j] = first + (np.ravel_multi_index(parts, shape) if chosen else 0)
            first += size
        values = np.tile(np.asarray(self.weights), len(codes))
        ends = np.arange(len(codes) + 1) * len(self.weights)
        shape = (self.shape[0], len(codes))
        return sparse.csr_array(sparse.csc_array((values, rows.ravel(), ends), shape=shape))

    def cell_codes(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return cells as rows of codes (N, d), from flat numbers too."""
        cells = np.asarray(cells)
        if cells.ndim == 1:
            return np.stack(np.unravel_index(cells, self.domain_sizes), axis=1).astype(np.int64)
        sizes = np.asarray(self.domain_sizes)
        if cells.shape[1:] != sizes.shape or (cells < 0).any() or (cells >= sizes).any():
            raise ValueError(
                f"cells of shape {cells.shape} holds codes outside the domain: expected rows of "
                f"{len(sizes)} codes, each from 0 up to the attribute's size {tuple(sizes)} less 1."
            )
        return cells.astype(np.int64, copy=False)

    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix in CSR form, refused above the memory cap."""
        check_allocation("nonzeros of marginals", (self.shape[1], len(self.weights), 2))
        return self.columns(np.arange(self.shape[1]))

    # Norms ----------------------------------------------------------------------------------

    def uniform_column_norm(self, norm: Norm) -> float:
        """Return ``Σ θ`` ("l1") or ``sqrt(Σ θ²)`` ("l2"), the norm of every column."""
        weights = np.asarray(self.weights, dtype=np.float64)
        return float(weights.sum() if norm == "l1" else np.sqrt(weights @ weights))

    def column_norms(self, norm: Norm) -> Array:
        """Return the norm of every column, shape (n,), refused above the memory cap."""
        check_allocation("column norms", self.shape[1:])
        return np.full(self.shape[1], self.uniform_column_norm(norm))

    def row_squares(self) -> Array:
        """Return the squared L2 norm of every row: ``θ_S² Π_{i ∉ S} n_i``."""
        n = self.shape[1]
        squares = [
            w**2 * float(n // cells) for w, cells in zip(self.weights, self.cells, strict=True)
        ]
        return np.repeat(squares, self.cells)

    def row_gram(self) -> Array:
        """Return ``A @ A.T``, from the rows' masks where the columns are out of reach."""
        return super().row_gram() if fits(self.shape) else self.by_rows().row_gram()

    def by_rows(self) -> Operator:
        """Return the same matrix as weighted rows of masks."""
        return marginal_rows(self.domain_sizes, self.attribute_sets, self.weights)

    def rounded(self, scale: int) -> "Marginals":
        """Return the marginals with integer weights ``round(scale * θ_S)``.

        A weight that rounds to zero keeps its rows, all zero, so that answers keep their places.
        """
        weights = [round(weight * scale) for weight in self.weights]
        return Marginals(self.domain_sizes, self.attribute_sets, weights)

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return ``Σ θ`` or ``Σ θ²`` of integer weights, exactly, as a Python integer."""
        if not all(isinstance(weight, int) for weight in self.weights):
            raise ValueError(
                f"weights={self.weights!r}: expected integers. Round the marginals first."
            )
        power = 1 if norm == "l1" else 2
        return int(sum(weight**power for weight in self.weights))

    # Inverses -------------------------------------------------------------------------------

    def eigenvalues(self, sets: Bools) -> Array:
        """Return ``λ_U / n = Σ_{S ⊇ U} θ_S² / Π_{i ∈ S} n_i`` for attribute sets (u, d)."""
        check_allocation("containment of attribute sets", (len(sets), len(self.weights)), 4)
        missing = sets.astype(np.float32) @ (~self.set_table).T.astype(np.float32)
        shares = [float(w) ** 2 / c for w, c in zip(self.weights, self.cells, strict=True)]
        return np.asarray((missing == 0) @ np.asarray(shares), dtype=np.float64)

    def residuals(self, answers: NDArray[Any]) -> Residuals:
        """Return the components of ``A⁺ @ answers``, each as a table over its own attributes."""
        checked = self.checked_answers(answers)
        tables = self.split(checked.reshape(len(checked), -1))
        raw = residual_answers(self.domain_sizes, self.attribute_sets, self.weights, tables)
        sets = np.array(list(raw), dtype=bool).reshape(len(raw), -1)
        values = self.eigenvalues(sets)
        return {key: raw[key] / value for key, value in zip(raw, values, strict=True) if value > 0}

    def least_squares(self, answers: NDArray[Any]) -> Array:
        """Return ``A⁺ @ answers = Σ_U E_U Aᵀ answers / λ_U``, refused above the memory cap."""
        answers = np.asarray(answers, dtype=np.float64)
        n, k = self.shape[1], answers.reshape(len(answers), -1).shape[1]
        check_allocation("the estimate of every cell", (n, k))
        result = np.zeros((*self.domain_sizes, k))
        for key, table in self.residuals(answers).items():
            kept = [size if used else 1 for used, size in zip(key, self.domain_sizes, strict=True)]
            result += table.reshape(*kept, k)
        return result.reshape(n, k)[:, 0] / n if answers.ndim == 1 else result.reshape(n, k) / n

    def estimate(self, workload: Operator, answers: Array) -> Array | None:
        """Return ``W A⁺ @ answers`` for rows of masks, in numbers of marginal cells."""
        rows = mask_rows(workload)
        if rows is None or rows.sizes != self.domain_sizes:
            return None
        self._spanned(components(rows))
        answers = np.asarray(answers, dtype=np.float64)
        result = answer_rows(rows, self.residuals(answers))
        return result[:, 0] if answers.ndim == 1 else result

    def row_errors(self, workload: Operator) -> Array | None:
        """Return ``||(W A⁺)_r||² = Σ_U ||w_r E_U||² / λ_U`` for rows of masks."""
        rows = mask_rows(workload)
        if rows is None or rows.sizes != self.domain_sizes:
            return None
        return self.errors_of(components(rows))

    def errors_of(self, parts: Components) -> Array:
        """Return ``||(W A⁺)_r||²`` of rows known by their energies on the components."""
        values = self._spanned(parts)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
        return np.asarray(parts.energies @ inverse, dtype=np.float64)

    def _spanned(self, parts: Components) -> Array:
        """Return the eigenvalues on the components, refusing a row outside the row space."""
        values = self.eigenvalues(parts.sets)
        total = np.asarray(parts.energies.sum(axis=1)).ravel()
        outside = np.asarray(parts.energies @ (values <= 0).astype(np.float64)).ravel()
        lost = np.flatnonzero(outside > TOLERANCE * total)
        if len(lost):
            raise RowSpaceError(
                f"{len(lost)} of the workload's {len(total)} rows ({numbered(lost)}) lie outside "
                f"the row space of the marginals on {_few(self.attribute_sets)}. Add a marginal "
                f"that contains every attribute those rows restrict."
            )
        return values


def _few(sets: tuple[tuple[int, ...], ...], most: int = 8) -> str:
    return ", ".join(map(str, sets[:most])) + (", ..." if len(sets) > most else "")


@rows_product.register
def marginals_rows_product(outer: Marginals, other: Operator) -> Array | None:
    """Return ``outer @ other.T`` by the rows' masks, where they take less than the entries."""
    (m, n), sizes = outer.shape, outer.domain_sizes
    cheaper = m * sum(sizes) <= n * len(outer.weights)
    return cross_gram(outer.by_rows(), other) if cheaper else None


@mask_rows.register
def marginals_mask_rows(workload: Marginals) -> MaskRows | None:
    """Return the cells of all marginals as rows of masks, where those are few."""
    cheap = split_cheaply(workload.domain_sizes, workload.attribute_sets)
    return mask_rows(workload.by_rows()) if cheap else None
