"""What all strategies have in common that are diagonal on the components of a product domain.

``AᵀA = Σ_U λ_U E_U`` over attribute sets U. Pseudo-inverses and errors then need one number for
each set, and whatever n is, nothing of its length is built.
"""

from abc import abstractmethod

import numpy as np

from strategies.operators.base.arrays import Array, Bools, Numbers, as_columns, over_cells
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.pseudo_inverse import RowSpaceError, numbered
from strategies.operators.masks.components import (
    Components,
    MaskRows,
    components,
    components_of,
    mask_rows,
)
from strategies.operators.masks.energies import structure_energies
from strategies.operators.masks.residuals import Residuals, answers_from
from strategies.operators.tables.weighted_tables import WeightedTables, few

TOLERANCE = 1e-12  # share of a workload's energy that may lie outside the row space


class ProductTables(WeightedTables):
    """Weighted tables that do not mix components, with columns that all have the same norm."""

    @property
    def is_diagonal(self) -> bool:
        """Whether components are not mixed; where they are, no rule here holds."""
        return True

    @property
    def has_cheap_inverse(self) -> bool:
        """One pass over the domain and the tables."""
        return self.is_diagonal

    @abstractmethod
    def eigenvalues(self, sets: Bools) -> Array:
        """Return ``λ_U / n`` for attribute sets (u, d)."""

    @abstractmethod
    def residuals(self, answers: Numbers) -> Residuals:
        """Return the components of ``n A⁺ @ answers``, each as a table over its own attributes."""

    def uniform_column_norm(self, norm: Norm) -> float | None:
        """Return the norm of every column: they are all alike."""
        return self.sensitivity(norm) if self.is_diagonal else super().uniform_column_norm(norm)

    def column_norms(self, norm: Norm) -> Array:
        """Return the norm of every column, shape (n,), refused above the memory cap."""
        if not self.is_diagonal:
            return super().column_norms(norm)
        check_allocation("column norms", self.shape[1:])
        return np.full(self.shape[1], self.sensitivity(norm))

    def least_squares(self, answers: Numbers) -> Array:
        """Return ``A⁺ @ answers = Σ_U E_U Aᵀ answers / λ_U``, refused above the memory cap."""
        if not self.is_diagonal:
            return super().least_squares(answers)
        answers = self.checked_answers(answers)
        n, k = self.shape[1], as_columns(answers).shape[1]
        check_allocation("the estimate of every cell", (n, max(k, 1)))
        parts = self.residuals(answers).items()
        tables = ((np.flatnonzero(key).tolist(), part) for key, part in parts)
        result = over_cells(self.domain_sizes, tables, k) / n
        return result[:, 0] if answers.ndim == 1 else result

    def estimate(self, workload: Operator, answers: Array) -> Array | None:
        """Return ``W A⁺ @ answers`` in numbers of the tables' cells, None without a rule."""
        answers = self.checked_answers(answers)
        if not self._components_of(workload):
            return super().estimate(workload, answers)
        result = answers_from(workload, self.residuals(answers), self.domain_sizes)
        if result is None:
            return super().estimate(workload, answers)
        return result[:, 0] if answers.ndim == 1 else result

    def _components_of(self, workload: Operator) -> bool:
        """Tell whether rows are known by components, refusing them outside the row space.

        Row by row where rows are at hand, else together.
        """
        if not self.is_diagonal or self._has_masks(workload):
            return self.is_diagonal
        known = structure_energies(workload)
        if known is None or known.sizes != self.domain_sizes:
            return False
        self._check_energies(known.sets, known.values)
        return True

    def has_rule_for(self, workload: Operator) -> bool:
        """Tell whether rows have a rule, refusing those outside the row space."""
        return (self.is_diagonal and self._has_masks(workload)) or super().has_rule_for(workload)

    def _has_masks(self, workload: Operator) -> bool:
        """Tell whether rows are masks, refusing those outside the row space by their attributes."""
        rows = mask_rows(workload)
        if rows is None or rows.sizes != self.domain_sizes:
            return False
        self._check_masks(rows)
        return True

    def _check_masks(self, rows: MaskRows) -> None:
        """Refuse rows outside the row space, by their energies."""
        self._spanned(components(rows))

    def error_trace(self, workload: Operator) -> float | None:
        """Return ``||W A⁺||_F² = Σ_U tr(WᵀW E_U) / λ_U``, without the workload's rows."""
        known = structure_energies(workload) if self.is_diagonal else None
        if known is None or known.sizes != self.domain_sizes:
            return super().error_trace(workload)
        values = self._check_energies(known.sets, known.values)
        inside = values > 0
        return float(np.sum(known.values[inside] / values[inside]))

    def _check_energies(self, sets: Bools, energies: Array) -> Array:
        values = self.eigenvalues(sets)
        if float(energies[values <= 0].sum()) > TOLERANCE * float(energies.sum()):
            raise RowSpaceError(
                f"the workload lies outside the row space of {self!r} on "
                f"{few(self.attribute_sets)}. Add a table that contains every attribute its rows "
                f"restrict."
            )
        return values

    def row_errors(self, workload: Operator) -> Array | None:
        """Return ``||(W A⁺)_r||² = Σ_U ||w_r E_U||² / λ_U`` for rows of masks."""
        rows = mask_rows(workload) if self.is_diagonal else None
        if rows is None or rows.sizes != self.domain_sizes:
            return super().row_errors(workload)
        return self.errors_of(components_of(workload, rows))

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
                f"the row space of the {self.plural} on {few(self.attribute_sets)}. Add a "
                f"{self.singular} that contains every attribute those rows restrict."
            )
        return values
