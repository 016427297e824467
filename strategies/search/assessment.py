"""The loss of a strategy, always recomputed from the matrix itself, and what proves it optimal.

``loss(W, A) = ||A||² * ||W A⁺||_F²``, with ``||A||`` the largest column norm (L1 for Laplace, L2
for Gaussian noise). Twice the loss over ε², or the loss over 2ρ, is the expected total squared
error over the rows of W when ``y = A D + noise`` is answered by ``W A⁺ y`` (Li, Hay, Rastogi,
Miklau, McGregor 2010).

With λ the weights of the groups at the optimum for the worst row and Gaussian noise, the total of
errors weighted by λ has the same optimum. For Laplace noise it is a start near it. Every row keeps
some weight, so that the strategy determines it.

`strategies.operators.base.recovery` computes errors: by the rule of a structure first, which may
serve domains of any size and subtracts no traces.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from strategies.bounds.dual_ascent import LARGEST, climbable_rows, joint_dual, joint_update_seconds
from strategies.bounds.lower_bound import (
    Certificate,
    closed_bound,
    has_weighable_cells,
    lower_bound,
    table_dual,
)
from strategies.bounds.ordered_dual import prefix_dual
from strategies.bounds.pinched_union import tables_bound
from strategies.methods.weighted_rows import own_loss
from strategies.operators import (
    Array,
    JointMarginals,
    Kronecker,
    Marginals,
    Norm,
    Operator,
    RowKronecker,
    RowSpaceError,
    Semiseparable,
    Toeplitz,
    as_operator,
    error_trace,
    row_errors,
)
from strategies.operators.base.arrays import is_float, multiply
from strategies.operators.base.recovery import STRATEGY_MATRIX, factored_trace, factorise
from strategies.operators.explicit import Dense
from strategies.operators.identity import Identity
from strategies.operators.masks.components import mask_rows, table_components
from strategies.operators.product import Product
from strategies.operators.ranges import Ranges, ranges_error
from strategies.operators.tables.marginals import ProductTables
from strategies.operators.tables.weighted_tables import WeightedTables
from strategies.problem.problem import Aim, Objective, Problem
from strategies.problem.strategy import Strategy

EVEN = 0.1  # part of the weight that all groups share evenly
LEAST_STEPS = 3  # updates of the weights below which they stay even
RULED = (WeightedTables, JointMarginals, Kronecker, Identity, Semiseparable, Toeplitz)
"""Structures whose own rules give the errors of all rows."""


def worst_error(problem: Problem, matrix: Operator) -> float:
    """Return the largest ``Σ_{i in G} ||(W A⁺)_i||²`` over the groups G of rows.

    Raises RowSpaceError if the matrix does not determine a row.
    """
    tables = table_errors(problem, matrix)
    if tables is not None:
        return float(tables.max())
    lifted = None if isinstance(matrix, RULED) else matrix_over_groups(problem, matrix)
    distinct = None if lifted is None else problem.distinct_rows
    if lifted is None or distinct is None:
        return problem.aim.value(row_errors(problem.workload, matrix))
    return distinct.value(row_errors(Dense(distinct.rows), lifted))


def matrix_over_groups(problem: Problem, matrix: Operator) -> Operator | None:
    """Return a matrix over the merged cells where that is what it is, else None."""
    merging = problem.merging
    if merging is None or matrix.shape[1] != problem.workload.shape[1]:
        return None
    lifted = isinstance(matrix, Product) and matrix.right is merging.grouping
    if merging.is_trivial or lifted or matrix is merging.grouping:
        return merging.average(matrix)
    return None


def table_errors(problem: Problem, matrix: Operator) -> Array | None:
    """Return one row's error of every table of a workload of marginals too large to list.

    All rows of a table have the same error under marginals. None where rows can be listed, or are
    grouped by the user.
    """
    workload = problem.workload
    if not (isinstance(workload, Marginals) and isinstance(matrix, ProductTables)):
        return None
    if not matrix.is_diagonal:
        return None
    if problem.aim.groups is not None or mask_rows(workload) is not None:
        return None
    if workload.sizes != matrix.sizes:
        return None
    parts = table_components(workload.domain_sizes, workload.set_table, workload.weights)
    return matrix.errors_of(parts)


def surrogate_total(problem: Problem, work: float) -> Problem:
    """Return the problem of a weighted total error; unweighted where weights cost too much.

    They are climbed within a work allowance in seconds of the reference machine. Tables of
    marginals are weighted at any size, and for Gaussian noise to the optimum itself.
    """
    dual, tables = table_dual(problem), problem.workload
    if dual is not None and isinstance(tables, Marginals):
        each = dual.weights / np.array([float(count) for count in tables.rows])
        scales = (np.asarray(tables.weights) * np.sqrt(each)).tolist()
        scaled = Marginals(tables.domain_sizes, tables.attribute_sets, scales)
        return replace(problem, workload=scaled, aim=Aim())
    rows = climbable_rows(problem)
    if rows is None or LEAST_STEPS * joint_update_seconds(rows) > work:
        prefix = problem.prefix_rows
        if prefix is None:
            return problem.as_total()
        shares = prefix_dual(problem, prefix).groups
        mixed = (1 - EVEN) * shares + EVEN / len(shares)
        return problem.as_total(mixed[prefix.origin] * len(shares))
    shares = joint_dual(problem, rows, work).groups
    mixed = (1 - EVEN) * shares + EVEN / len(shares)
    weights = mixed[rows.groups][rows.origin]
    if problem.aim.groups is None:  # equal rows share one weight
        weights = weights / np.bincount(rows.origin[rows.origin >= 0])[rows.origin]
    weights = np.where(rows.origin < 0, 1.0, weights * rows.n_groups)
    return problem.as_total(weights)


BY_TRIANGLE = 1000
"""Cells of ranges from which a dense strategy's error is taken from the inverse of one triangle."""


def evaluate(
    workload: object,
    matrix: object = None,
    norm: Norm = "l1",
    objective: Objective = "total",
    weights: object = None,
    groups: object = None,
) -> Strategy:
    """Return any matrix as a strategy for a workload: its sensitivity, loss and certificate.

    Parameters
    ----------
    workload : ndarray, scipy sparse, Operator or Gram, of shape (q, n)
        Every row a query over the n cells.
    matrix : ndarray, scipy sparse or Operator, of shape (m, n), optional
        What would be measured; the workload itself where nothing else is given.
    norm : {"l1", "l2"}, default="l1"
        "l1" for Laplace noise, "l2" for Gaussian noise.
    objective : {"total", "max"}, default="total"
        Whether errors are summed over all rows, or the worst row or group of rows counts.
    weights : array-like of shape (q,), optional
        Weight of every row's error, 1 when not given; a row of weight 0 needs no answer.
    groups : array-like of int, shape (q,), optional
        For "max": a label for every row; errors are summed within a group.

    Returns
    -------
    Strategy
        With ``method="given"``.

    Raises
    ------
    RowSpaceError
        If a row of the workload is no combination of the matrix's rows: more than 1e-7 of its
        length lies outside their space.
    ValueError, TypeError
        If the workload is empty, all zeros, not finite or not real, or the shapes disagree.
    MemoryCapError
        If no structural rule applies and the explicit matrices exceed the memory cap.

    Examples
    --------
    >>> import numpy as np
    >>> strategy = evaluate(np.tri(4), np.eye(4))
    >>> strategy.sensitivity, strategy.loss
    (1.0, 10.0)
    >>> evaluate(np.tri(4)).loss
    64.0
    """
    problem = Problem.of(workload, norm, objective, weights, groups)
    operator = as_operator(workload if matrix is None else matrix, STRATEGY_MATRIX)
    return from_unit(assess(problem, operator, "given"), problem.power)


def assess(
    problem: Problem, matrix: Operator, method: str, certificate: Certificate | None = None
) -> Strategy:
    """Return a matrix over the domain as a `Strategy` for a problem, with its certificate.

    The loss is that of every multiple of the matrix, so it is computed of one near 1.

    Raises RowSpaceError if the matrix does not determine the workload, or so faintly that its loss
    is no float.
    """
    unit, power = matrix.to_unit()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sensitivity = unit.sensitivity(problem.norm)
        if not sensitivity > 0:
            raise ValueError(
                f"{STRATEGY_MATRIX} is all zeros: expected a strategy that measures something."
            )
        loss = sensitivity * sensitivity * error(problem, unit)
    if not is_float(loss):
        raise RowSpaceError(
            f"{STRATEGY_MATRIX} has the loss {loss} for the workload, which is no positive float: "
            f"expected entries whose ratios have squares below 1e308."
        )
    return Strategy(
        matrix=matrix,
        norm=problem.norm,
        sensitivity=multiply(sensitivity, power),
        loss=loss,
        method=method,
        certificate=certificate or Certificate(problem),
        objective=problem.aim.objective,
    )


def from_unit(strategy: Strategy, power: int) -> Strategy:
    """Return a strategy for a workload over 2**power as one for the workload."""
    if not power:
        return strategy
    return replace(
        strategy,
        loss=multiply(strategy.loss, 2 * power),
        certificate=lambda: multiply(strategy.lower_bound, 2 * power),
        candidates=tuple(
            replace(one, loss=multiply(one.loss, 2 * power)) for one in strategy.candidates
        ),
    )


def error(problem: Problem, matrix: Operator) -> float:
    """Return ``||W A⁺||_F²``, over the merged cells where the matrix is lifted from them.

    For the worst row or group, its share.
    """
    if not problem.is_total:
        return worst_error(problem, matrix)
    lifted, merged = matrix_over_groups(problem, matrix), problem.merged_workload
    if lifted is None or merged is None:
        return error_trace(problem.workload, matrix)
    return merged_error(problem, merged, lifted)


def merged_error(problem: Problem, merged: Operator, matrix: Operator) -> float:
    """Return ``||W' A'⁺||_F²`` for a matrix over the merged cells, reusing their Gram."""
    if isinstance(matrix, Identity):
        return problem.merged_total
    if not isinstance(matrix, Dense):
        return error_trace(merged, matrix)
    if merged.shape[1] >= BY_TRIANGLE and isinstance(merged, Ranges):
        return ranges_error(factorise(matrix), merged)
    gram = problem.gram if merged.shape[0] > merged.shape[1] else None
    if gram is not None:
        return factored_trace(merged, factorise(matrix), gram)
    return error_trace(merged, matrix)


CERTIFYING = 0.1
"""Share of the limit for a bound, for weights of rows, or for an evaluation of the workload."""
CERTIFIED_BY = ("gaussian_optimal", "ordered_cells")
"""Families after which a bound for Gaussian noise is known, or costs little more."""
CLOSED_GAP = 1e-9
"""Certified distance from optimal at which a search ends, where the bound has a closed form."""
OPTIMALITY_GAP = 1e-4  # the same for Gaussian noise
WORST_GAP = 6e-4  # the same for the worst row or group, where a step of the search costs more
TABLES_GAP = 0.05
"""The same for unions of tables over more cells than can be climbed on: what other families reach
there stands 7 % and more above oblique residuals."""


@dataclass(eq=False)
class Proof:
    """What bounds say of the losses that a search finds, each at a small share of its limit."""

    problem: Problem
    limit: float  # seconds of the reference machine, of the search

    def is_optimal(self, best: float, methods: Collection[str]) -> bool:
        """Tell whether the best loss that some methods found is certified optimal.

        A bound in closed form serves both norms, a climbed one Gaussian noise.
        """
        if self.meets_closed_bound(best) or self.is_near_tables(best):
            return True
        climbed = CERTIFIED_BY if self.problem.is_total else CERTIFIED_BY[:1]
        if self.problem.norm == "l1" or not any(one in climbed for one in methods):
            return False
        gap = OPTIMALITY_GAP if self.problem.is_total else WORST_GAP
        return best <= self.climbed_bound * (1 + gap)

    def is_near_tables(self, loss: float) -> bool:
        """Tell whether tables are too many cells for what comes closer than their own bound."""
        merging = self.problem.merging
        if self.problem.norm == "l1" or (merging is not None and merging.n_groups <= LARGEST):
            return False
        known = tables_bound(self.problem, CERTIFYING * self.limit)
        return known > 0 and loss <= known * (1 + TABLES_GAP)

    def meets_closed_bound(self, loss: float) -> bool:
        """Tell whether a bound that costs next to nothing proves a loss optimal."""
        gap = CLOSED_GAP if self.problem.norm == "l1" else OPTIMALITY_GAP
        return self.closed_bound is not None and loss <= self.closed_bound * (1 + gap)

    @cached_property
    def closed_bound(self) -> float | None:
        return closed_bound(self.problem, CERTIFYING * self.limit)

    @cached_property
    def climbed_bound(self) -> float:
        """The bound at the weights that the search for Gaussian noise has found."""
        if not has_weighable_cells(self.problem) and self.problem.long_prefix_rows is None:
            return 0.0
        return lower_bound(self.problem, CERTIFYING * self.limit)

    @cached_property
    def certificate(self) -> Certificate:
        return Certificate(self.problem)


PLAIN = ("identity", "workload_itself")  # families that no result of "auto" is above
TIE = 1e-9  # relative difference of losses that is rounding
AS_GOOD = 1e-3
"""Relative difference of losses for Gaussian noise for which a smaller strategy is kept."""


def smallest_of_best(problem: Problem, found: Sequence[Strategy]) -> Strategy:
    """Return the strategy of least loss; for Gaussian noise the smallest that is as good.

    Fewer answers take less time and room: a 0.1 % larger loss is acceptable for that.
    """
    best = min(found, key=lambda strategy: strategy.loss)
    if problem.norm == "l1":
        return best
    plain = [one.loss for one in found if one.method in PLAIN]  # the rule stands above
    most = max(best.loss * (1 + TIE), min(best.loss * (1 + AS_GOOD), *plain, own_loss(problem)))
    near = (one for one in found if one.loss <= most)
    return min(near, key=lambda one: (one.matrix.shape[0], one.loss))


MANY_CELLS = 1000
"""Merged cells above which searches over all of them are worth a trial first."""


def is_worth_trials(problem: Problem) -> bool:
    """Tell whether a long search over many cells may well end at the Identity.

    Rows of plain paths have their local minimum at the Identity, which long searches over many
    cells leave only where weighted tables, boxes, refined trees or the rows themselves are below
    it at once. Ordered cells have families of their own.
    """
    asked, merging = problem.norm == "l1" and problem.is_total, problem.merging
    if not asked or not isinstance(problem.workload, RowKronecker):
        return False
    if merging is None or merging.n_groups <= MANY_CELLS or problem.ordered_gram or problem.ranges:
        return False
    return own_loss(problem) >= problem.merged_total
