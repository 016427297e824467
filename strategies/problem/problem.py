"""A selection problem: the workload as given, and over its merged cells."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from strategies.operators import Array, Norm, Operator, as_operator, fits
from strategies.operators.masks.energies import Energies, structure_energies
from strategies.operators.ordered.ordered_gram import OrderedGram, ordered_gram
from strategies.problem.merging import Merging, can_merge, merge_columns
from strategies.problem.workload_factor import factor_of_gram, factor_of_rows, is_explicit

NORMS: tuple[Norm, ...] = ("l1", "l2")


@dataclass(frozen=True, eq=False)
class Problem:
    """What a family is asked to serve; make one with `Problem.of`.

    Attributes
    ----------
    workload : Operator of shape (q, n)
        As given: it may be implicit and huge.
    norm : {"l1", "l2"}
    merging : Merging or None
        Groups of equal columns; None when the domain is too large to enumerate.
    """

    workload: Operator
    norm: Norm
    merging: Merging | None

    @classmethod
    def of(cls, workload: Any, norm: Norm = "l1") -> "Problem":
        """Check a workload and merge its equal columns where they can be enumerated.

        Raises
        ------
        ValueError
            If the norm is unknown, or the workload is empty, all zeros, or not finite.
        TypeError
            If the workload does not hold real numbers.
        """
        if norm not in NORMS:
            raise ValueError(
                f"norm={norm!r}: expected 'l1' (Laplace noise) or 'l2' (Gaussian noise)."
            )
        operator = as_operator(workload, "workload")
        problem = cls(operator, norm, merge_columns(operator) if can_merge(operator) else None)
        if not problem.merged_total > 0:
            raise ValueError("workload is all zeros: expected at least one query to answer.")
        return problem

    @cached_property
    def merged_workload(self) -> Operator | None:
        """The workload over the merged cells (q x g), None when too large."""
        return None if self.merging is None else self.merging.apply(self.workload)

    @cached_property
    def gram(self) -> Array | None:
        """``W'ᵀW'`` over the merged cells (g x g), None when too large."""
        merged = self.merged_workload
        if merged is None or not fits((merged.shape[1],) * 2, 16):
            return None
        return merged.gram_dense()

    @cached_property
    def merged_total(self) -> float:
        """``||W'||_F²`` over the merged cells: the loss of the Identity."""
        workload = self.workload if self.merged_workload is None else self.merged_workload
        if workload.has_distinct_columns:
            return float((workload.column_norms("l2") ** 2).sum())
        if self.merged_workload is None and self.energies is not None:
            return self.energies.total
        return float(workload.row_squares().sum())

    @cached_property
    def energies(self) -> Energies | None:
        """The workload's energies by its structure, None where that shows none."""
        return structure_energies(self.workload)

    @cached_property
    def ordered(self) -> OrderedGram | None:
        """The Gram by two vectors where the merged cells are ordered, None where they are not."""
        merged = self.merged_workload
        if merged is None or merged.shape[1] < 2:
            return None
        return ordered_gram(merged)

    @cached_property
    def factor(self) -> Array | None:
        """A factor F (r, g) with ``W'ᵀW' = FᵀF``, None when the cells cannot be enumerated.

        The singular values of W' itself where W' is explicit and not too tall, since a Gram
        squares the condition; the spectrum of the Gram otherwise. Read-only.
        """
        merged = self.merged_workload
        if merged is None or not fits((merged.shape[1],) * 2, 32):
            return None
        if is_explicit(merged):
            factor = factor_of_rows(merged.to_dense())
        elif self.gram is None:
            return None
        else:
            factor = factor_of_gram(self.gram)
        factor.flags.writeable = False
        return factor
