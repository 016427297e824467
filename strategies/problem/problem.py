"""A selection problem: a workload and its objective, and both over merged cells."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from strategies.operators import (
    Array,
    MemoryCapError,
    Norm,
    Operator,
    RowKronecker,
    as_operator,
    fits,
)
from strategies.operators.base.arrays import Bools, Longs
from strategies.operators.masks.components import mask_rows
from strategies.operators.masks.energies import Energies, structure_energies
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.ordered_sums import OrderedGram, ordered_gram
from strategies.operators.ranges import Ranges
from strategies.problem.consecutive import merge_in_order
from strategies.problem.merging import Merging
from strategies.problem.objective import (
    Aim,
    DistinctRows,
    Objective,
    PrefixRows,
    checked_weights,
    distinct_rows,
    factor_of_gram,
    factor_of_rows,
    is_explicit,
    prefix_rows,
    rows_in_order,
    weight_rows,
)
from strategies.problem.product_form import with_attributes
from strategies.problem.strategy import is_float, multiply, to_unit

NORMS: tuple[Norm, ...] = ("l1", "l2")
MOST_JOINT = 256  # cells up to which weights of prefix sums and cells are climbed as any others
SCALE_IT = "Scale it, to a largest entry of 1 say: the best strategy stays the same."


@dataclass(frozen=True, eq=False)
class Problem:
    """A workload, a norm and an objective to find a strategy for; make one with `Problem.of`."""

    workload: Operator  # (q, n), as given times the roots of its rows' weights: it may be huge
    norm: Norm
    merging: Merging | None  # groups of equal columns; None for a domain too large to enumerate
    aim: Aim = field(default_factory=Aim)  # what the loss adds up over the rows
    power: int = 0  # the workload is over 2**power; 0 but where its squares would be no floats
    row_ranges: Ranges | None = None  # over merged cells, where the rows are ranges of them

    @classmethod
    def of(
        cls,
        workload: object,
        norm: Norm = "l1",
        objective: Objective = "total",
        weights: object = None,
        groups: object = None,
    ) -> "Problem":
        """Check a workload and merge its equal columns where they can be enumerated.

        Raises ValueError or TypeError naming the argument that does not fit.
        """
        if norm not in NORMS:
            raise ValueError(
                f"norm={norm!r}: expected 'l1' (Laplace noise) or 'l2' (Gaussian noise)."
            )
        operator = as_operator(workload, "workload")
        aim = Aim.of(operator, objective, groups)
        if weights is not None:
            operator = weight_rows(operator, weights)
        operator, power = to_unit(operator)
        merging, ranges = merge_in_order(operator)
        problem = cls(operator, norm, merging, aim, power, ranges)
        try:
            with np.errstate(over="ignore"):
                total = problem.merged_total
        except OverflowError:  # sums of exact integers
            total = inf
        if not total > 0:
            raise ValueError("workload is all zeros: expected at least one query to answer.")
        if not is_float(multiply(total, 2 * power)):
            raise ValueError(
                f"workload has entries or sums whose squares are no floats. {SCALE_IT}"
            )
        return problem

    @property
    def is_total(self) -> bool:
        """Whether the loss is the sum over all rows: it depends on the workload's Gram alone."""
        return self.aim.objective == "total"

    def as_total(self, weights: object = None) -> "Problem":
        """Return the problem of the rows' total error, with weights on top of its own."""
        if weights is None:
            return self._total_problem
        workload, ranges = weight_rows(self.workload, weights), self.row_ranges
        if ranges is not None:
            ranges = ranges.multiply_rows(np.sqrt(checked_weights(weights, ranges.shape[0])))
        return replace(self, workload=workload, aim=Aim(), row_ranges=ranges)

    @cached_property
    def _total_problem(self) -> "Problem":
        """The problem of the total, one value: what is found of it is found once."""
        return replace(self, aim=Aim())

    def with_attributes(self) -> "Problem":
        """Return the problem over the attributes behind a plain matrix, where the total is asked.

        It depends on the Gram alone: rows may change their order. Ranges have forms of their own.
        """
        if not self.is_total or self.row_ranges is not None:
            return self
        workload = with_attributes(self.workload)
        return self if workload is self.workload else replace(self, workload=workload)

    @cached_property
    def distinct_rows(self) -> DistinctRows | None:
        """The rows over the merged cells that the objective tells apart, None when too large."""
        return (
            None if self.merged_workload is None else distinct_rows(self.merged_workload, self.aim)
        )

    @cached_property
    def merged_workload(self) -> Operator | None:
        """The workload over the merged cells (q x g), None when too large.

        For the total its rows are in an order of their own, so that theirs changes no result.
        """
        if self.row_ranges is not None:
            return self.row_ranges.sorted_rows() if self.is_total else self.row_ranges
        merged = None if self.merging is None else self.merging.apply(self.workload)
        return rows_in_order(merged) if merged is not None and self.is_total else merged

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
    def own_sensitivity(self) -> float:
        """The workload's largest column norm; infinite where it exceeds the memory cap to tell."""
        try:
            return self.workload.sensitivity(self.norm)
        except MemoryCapError:
            return float("inf")

    @cached_property
    def energies(self) -> Energies | None:
        """The workload's energies by its structure, None where it has no rule."""
        return structure_energies(self.workload)

    @cached_property
    def fixed_sets(self) -> tuple[Bools, Longs] | None:
        """The distinct attribute sets that rows of masks fix, and how many rows fix each.

        None where the workload's structure shows no masks.
        """
        if isinstance(self.workload, RowKronecker):
            fixed = self.workload.widths < np.asarray(self.workload.sizes)
        elif (rows := mask_rows(self.workload)) is not None:
            fixed = rows.is_fixed
        else:
            return None
        first, number = unique_rows(fixed)
        return fixed[first], np.bincount(number, minlength=len(first))

    @cached_property
    def ordered_gram(self) -> OrderedGram | None:
        """The Gram by two vectors where the merged cells are ordered, None where they are not.

        None for the worst row or group too: it takes more than a Gram.
        """
        merged = self.merged_workload
        if not self.is_total or merged is None or merged.shape[1] < 2:
            return None
        return ordered_gram(merged)

    @property
    def ranges(self) -> Ranges | None:
        """The rows where they are ranges of the merged cells, for the total error.

        None where the cells are `ordered_gram`, which says more.
        """
        merged = self.merged_workload
        known = self.is_total and self.ordered_gram is None
        return merged if known and isinstance(merged, Ranges) else None

    @cached_property
    def prefix_rows(self) -> PrefixRows | None:
        """The rows where they are prefix sums, for the largest error, else None."""
        merged = self.merged_workload
        if self.is_total or merged is None or merged.shape[1] < 2:
            return None
        return prefix_rows(merged, self.aim)

    @property
    def long_prefix_rows(self) -> PrefixRows | None:
        """The same where cells are so many that joint weights of both take long, else None."""
        few = self.merging is None or self.merging.n_groups <= MOST_JOINT
        return None if few else self.prefix_rows

    @cached_property
    def factor(self) -> Array | None:
        """A factor F (r, g) with ``W'ᵀW' = FᵀF``, None when the cells cannot be enumerated.

        The singular values of W' itself where W' is explicit and not too tall, since a Gram
        squares the condition; the spectrum of the Gram otherwise. Read-only.
        """
        merged = self.merged_workload
        if merged is None:
            return None
        square = fits((merged.shape[1],) * 2, 32)
        if is_explicit(merged) and (square or merged.shape[0] < merged.shape[1]):
            factor = factor_of_rows(merged.to_dense())
        elif not square or self.gram is None:
            return None
        else:
            factor = factor_of_gram(self.gram)
        factor.flags.writeable = False
        return factor
