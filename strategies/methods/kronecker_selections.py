"""Kronecker products, for their unions and for boxes too, put together from selections for parts.

For one product ``W = W_1 ⊗ ... ⊗ W_d`` the losses of ``A_1 ⊗ ... ⊗ A_d`` multiply, and so do lower
bounds. A union of products has one product for all: with all but one factor fixed, the loss is that
of one attribute's workload with Gram ``Σ_j c_j G_ij``, where ``c_j`` is the product of the other
factors' errors on block j. The attributes take turns.

They do for boxes on a grid, whose rows ``r_1 ⊗ ... ⊗ r_d`` have products of their factors' errors:
with all but one attribute fixed, its rows have weights, the products of the others' errors. No
matrix has a side of the domain's length, so grids may be of any size.

References
----------
McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries
under differential privacy (HDMM, 2018), sections 6.2 and 6.3. Written from the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    FEW_CELLS,
    UNIONS,
    Family,
    Parts,
    Search,
    factory,
    require,
    searched_factors,
)
from strategies.methods.marginals.product_marginals import is_best
from strategies.methods.ordered_cells import range_strategy
from strategies.operators import (
    Array,
    Gram,
    Identity,
    Kronecker,
    Norm,
    Operator,
    RowScaled,
    Sparse,
    error_trace,
    fits,
)
from strategies.operators.base.arrays import Bools, Longs
from strategies.operators.base.recovery import row_errors
from strategies.operators.kronecker import kronecker_blocks
from strategies.operators.masks.components import mask_rows
from strategies.operators.masks.packed_masks import unique_rows
from strategies.problem.merging import given_order_ranges
from strategies.problem.problem import Problem

ROUNDS = 2  # turns that every attribute takes where one product serves several blocks
BRIEF = 0.25
"""Seconds up to which every factor may take the whole limit: its cheap starts come first."""


def product_of_parts(problem: Problem, search: Search) -> Operator:
    blocks = require(kronecker_blocks(problem.workload), UNIONS)
    if len(blocks) == 1:
        return product_of_selections(blocks[0][1], search)
    return product_for_all(blocks, search)


def product_of_selections(workload: Kronecker, search: Search) -> Kronecker:
    """Return the product of the factors' own selections, each as good as alone in the same time.

    Where the limit is long, different factors share it.
    """
    shared = search.limit / max(1, len(searched_factors(workload)))
    parts = Parts(search, max(shared, min(search.limit, BRIEF)))
    return Kronecker([parts.best(factor) for factor in workload.factors])


def factors_by(problem: Problem, search: Search, methods: tuple[Family, ...]) -> Operator:
    """Return the product of strategies that given families find, one a factor, or one for all."""
    blocks = kronecker_blocks(problem.workload)
    count = len(blocks[0][1].factors) if blocks else 0
    if blocks is None or len(methods) not in (1, count):
        raise ValueError(
            f"kronecker has {len(methods)} families for {count} factors: expected one for each, "
            f"or one for all."
        )
    every = methods * count if len(methods) == 1 else methods
    if len(blocks) > 1:
        return product_for_all(blocks, search, every)
    parts, pairs = Parts(search, search.work / count), zip(blocks[0][1].factors, every, strict=True)
    return Kronecker([parts.best(factor, one) for factor, one in pairs])


def product_for_all(
    blocks: list[tuple[float, Kronecker]],
    search: Search,
    methods: Sequence[Family | None] | None = None,
) -> Kronecker:
    sizes = [factor.shape[1] for factor in blocks[0][1].factors]
    parts = Parts(search, search.work / (2 * ROUNDS * len(sizes)))
    grams = [[factor.gram_dense() for factor in block.factors] for _, block in blocks]
    squares = np.array([weight**2 for weight, _ in blocks])
    chosen: list[Operator] = [Identity(size) for size in sizes]
    errors = np.array([[np.trace(gram) for gram in row] for row in grams])
    for _ in range(ROUNDS):
        for i in range(len(sizes)):
            others = squares * np.delete(errors, i, axis=1).prod(axis=1)
            whole = np.sum([c * row[i] for c, row in zip(others, grams, strict=True)], axis=0)
            gram = Gram(whole / np.trace(whole))
            chosen[i] = found = parts.best(gram, methods[i] if methods else None)
            errors[:, i] = [error_trace(block.factors[i], found) for _, block in blocks]
    return Kronecker(chosen)


def applies(problem: Problem) -> bool:
    blocks = kronecker_blocks(problem.workload)
    if not blocks:
        return False
    widths = {tuple(factor.shape[1] for factor in block.factors) for _, block in blocks}
    several = len(widths) == 1 and len(blocks[0][1].factors) > 1
    return several and all(fits((n, n), 64) for n in max(widths))


def is_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: not where product marginals end below for Laplace noise.

    Nor on marginals, which have a closed form.
    """
    known = problem.energies
    if known is not None and known.is_invariant:
        return False
    return not (problem.norm == "l1" and problem.is_total and is_best(problem))


@factory
def kronecker_selections() -> Family:
    """Measure products of the factors' own best strategies: Kronecker products and unions."""
    return Family(
        "kronecker_selections",
        "domain",
        BOTH_NORMS,
        applies,
        product_of_parts,
        share=4.0,
        worthwhile=is_worthwhile,
        objectives=BOTH_OBJECTIVES,
    )


def kronecker(*methods: Family) -> Family:
    """Measure the product of what given families find for the factors of a workload.

    For a Kronecker product; for a union of them the attributes take turns, as in HDMM, and one
    product serves all.

    Parameters
    ----------
    *methods : Family
        One for each factor, in order, or one for all.

    Returns
    -------
    Family

    Raises
    ------
    ValueError
        If no family is given, or they have no noise or no objective in common, or, while it
        searches, if their number is not the factors'.
    TypeError
        If something is no `Family`.

    Examples
    --------
    >>> import strategies
    >>> from strategies.operators import Kronecker
    >>> workload = Kronecker([strategies.examples.prefix_sums(8), strategies.operators.Identity(3)])
    >>> both = strategies.kronecker(strategies.wavelet(), strategies.identity())
    >>> strategies.select(workload, method=both).method
    'kronecker(wavelet, identity)'
    """
    if not methods:
        raise ValueError("kronecker has no families: expected one for each factor, or one for all.")
    for one in methods:
        if not isinstance(one, Family):
            raise TypeError(
                f"methods has {one!r}: expected families, such as strategies.p_identity(p=4)."
            )
    name = f"kronecker({', '.join(one.name for one in methods)})"
    norms = frozenset.intersection(*(one.norms for one in methods))
    objectives = frozenset.intersection(*(one.objectives for one in methods))
    if not norms or not objectives:
        raise ValueError(f"{name}: expected families for one noise and one objective.")
    return Family(
        name,
        "domain",
        norms,
        applies,
        partial(factors_by, methods=methods),
        objectives=objectives,
        purpose="Measure the product of what given families find for the factors.",
    )


BOX_ROUNDS = 3  # turns that every attribute takes at most
BOX_GAIN = 1e-3  # relative gain of a round below which the turns end
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
        return cls(given_order_ranges(rows) or rows, number)

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


def best_box_product(problem: Problem, search: Search) -> Operator:
    """Return the best product of strategies over the attributes; the Identity at worst."""
    masks, squares = require(product_rows(problem.workload), "rows that are products of masks")
    axes = [Axis.of(mask) for mask in masks]
    chosen: list[Operator] = [Identity(mask.shape[1]) for mask in masks]
    errors = np.array([mask.sum(axis=1, dtype=np.float64) for mask in masks])
    best, least = Kronecker(chosen), float(squares @ errors.prod(axis=0))
    varied = [i for i, axis in enumerate(axes) if axis.rows.shape[1] > 1]
    work = search.work / (BOX_ROUNDS * max(1, len(varied)))
    for _ in range(BOX_ROUNDS):
        for i in varied:
            weights = squares * np.delete(errors, i, axis=0).prod(axis=0)
            chosen[i] = axes[i].strategy(weights, problem.norm, search, work)
            errors[i] = axes[i].errors(chosen[i], problem.norm)
        loss = float(squares @ errors.prod(axis=0))
        if loss < least:
            best = Kronecker(chosen)
        if loss > least * (1 - BOX_GAIN):
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


def has_boxes(problem: Problem) -> bool:
    found = product_rows(problem.workload)
    return found is not None and all(fits((mask.shape[1],) * 2, 64) for mask in found[0])


def are_boxes_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: over many cells, where rows fix most attributes.

    Over few cells every entry is descended on, and marginals have a closed form.
    """
    known, merging = problem.energies, problem.merging
    few = merging is not None and merging.n_groups <= FEW_CELLS
    if few or (known is not None and known.is_invariant):
        return False
    found = product_rows(problem.workload)
    return found is not None and bool(np.mean([~one.all(axis=1) for one in found[0]]) > FIXED)


@factory
def boxes() -> Family:
    """Measure one product for boxes on a grid: the attributes take turns, others as weights."""
    return Family(
        "boxes",
        "domain",
        BOTH_NORMS,
        has_boxes,
        best_box_product,
        share=2.0,
        worthwhile=are_boxes_worthwhile,
    )
