"""A selection problem: a workload and its objective, and both over merged cells.

With ``e_i = ||A||² ||(W A⁺)_i||²`` the error of row i, weights ω and groups G_k,

    total:  Σ_i ω_i e_i            max:  max_k Σ_{i in G_k} ω_i e_i

A weighted error is the error of ``diag(√ω) W``, so weights become part of the workload and only
groups are left for a method to know.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Literal

import numpy as np

from strategies.operators import (
    Array,
    Dense,
    Gram,
    Marginals,
    MemoryCapError,
    Norm,
    Operator,
    RowKronecker,
    RowScaled,
    Sparse,
    as_operator,
    fits,
)
from strategies.operators.base.arrays import (
    Bools,
    Longs,
    is_float,
    multiply,
    plain_array,
    real_array,
)
from strategies.operators.masks.anova import Energies, structure_energies
from strategies.operators.masks.components import mask_rows
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.ordered_sums import OrderedGram, ordered_gram
from strategies.operators.ranges import Ranges
from strategies.problem.determining_rows import (
    DistinctRows,
    PrefixRows,
    distinct_rows,
    factor_of_gram,
    factor_of_rows,
    is_explicit,
    prefix_rows,
)
from strategies.problem.merging import Merging, merge_in_order
from strategies.problem.product_form import with_attributes

NORMS: tuple[Norm, ...] = ("l1", "l2")
MOST_JOINT = 256  # cells up to which weights of prefix sums and cells are climbed as any others
SCALE_IT = "Scale it, to a largest entry of 1 say: the best strategy stays the same."


Objective = Literal["total", "max"]
OBJECTIVES: tuple[Objective, ...] = ("total", "max")


@dataclass(frozen=True, eq=False)
class Aim:
    """An objective over a workload's rows, its weights apart."""

    objective: Objective = "total"
    # (q,): group of every row, numbered from 0 without gaps; None where every row is its own group
    groups: Longs | None = None

    @classmethod
    def of(cls, workload: Operator, objective: object, groups: object) -> "Aim":
        """Check an objective and labels of groups, or refuse by name."""
        if objective not in OBJECTIVES:
            raise ValueError(
                f"objective={objective!r}: expected 'total' (all rows) or 'max' (the worst row, "
                f"or the worst group of rows)."
            )
        if objective == "total":
            if groups is not None:
                raise ValueError("groups given with objective='total': expected objective='max'.")
            return cls()
        if isinstance(workload, Gram):
            raise ValueError(
                "workload is a Gram, which has no rows: expected the rows themselves for "
                "objective='max'."
            )
        return cls("max", None if groups is None else checked_groups(groups, workload.shape[0]))

    def n_groups(self, rows: int) -> int:
        """Return how many sums the objective takes the largest of."""
        if self.objective == "total":
            return 1
        return rows if self.groups is None else int(self.groups.max()) + 1

    def most_rows(self, rows: int) -> int:
        """Return how many rows the largest sum has."""
        if self.objective == "total":
            return rows
        return 1 if self.groups is None else int(np.bincount(self.groups).max())

    def value(self, errors: Array) -> float:
        """Return the objective of the rows' weighted errors, shape (q,).

        >>> Aim("max", np.array([0, 1, 0])).value(np.array([1.0, 2.5, 2.0]))
        3.0
        """
        if self.objective == "total":
            return float(errors.sum())
        sums = errors if self.groups is None else np.bincount(self.groups, weights=errors)
        return float(sums.max())


def checked_groups(groups: object, rows: int) -> Longs:
    """Return labels as numbers from 0 without gaps, or refuse by name."""
    labels = plain_array("groups", groups)
    if labels.shape != (rows,):
        raise ValueError(
            f"groups has shape {labels.shape}: expected one label for each of the {rows} rows."
        )
    if labels.dtype.kind not in "iu":
        raise TypeError(f"groups has dtype {labels.dtype}: expected integer labels.")
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)


def checked_weights(weights: object, rows: int) -> Array:
    """Return weights of rows as floats, or refuse by name."""
    values = real_array("weights", weights, 1).astype(np.float64)
    if len(values) != rows:
        raise ValueError(
            f"weights has {len(values)} entries: expected one for each of the {rows} rows."
        )
    if values.min(initial=0.0) < 0:
        raise ValueError("weights has negative entries: expected none below 0.")
    if not values.max(initial=0.0) > 0:
        raise ValueError("weights are all zero: expected a positive one.")
    return values


def weight_rows(workload: Operator, weights: object) -> Operator:
    """Return ``diag(√ω) W`` with the workload's structure kept, weights checked."""
    if isinstance(workload, Gram):
        raise ValueError("workload is a Gram, which has no rows to weigh: expected the rows.")
    values = checked_weights(weights, workload.shape[0])
    if (values == 1.0).all():
        return workload
    roots = np.sqrt(values)
    if isinstance(workload, Marginals):
        tables = np.split(roots, np.cumsum(workload.rows)[:-1])
        if all((table == table[0]).all() for table in tables):
            own = [w * float(t[0]) for w, t in zip(workload.weights, tables, strict=True)]
            return Marginals(workload.domain_sizes, workload.attribute_sets, own)
    return RowScaled(roots, workload)


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
        operator, power = operator.to_unit()
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
        shown = isinstance(self.workload, RowKronecker)
        if shown or not self.is_total or self.row_ranges is not None:
            return self
        workload = with_attributes(self.workload)
        return self if workload is self.workload else replace(self, workload=workload)

    @cached_property
    def distinct_rows(self) -> DistinctRows | None:
        """The rows over the merged cells that the objective tells apart, None when too large."""
        return (
            None
            if self.merged_workload is None
            else distinct_rows(self.merged_workload, self.aim.groups)
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
        return prefix_rows(merged, self.aim.groups)

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


def rows_in_order(merged: Operator) -> Operator:
    """Return an explicit matrix with its rows sorted by what is in them, others as they are."""
    inner = merged.inner if isinstance(merged, RowScaled) else merged
    if not isinstance(inner, Dense | Sparse):
        return merged
    form = merged.compact()
    order = np.argsort(form @ np.random.default_rng(0).normal(size=form.shape[1]), kind="stable")
    return as_operator(form[order])
