"""Marginals and residual marginals: tables of attribute sets, without anything of n's length.

``A = stack of θ_S · (marginal on S)``. The loss needs only the workload's energies on attribute
sets (`strategies.methods.marginals.algebra`), so domains of any size are served; up to 16
attributes all sets are candidates, above that generated ones. The full table (the Identity) is
among the candidates where it fits the memory cap, so the family then never loses to it.

*Residual marginals* measure every component by itself, with weights in closed form. With the
energies ``w_U = tr(WᵀW E_U)/n`` and ranks ``p_U`` of the components, a strategy with
``AᵀA = n Σ_U λ_U E_U`` has squared L2 column norm ``Σ_U λ_U p_U`` and error ``Σ_U w_U/λ_U``. So
``λ_U ∝ sqrt(w_U/p_U)`` is best, with loss ``(Σ_U sqrt(w_U p_U))²``: below any marginals, which are
of this form. Where ``WᵀW`` lies in the marginals algebra no strategy at all is better for Gaussian
noise: with y uniform, the nuclear norm bound is the same number.

For Laplace noise a set of weight θ costs ``θ s_U`` and has ``λ_U = θ² κ_U``; the best weights are
``θ ∝ (w_U/(κ_U s_U))^(1/3)``, with loss ``(Σ_U (w_U s_U²/κ_U)^(1/3))³``.

References
----------
McKenna, Maity, Mazumdar, Miklau: A workload-adaptive mechanism for linear queries under local
differential privacy (2020) and HDMM (2018), marginals template; Xiao, He, Zhang, Kifer:
ResidualPlanner (2023), the same algebra for Gaussian noise. Written from the formulas.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    Family,
    Search,
    evaluation_seconds,
    factory,
    largest_rank,
    require,
)
from strategies.methods.marginals.algebra import (
    are_among,
    candidate_sets,
    distinct,
    expanded_energies,
    group_designs,
    largest_table,
    set_cells,
)
from strategies.methods.marginals.optimiser import SetErrors, optimise, row_errors_by_sets
from strategies.methods.marginals.product_marginals import has_all_sets
from strategies.operators import Marginals, ObliqueResiduals, Operator, fits
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.anova import Energies
from strategies.operators.masks.components import MAX_FIXED, mask_rows
from strategies.operators.tables.weighted_tables import attribute_set
from strategies.problem.problem import Problem

MANY_COMPONENTS = 2000
"""Components beyond which fewer candidate sets are generated, to keep every step cheap."""
MOST_CANDIDATES = 3000
FEWEST_CANDIDATES = 100
PAIRS_A_SECOND = 1e7
"""Components times candidate sets that a second of work allows."""
EXPANDED_SECONDS = 1e-8
"""For each attribute of each component of each row: 1.28 million rows of 30 in 6 s."""
COMPONENT_SECONDS = 5e-5  # seconds of the shortest search for each component
LISTED_SECONDS = 3e-5  # seconds of a component as a row of tables: 2.1 million in 60 s


def best_tables(
    problem: Problem, search: Search, attribute_sets: Sequence[Sequence[int]] | None = None
) -> Operator:
    sums = None if problem.is_total else row_errors_by_sets(problem)
    if sums is None:
        known = expanded_energies(problem.workload, problem.energies)
        sums = SetErrors.total(require(known, "attributes"), problem.norm)
    energies = sums.energies
    designs: list[Bools] = []
    if attribute_sets is not None:
        candidates = given_sets(attribute_sets, len(energies.sizes))
    else:
        most = most_candidates(energies, search)
        candidates = candidate_sets(energies, most, work=search.work)
        designs = group_designs(energies) if problem.norm == "l1" else []
        candidates = distinct(np.concatenate([candidates, *designs]))
    starts = tuple(are_among(candidates, design).astype(np.float64) for design in designs)
    weights = optimise(sums, candidates, search.generator, search.work, starts)
    used = np.flatnonzero(weights > 0)
    sets = [tuple(map(int, np.flatnonzero(row))) for row in candidates[used]]
    return Marginals(energies.sizes, sets, weights[used].tolist())


def given_sets(attribute_sets: Sequence[Sequence[int]], d: int) -> Bools:
    table = np.zeros((len(attribute_sets), d), dtype=bool)
    for row, chosen in zip(table, attribute_sets, strict=True):
        row[list(attribute_set(chosen, d))] = True
    return distinct(table)


def most_candidates(energies: Energies, search: Search) -> int:
    """Return how many candidate sets are generated, fewer where every step is dear."""
    count = len(energies.values)
    most = MOST_CANDIDATES if count <= MANY_COMPONENTS else MOST_CANDIDATES // 3
    return max(FEWEST_CANDIDATES, min(most, int(search.work * PAIRS_A_SECOND / count)))


def least_seconds(problem: Problem) -> float:
    return COMPONENT_SECONDS * most_components(problem) + expansion_seconds(problem)


def residual_seconds(problem: Problem) -> float:
    """Return the seconds of expanding rows of masks, and of listing every component they reach."""
    listed = most_components(problem) if problem.energies is None else 0.0
    return LISTED_SECONDS * listed + expansion_seconds(problem)


def most_components(problem: Problem) -> float:
    known = problem.energies
    if known is not None:
        return float(len(known.values))
    if problem.fixed_sets is None:
        return 0.0
    sets, _ = problem.fixed_sets
    return float(min((2.0 ** sets.sum(axis=1)).sum(), 2.0 ** sets.shape[1]))  # subsets of any row


def expansion_seconds(problem: Problem) -> float:
    """Return the seconds of expanding rows of masks into components, and of the errors of others.

    Rules serve totals and rows of tables and masks; other rows are solved for over merged cells.
    """
    workload, seconds = problem.workload, 0.0
    if problem.energies is None and problem.fixed_sets is not None:
        sets, counts = problem.fixed_sets
        seconds = EXPANDED_SECONDS * sets.shape[1] * float(counts @ 2.0 ** sets.sum(axis=1))
    if problem.is_total or isinstance(workload, Marginals) or mask_rows(workload) is not None:
        return seconds
    return seconds + evaluation_seconds(problem, largest_rank(problem))


def applies(problem: Problem) -> bool:
    """Tell whether the workload shows attributes, and marginals around its rows fit in memory."""
    workload = problem.workload
    if workload.sizes is None or len(workload.sizes) < 2:
        return False
    if problem.energies is not None:
        known = problem.energies
        return bool(set_cells(known.sets, known.sizes).max() <= largest_table())
    if problem.fixed_sets is None:
        n = workload.shape[1]
        return len(workload.sizes) <= MAX_FIXED and fits((n, n), 24)
    fixed, _ = problem.fixed_sets
    logs = np.log2(np.asarray(workload.sizes, dtype=np.float64))
    if fixed.sum(axis=1).max(initial=0) > MAX_FIXED:
        return False
    return bool((fixed @ logs).max(initial=0.0) <= np.log2(largest_table()))


def is_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: `product_marginals` has every set of few attributes.

    For Gaussian noise residual marginals are never above.
    """
    if problem.norm == "l1":
        return not has_all_sets(problem)
    return not (problem.is_total and is_served(problem))


@factory
def marginals(*, attribute_sets: Sequence[Sequence[int]] | None = None) -> Family:
    """Measure weighted tables of attribute sets: product domains of any size.

    Parameters
    ----------
    attribute_sets : sequence of sequences of int, optional
        The tables that may be measured, such as ``[(0, 1), (1, 2)]``; their weights are found.
        By default all of up to 16 attributes, and generated ones of more.

    Raises
    ------
    ValueError
        If no table is given. While it searches, if a set holds an attribute twice or one that the
        workload does not have, or the tables do not determine the workload.
    """
    given = None if attribute_sets is None else tuple(map(tuple, attribute_sets))
    if given is not None and not given:
        raise ValueError("attribute_sets is empty: expected at least one table to measure.")
    return Family(
        "marginals",
        "domain",
        BOTH_NORMS,
        applies,
        partial(best_tables, attribute_sets=given),
        share=2.0,
        least=least_seconds,
        worthwhile=is_worthwhile,
        objectives=BOTH_OBJECTIVES,
    )


def best_residuals(problem: Problem, search: Search) -> ObliqueResiduals:
    """Return all components that the workload reaches, with the best weights, sensitivity 1."""
    energies = require(expanded_energies(problem.workload, problem.energies), "attributes")
    sets = [tuple(map(int, np.flatnonzero(row))) for row in energies.sets]
    plain = ObliqueResiduals.of_codes(energies.sizes, sets, [1] * len(sets))
    scales = plain.eigenvalues(energies.sets)
    if problem.norm == "l2":
        values = np.sqrt(energies.values / energies.ranks)
        weights = np.sqrt(values / scales / (values @ energies.ranks))
    else:
        costs = np.array([float(one) for one in plain.set_norms("l1")])
        weights = np.cbrt(energies.values / (scales * costs))
        weights /= weights @ costs
    return plain.with_weights(weights.tolist())


def is_served(problem: Problem) -> bool:
    """Tell whether the workload's components are known, and their tables fit in memory.

    In the algebra the components' ranks add up to the workload's, so their tables take about the
    room of its own answers, whatever that is; the weights take none.
    """
    known = problem.energies
    if known is None:
        return (problem.norm == "l2" or problem.merging is None) and applies(problem)
    if not fits((max(known.sizes),) * 2, 16):  # differences of codes
        return False
    if known.is_invariant:
        return True
    few = set_cells(known.sets, known.sizes).sum() <= largest_table()
    return problem.workload.sizes is not None and bool(few)


@factory
def residual_marginals() -> Family:
    """Measure every component of tables by itself: product domains of any size."""
    return Family(
        "residual_marginals",
        "domain",
        BOTH_NORMS,
        is_served,
        best_residuals,
        share=0.0,
        least=residual_seconds,
    )
