"""A certified lower bound on the loss of every strategy, for both norms.

Over enumerable cells: the best weights found by `strategies.bounds.dual_weights`, which reach the
optimum for Gaussian noise; an L1 column norm is at least the L2 norm, so the same bound holds for
Laplace noise. Over larger domains: `strategies.bounds.implicit_bound`, from Grams of the rows
alone.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from strategies.bounds.climbs import LARGEST, WORK, sampled_gram, total_dual, uniform_bound
from strategies.bounds.dual_weights import certified_bound
from strategies.bounds.implicit_bound import LARGEST_GRAM, implicit_bound
from strategies.bounds.ordered_dual import climb_ordered, ordered_bound, ranges_bound
from strategies.bounds.ordered_dual import steps_within as ordered_steps
from strategies.bounds.path_climb import path_climb
from strategies.bounds.row_maximum import row_maximum_bound
from strategies.bounds.table_bound import table_dual
from strategies.bounds.unions.joint_tables import joint_bound
from strategies.bounds.unions.pinched_union import tables_bound
from strategies.bounds.worst_bound import worst_bound
from strategies.operators import fits
from strategies.operators.base.threads import one_thread
from strategies.operators.kronecker import kronecker_blocks
from strategies.problem.problem import Problem

TOLERANCE = 2e-4
"""Gap at which the climb stops: the bound is then within 0.02 % of the best of its kind."""
CLOSE = 0.02  # gap at which a bound over ordered cells is not looked for elsewhere
ROUNDING = 1e-11
"""Share taken off a closed form: it is a sum of positive products, each rounded a few times."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """The lower bound of a problem, computed when it is first asked for, and once.

    >>> round(Certificate(Problem.of(np.eye(3)))(), 6)
    3.0
    """

    problem: Problem

    @cached_property
    def value(self) -> float:
        """The bound."""
        with one_thread():
            return lower_bound(self.problem)

    def __call__(self) -> float:
        """Return the bound."""
        return self.value


def lower_bound(problem: Problem, work: float = WORK) -> float:
    """Return a bound that the loss of no strategy can be below; 0 where none is known.

    `work`: seconds of the reference machine for climbs; spectra and closed forms come on top.
    """
    if not problem.is_total:
        return worst_bound(problem, work)
    known = algebra_bound(problem)
    if known is not None:
        return known
    if problem.ordered is not None:
        n = problem.ordered.n
        dual = climb_ordered(problem.ordered, TOLERANCE, ordered_steps(n, work))
        bound = ordered_bound(problem.ordered, dual.weights)
        if dual.gap < CLOSE and bound > (1.0 - CLOSE) * dual.root**2:
            return bound  # the optimum for Gaussian noise: no other bound is above
        return max(bound, rows_bound(problem, work))  # cells of too different weight for that route
    product, merging = products_bound(problem, work), problem.merging
    if product > 0 and (merging is None or merging.n_groups > SMALL):
        return max(product, row_maximum_bound(problem))
    return max(product, row_maximum_bound(problem), rows_bound(problem, work))


def products_bound(problem: Problem, work: float = WORK) -> float:
    """Return a bound for a product, or for a union of several as tables, else 0."""
    known = tables_bound(problem, work) or joint_bound(problem, work)
    return known or product_bound(problem, work)


def product_bound(problem: Problem, work: float = WORK) -> float:
    """Return the sum over Kronecker products of the products of their factors' bounds, else 0.

    A product of weights over the factors' cells makes the nuclear norm a product; and the loss on
    several workloads is the sum of the losses on each.
    """
    blocks = kronecker_blocks(problem.workload)
    if blocks is None:
        return 0.0
    factors = {id(factor): factor for _, block in blocks for factor in block.factors}
    each = work / len(factors)
    known = {
        name: lower_bound(Problem.of(factor, problem.norm), each)
        for name, factor in factors.items()
    }
    return sum(
        weight**2 * prod(known[id(factor)] for factor in block.factors) for weight, block in blocks
    )


def rows_bound(problem: Problem, work: float = WORK) -> float:
    """Return a bound from the workload's rows over its merged cells, or from paths behind them."""
    merging = problem.merging
    few = merging is not None and merging.n_groups <= LARGEST
    ranges = None if few or merging is None else problem.ranges
    if ranges is not None and fits((ranges.shape[1],) * 2, 24):
        return ranges_bound(problem, ranges)
    climbed = 0.0 if few else climbed_paths_bound(problem, work)
    if climbed > 0.0:
        return climbed
    factor = problem.factor if few else None
    if factor is None:
        found = implicit_bound(problem.workload, work=work / 2)
        sampled = merging is not None and found is None
        value = 0.0 if found is None else found.value
        return uniform_bound(sampled_gram(problem)) if sampled else value
    return certified_bound(factor, total_dual(problem, factor, TOLERANCE, work).weights)


def climbed_paths_bound(problem: Problem, work: float) -> float:
    """Return the bound at weights climbed over all cells, 0 where paths are too many for that."""
    climb = path_climb(problem)
    if climb is None or (climb.best is None and max(climb.paths.mix.shape) > LARGEST_GRAM):
        return 0.0
    climb.to(PATHS_GAP, work)
    return climb.certified()


PATHS_GAP = 5e-3  # gap at which a climb over paths stops
SMALL = 600  # merged cells up to which a product's rows are asked beside its factors


def closed_bound(problem: Problem, work: float = WORK) -> float | None:
    """Return the best bound of a closed form, None where there is none.

    It costs next to nothing; only the factors of products are climbed on, within the work.
    """
    if not problem.is_total:
        tables = table_dual(problem)
        return None if tables is None else tables.bound
    known = algebra_bound(problem)
    if known is not None:
        return known
    if problem.ordered is not None:  # neither rule is ever tight there
        return None
    return max(products_bound(problem, work), row_maximum_bound(problem)) or None


def algebra_bound(problem: Problem) -> float | None:
    """Return the optimum for Gaussian noise of a workload in the marginals algebra, else None.

    ``(Σ_U sqrt(w_U p_U))²``: the gap is zero, at any size (`strategies.operators.masks.energies`).
    It bounds the losses for Laplace noise too.
    """
    energies = problem.energies
    if energies is None or not energies.is_invariant:
        return None
    root = float(np.sqrt(energies.values * energies.ranks).sum())
    return root**2 * (1.0 - ROUNDING)
