"""Kronecker products and their unions, put together from selections for the parts.

For one product ``W = W_1 ⊗ ... ⊗ W_d`` the losses of ``A_1 ⊗ ... ⊗ A_d`` multiply, and so do lower
bounds. A union of products has one product for all: with all but one factor fixed, the loss is that
of one attribute's workload with Gram ``Σ_j c_j G_ij``, where ``c_j`` is the product of the other
factors' errors on block j. The attributes take turns.

References
----------
McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries
under differential privacy (HDMM, 2018), sections 6.2 and 6.3. Written from the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    UNIONS,
    Family,
    Search,
    factory,
    require,
)
from strategies.methods.marginals.product_marginals import is_best
from strategies.operators import (
    Gram,
    Identity,
    Kronecker,
    Operator,
    error_trace,
    fits,
)
from strategies.operators.kronecker import kronecker_blocks
from strategies.problem.problem import Problem

ROUNDS = 2  # turns that every attribute takes where one product serves several blocks
SHARING = 8  # cells of a factor from which its selection takes time worth counting
BRIEF = 0.25
"""Seconds up to which every factor may take the whole limit: its cheap starts come first."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Selections for parts of a workload, each made once."""

    search: Search
    work: float  # allowance of one selection
    known: dict[tuple[Family | str, bytes | int], Operator] = field(
        default_factory=dict, init=False
    )

    def best(self, workload: Operator, method: Family | None = None) -> Operator:
        """Return the strategy for a part, known by its Gram, by any family or a given one.

        A family is itself, whatever its name: two may be called the same.
        """
        n = workload.shape[1]
        part = workload.gram_dense().tobytes() if fits((n, n), 16) else id(workload)
        key = method or "auto", part
        if key not in self.known:
            self.known[key] = self.search.select(workload, self.work, key[0])
        return self.known[key]


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


def searched_factors(workload: Kronecker) -> list[Operator]:
    """Return the different factors whose selections take time."""
    known = {f.gram_dense().tobytes(): f for f in workload.factors if f.shape[1] >= SHARING}
    return list(known.values())


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
