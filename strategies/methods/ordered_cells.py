"""Workloads over ordered cells, at sizes up to many thousands, and boxes on grids of them.

Workloads are known by their Gram (`strategies.operators.ordered_sums`), not by how they
were given; or by their rows, where these are ranges in some order
(`strategies.problem.merging`). For Laplace noise: the better of a windowed p-Identity and a
weighted b-ary hierarchy, which is never above the best equally weighted one. For Gaussian noise:
the certified optimum, a triangle of few terms, and for ranges that of the nearest ordered Gram, or
the hierarchy beyond `LARGEST_DENSE`.

*Boxes.* The error of a row ``r_1 ⊗ ... ⊗ r_d`` under ``A_1 ⊗ ... ⊗ A_d`` is the product of its
factors' errors. With all but one attribute fixed, that attribute's rows have weights, the products
of the others' errors, and its strategy is selected for them: the attributes take turns. No matrix
has a side of the domain's length, so grids may be of any size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from strategies.bounds.ordered_dual import (
    NODES,
    bands,
    climb_either_way,
    fitted_dual,
    steps_within,
)
from strategies.methods.family import (
    BOTH_NORMS,
    FEW_CELLS,
    Family,
    Search,
    factory,
    has_many_ranges,
    require,
)
from strategies.methods.streams import ordered_root
from strategies.methods.trees import Hierarchy, best_hierarchy, level_weights, trees
from strategies.methods.windows import best_windowed_rows
from strategies.operators import (
    Array,
    Dense,
    Identity,
    Kronecker,
    Norm,
    Operator,
    Ranges,
    RowScaled,
    Sparse,
    fits,
)
from strategies.operators.base.arrays import Bools, Longs
from strategies.operators.base.recovery import factorise, row_errors
from strategies.operators.identity import PIdentity
from strategies.operators.masks.components import mask_rows
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.ordered_sums import OrderedGram
from strategies.operators.ranges import ranges_error
from strategies.problem.merging import given_order_ranges
from strategies.problem.problem import Problem

TOLERANCE = 1e-5
LARGEST_DENSE = 8192
"""Cells up to which a strategy for ranges and Gaussian noise may be a dense matrix."""
DENSE_SECONDS = 1.5e-11
"""Seconds of the reference machine for each of n³ to make a dense strategy and to evaluate it."""
CELL_SECONDS = 4e-3
"""Seconds of a good search for rows over windows, for every cell; half as many for ranges."""
TRACE_SECONDS = 1.5e-8
"""Seconds of the reference machine for each of n² to evaluate rows over windows."""
ENTRY_SECONDS = 1e-8
"""The same for every entry of rows that are read one by one."""
FEWEST_BLOCKS = 8
"""Cells of a block, or children of a node, of strategies that have the most rows."""
MOST_CUT = 128
"""Cells up to which a tree cut off at the last cell may be much better than its closed form."""
FEWEST_WINDOWED = 8
"""Cells from which rows over windows are tried."""


def ordered_strategy(problem: Problem, search: Search) -> Operator:
    if problem.ordered_gram is None and problem.ranges is not None:
        return range_strategy(problem, problem.ranges, search)
    gram = require(problem.ordered_gram, "ordered cells")
    flipped = gram.is_flipped
    worked = gram.reversal if flipped else gram
    tree = best_hierarchy(worked, problem.norm)
    if problem.norm == "l2" and fits((gram.n, NODES), 32):
        dual = climb_either_way(gram, TOLERANCE, steps_within(gram.n, search.work))
        if dual.root**2 * (1.0 + dual.gap) < tree.loss:
            return ordered_root(*bands(gram, dual.weights))
    found = best_rows(worked, tree, problem.norm, search)
    return found.flip() if flipped and isinstance(found, PIdentity) else found


def range_strategy(problem: Problem, ranges: Ranges, search: Search) -> Operator:
    tree = best_hierarchy(ranges, problem.norm)
    if problem.norm == "l2" and fits((ranges.n, ranges.n), 24) and ranges.n <= LARGEST_DENSE:
        dual = fitted_dual(problem)
        if dual is not None:
            diagonal, side = bands(dual.gram, dual.weights)
            upper = ordered_root(diagonal[::-1], side[::-1]).to_dense()[::-1, ::-1]
            root = Dense(upper)
            if ranges_error(factorise(root), ranges) < tree.loss:
                return root
    return best_rows(ranges, tree, problem.norm, search)


def best_rows(gram: OrderedGram | Ranges, tree: Hierarchy, norm: Norm, search: Search) -> Operator:
    """Return the best of the Identity, a tree, and for Laplace noise rows over windows."""
    n, whole = gram.n, float(gram.diagonal.sum())
    best = tree.matrix(n) if tree.loss < whole else Identity(n)
    if norm == "l2" or n < FEWEST_WINDOWED:
        return best
    work = search.work - 3.0 * TRACE_SECONDS * n * n
    if isinstance(gram, Ranges) and not fits((n, n // FEWEST_BLOCKS), 32):
        return best
    rows = best_windowed_rows(gram, search.generator, work)
    cut = sorted(trees(n)) if n <= MOST_CUT else []
    equal = [level_weights(sizes, "l1").matrix(n) for sizes in cut]
    known = [one for one in (best, rows, *equal) if isinstance(one, PIdentity)]
    found = min(known, key=lambda one: real_loss(one, gram), default=None)
    return found if found is not None and real_loss(found, gram) < whole else Identity(n)


def real_loss(matrix: PIdentity, gram: OrderedGram | Ranges) -> float:
    """Return the loss for Laplace noise; that of a tree cut off is below its closed form."""
    if isinstance(gram, Ranges):
        return matrix.sensitivity("l1") ** 2 * matrix.error_trace(gram)
    return matrix.sensitivity("l1") ** 2 * matrix.ordered_trace(gram)


def applies(problem: Problem) -> bool:
    """Tell whether the merged cells are ordered, or rows are ranges of them in some order.

    For the worst row, those of the total error.
    """
    total = problem if problem.is_total else problem.as_total()
    return total.ordered_gram is not None or total.ranges is not None


def is_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: few ranges, or of few cells, have better families."""
    total = problem if problem.is_total else problem.as_total()
    return total.ordered_gram is not None or has_many_ranges(total)


def least_seconds(problem: Problem) -> float:
    """Return the seconds of an evaluation on ranges of so many cells that it reads every entry."""
    ranges = problem.ranges
    if ranges is None or fits((ranges.n, ranges.n // FEWEST_BLOCKS), 32):
        return 0.0
    return ENTRY_SECONDS * float(ranges.n) * ranges.shape[0]


def good_seconds(problem: Problem) -> float:
    """Return the seconds of a search that ends near the best: more for more cells."""
    known = problem.ordered_gram or problem.ranges
    if known is None:
        return 0.0
    n = min(known.n, LARGEST_DENSE)
    if problem.norm == "l2":
        return DENSE_SECONDS * float(n) ** 3
    return (CELL_SECONDS if problem.ordered_gram else CELL_SECONDS / 2) * n


@factory
def ordered_cells() -> Family:
    """Measure blocks of ordered cells, or their optimum: prefix sums and ranges."""
    return Family(
        "ordered_cells",
        "merged",
        BOTH_NORMS,
        applies,
        ordered_strategy,
        share=4.0,
        least=least_seconds,
        good=good_seconds,
        worthwhile=is_worthwhile,
    )


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
