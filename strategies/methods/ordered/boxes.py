"""One product of strategies for rows that are products themselves, such as boxes on a grid.

The error of a row ``r_1 ⊗ ... ⊗ r_d`` under ``A_1 ⊗ ... ⊗ A_d`` is the product of its factors'
errors. With all but one attribute fixed, that attribute's rows have weights, the products of the
others' errors, and its strategy is selected for them: the attributes take turns. No matrix has a
side of the domain's length, so grids may be of any size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from strategies.bounds.climbs import moment_seconds
from strategies.methods.family import BOTH_NORMS, FEW_CELLS, Family, Search, factory
from strategies.methods.ordered.ordered_cells import range_strategy
from strategies.operators import Array, Identity, Kronecker, Norm, Operator, RowScaled, Sparse, fits
from strategies.operators.base.arrays import Bools, Longs
from strategies.operators.base.recovery import row_errors
from strategies.operators.masks.components import mask_rows
from strategies.operators.masks.packed_masks import unique_rows
from strategies.problem.consecutive import ranges_as_given
from strategies.problem.problem import Problem

ROUNDS = 3  # turns that every attribute takes at most
GAIN = 1e-3  # relative gain of a round below which the turns end
WIDE = 100
"""Codes of an attribute from which windows serve ranges better than short descents do."""
FIXED = 0.5
"""Share of the attributes that rows fix from which one product may serve them all."""


@dataclass(frozen=True, eq=False)
class Axis:
    """The rows' factors over one attribute."""

    rows: Operator  # (u, n_i): the distinct ones
    number: Longs  # (q,): which of them every row has

    @classmethod
    def of(cls, mask: Bools) -> "Axis":
        """Tell which factors are equal, and which are ranges as they stand."""
        first, number = unique_rows(mask)
        rows = Sparse(sparse.csr_array(mask[first].astype(np.int64)))
        return cls(ranges_as_given(rows) or rows, number)

    def strategy(self, weights: Array, norm: Norm, search: Search, work: float) -> Operator:
        """Return a strategy for the factors with a weight on every row's error."""
        sums = np.bincount(self.number, weights, self.rows.shape[0])
        roots = np.sqrt(sums / sums.mean())
        problem = Problem.of(RowScaled(roots, self.rows), norm)
        ranges, merging = problem.ranges, problem.merging
        if norm == "l1" and merging is not None and ranges is not None and ranges.n > WIDE:
            own = Search(generator=search.generator, work=work)
            return merging.invert(range_strategy(problem, ranges, own))
        return search.select(problem.workload, work)

    def errors(self, matrix: Operator, norm: Norm) -> Array:
        """Return the squared error of every row's factor at sensitivity 1, shape (q,)."""
        return matrix.sensitivity(norm) ** 2 * row_errors(self.rows, matrix)[self.number]


def product_of_turns(problem: Problem, search: Search) -> Operator:
    """Return the best product of strategies over the attributes; the Identity at worst.

    Raises ValueError if the workload's rows are no products of masks.
    """
    found = product_rows(problem.workload)
    if found is None:
        raise ValueError(
            f"workload {problem.workload!r} has no rows that are products of masks: expected "
            f"RowKronecker, or boxes on a grid as plain rows."
        )
    masks, squares = found
    axes = [Axis.of(mask) for mask in masks]
    chosen: list[Operator] = [Identity(mask.shape[1]) for mask in masks]
    errors = np.array([mask.sum(axis=1, dtype=np.float64) for mask in masks])
    best, least = Kronecker(chosen), float(squares @ errors.prod(axis=0))
    varied = [i for i, axis in enumerate(axes) if axis.rows.shape[1] > 1]
    work = search.work / (ROUNDS * max(1, len(varied)))
    for _ in range(ROUNDS):
        for i in varied:
            weights = squares * np.delete(errors, i, axis=0).prod(axis=0)
            chosen[i] = axes[i].strategy(weights, problem.norm, search, work)
            errors[i] = axes[i].errors(chosen[i], problem.norm)
        loss = float(squares @ errors.prod(axis=0))
        if loss < least:
            best = Kronecker(chosen)
        if loss > least * (1 - GAIN):
            break
        least = loss
    return best


def product_rows(workload: Operator) -> tuple[Sequence[Bools], Array] | None:
    """Return masks of every attribute and the rows' squared weights; None for sums of products."""
    rows = mask_rows(workload)
    if rows is None or len(rows.masks) < 2:
        return None
    if rows.mix is not None and np.diff(rows.mix.indptr).max(initial=0) > 1:
        return None
    return rows.masks, rows.squares


def applies(problem: Problem) -> bool:
    """Tell whether rows are products of masks over several attributes."""
    found = product_rows(problem.workload)
    return found is not None and all(fits((mask.shape[1],) * 2, 64) for mask in found[0])


def is_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: over many cells, where rows fix most attributes.

    Over few cells every entry is descended on, and marginals have a closed form.
    """
    known, merging = problem.energies, problem.merging
    few = merging is not None and merging.n_groups <= FEW_CELLS
    if few or (known is not None and known.is_invariant):
        return False
    found = product_rows(problem.workload)
    return found is not None and bool(np.mean([~one.all(axis=1) for one in found[0]]) > FIXED)


def least_seconds(problem: Problem) -> float:
    """Return the seconds of one short turn of every attribute."""
    return sum(1e-2 + 2.0 * moment_seconds(n, n) for n in problem.workload.sizes or ())


@factory
def boxes() -> Family:
    """Measure one product for boxes on a grid: the attributes take turns, others as weights."""
    return Family(
        "boxes",
        "domain",
        BOTH_NORMS,
        applies,
        product_of_turns,
        share=2.0,
        least=least_seconds,
        worthwhile=is_worthwhile,
    )
