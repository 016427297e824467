"""Plain strategies of the literature over cells in their order: trees, blocks, the Haar wavelet.

Each is a choice of block sizes ``k_0 = 1 < k_1 < ...``. With P_k the mean over blocks of k cells,
nested projections, and ``t_l = tr(G (P_(k_l) - P_(k_(l+1))))``, their losses have closed forms: of
trees in `strategies.methods.ordered.hierarchy`; of the Haar wavelet, whose rows of level l are
differences of two neighbouring blocks of ``k_l = 2^l`` cells,

    loss = (sum_l w_l)² sum_l t_l / (2 k_l w_l²)        (sum_l w_l² in front for Gaussian noise),

with the total, of n cells, as its last row. So ``w ∝ (t_l / k_l)^(1/3)`` is best for Laplace noise
and ``w² ∝ (t_l / k_l)^(1/2)`` for Gaussian noise.

They serve any workload whose cells can be enumerated. Where cells are ordered,
`strategies.methods.ordered.ordered_cells` is never above a tree.

References
----------
Hay, Rastogi, Miklau, Suciu: Boosting the accuracy of differentially private histograms through
consistency (2010): trees. Xiao, Wang, Gehrke: Differential privacy via wavelet transforms (2010):
Privelet. Qardaji, Yang, Li: Understanding hierarchical methods for differentially private
histograms (2013): 16 children a node.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import sparse

from strategies.methods.family import (
    BOTH_NORMS,
    Family,
    Search,
    checked_count,
    checked_switch,
    enumerated,
    evaluation_seconds,
    factory,
    has_few_cells,
    nowhere,
)
from strategies.methods.ordered.hierarchy import (
    CellGram,
    Hierarchy,
    best_hierarchy,
    block_traces,
    equal_loss,
    tree_sizes,
    trees,
    weighted_hierarchy,
)
from strategies.operators import Identity, Norm, Operator, Ranges, Sparse
from strategies.operators.ordered.ordered_sums import OrderedGram
from strategies.problem.problem import Problem

Sizes = tuple[int, ...]
LARGEST = 10_000  # merged cells up to which a Gram of no known form is written out


def gram_in_order(problem: Problem) -> OrderedGram | Ranges | CellGram:
    """Return what is known of the Gram over the merged cells."""
    known = problem.ordered or problem.ranges
    if known is not None:
        return known
    return CellGram(enumerated(problem.gram))


def tree_nodes(
    problem: Problem, search: Search, branching: int | None = None, weighted: bool = True
) -> Operator:
    """Return the nodes of a b-ary tree, of the best one where no b is given."""
    gram, norm, n = gram_in_order(problem), problem.norm, cells_of(problem)
    if n == 1:
        return Identity(1)
    if branching is None and weighted:
        return best_hierarchy(gram, norm).matrix(n)
    known = sorted(trees(n)) if branching is None else [tree_sizes(n, branching)]
    sizes = min(known, key=lambda one: equal_loss(gram, one, norm))
    found = weighted_hierarchy(gram, sizes, norm) if weighted else level_weights(sizes, norm)
    return found.matrix(n)


def level_weights(sizes: Sizes, norm: Norm, weights: Sequence[float] | None = None) -> Hierarchy:
    """Return blocks with given weights of the levels, equal ones by default, of sensitivity 1."""
    values = np.ones(len(sizes)) if weights is None else np.asarray(weights, dtype=np.float64)
    scale = values.sum() if norm == "l1" else np.sqrt(values @ values)
    return Hierarchy(sizes, values / scale, float("inf"))


def block_sums(
    problem: Problem,
    search: Search,
    sizes: Sizes | None = None,
    weights: Sequence[float] | None = None,
) -> Operator:
    """Return sums over blocks of given sizes, with given weights or the best ones."""
    n = cells_of(problem)
    if n == 1:
        return Identity(1)
    chosen = (1, max(2, round(np.sqrt(n)))) if sizes is None else sizes
    if weights is not None:
        return level_weights(chosen, problem.norm, weights).matrix(n)
    return weighted_hierarchy(gram_in_order(problem), chosen, problem.norm).matrix(n)


def haar_rows(problem: Problem, search: Search, weighted: bool = True) -> Operator:
    """Return the rows of the Haar wavelet, with the best weights of its levels or equal ones.

    Where n is no power of two, cells of which nothing is asked are added, and their columns left
    out at the end.
    """
    n = cells_of(problem)
    if n == 1:
        return Identity(1)
    sizes = tree_sizes(n, 2)  # 1, 2, ..., at least n
    weights = np.ones(len(sizes))
    if weighted:
        traces = block_traces(gram_in_order(problem), sizes)
        parts = np.append(-np.diff(traces) / 2, traces[-1]) / np.asarray(sizes)
        kept = np.maximum(parts, np.finfo(float).eps * parts.max())  # a level of nothing, rounded
        weights = np.cbrt(kept) if problem.norm == "l1" else kept**0.25
        weights /= weights.max()
    cells = np.arange(n)
    blocks = [weights[-1] * sparse.csr_array(np.ones((1, n)))]
    for weight, size in zip(weights, sizes[:-1], strict=False):
        signs = weight * (1.0 - 2.0 * (cells // size % 2))
        places = cells // (2 * size)
        blocks.append(sparse.csr_array((signs, (places, cells)), shape=(places[-1] + 1, n)))
    return Sparse(sparse.csr_array(sparse.vstack(blocks)))


def cells_of(problem: Problem) -> int:
    """Return the number of merged cells."""
    return enumerated(problem.merging).n_groups


def applies(problem: Problem) -> bool:
    """Tell whether the cells can be enumerated, and their Gram or its form is at hand."""
    known = problem.ordered or problem.ranges
    return known is not None or has_few_cells(problem, LARGEST, 24)


def least_seconds(problem: Problem) -> float:
    """Return the seconds of one evaluation of as many rows as cells."""
    return evaluation_seconds(problem, cells_of(problem))


@factory
def tree(*, branching: int | None = None, weighted: bool = True) -> Family:
    """Measure the nodes of a b-ary tree over the cells in their order.

    Parameters
    ----------
    branching : int, optional
        Children of a node, at least 2. By default the best of 2 to 16, with or without the
        uppermost levels.
    weighted : bool, default=True
        Whether levels have the best weights, or equal ones, as in the papers.

    Raises
    ------
    ValueError
        If `branching` is no integer of at least 2, or `weighted` is not True or False.
    """
    checked_count("branching", branching, 2, "the children of a node")
    checked_switch("weighted", weighted)
    found = partial(tree_nodes, branching=branching, weighted=weighted)
    return Family("tree", "merged", BOTH_NORMS, applies, found, worthwhile=nowhere)


@factory
def levels(*, sizes: Sequence[int] | None = None, weights: Sequence[float] | None = None) -> Family:
    """Measure blocks of cells of given sizes, such as 1, 8 and 64, one weight a level.

    Parameters
    ----------
    sizes : sequence of int, optional
        Cells of a block of each level: 1 first, each a multiple of the one before. By default 1
        and about the root of the number of cells.
    weights : sequence of float, optional
        Weight of each level, above 0. By default the best ones.

    Raises
    ------
    ValueError
        If sizes do not begin at 1 or do not divide the next, or weights are not as many or not
        above 0.
    """
    if sizes is not None:
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in sizes)
        nested = whole and all(b > a > 0 and b % a == 0 for a, b in pairwise(sizes))
        if not nested or len(sizes) < 2 or sizes[0] != 1:
            raise ValueError(
                f"sizes={sizes!r}: expected two integers or more, 1 first and each a multiple of "
                f"the one before, such as (1, 8, 64)."
            )
    count = 2 if sizes is None else len(sizes)
    given = None if weights is None else tuple(weights)
    if given is not None and not (len(given) == count and all(0 < w < np.inf for w in given)):
        raise ValueError(f"weights={weights!r}: expected {count} numbers above 0, one a level.")
    chosen = None if sizes is None else tuple(sizes)
    found = partial(block_sums, sizes=chosen, weights=given)
    return Family("levels", "merged", BOTH_NORMS, applies, found, worthwhile=nowhere)


@factory
def wavelet(*, weighted: bool = True) -> Family:
    """Measure the Haar wavelet of the cells in their order.

    Parameters
    ----------
    weighted : bool, default=True
        Whether levels have the best weights, in closed form, or equal ones, as in the papers.

    Raises
    ------
    ValueError
        If `weighted` is not True or False.
    """
    checked_switch("weighted", weighted)
    found = partial(haar_rows, weighted=weighted)
    return Family(
        "wavelet", "merged", BOTH_NORMS, applies, found, least=least_seconds, worthwhile=nowhere
    )
