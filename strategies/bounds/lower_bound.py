"""A certified lower bound on the loss of every strategy, for both norms.

Over enumerable cells: the best weights found by `strategies.bounds.dual_weights`, which reach the
optimum for Gaussian noise; an L1 column norm is at least the L2 norm, so the same bound holds for
Laplace noise. Over larger domains: `strategies.bounds.implicit_bound`, from Grams of the rows
alone.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from strategies.bounds.dual_weights import MARGIN, ascend, certified_bound
from strategies.bounds.implicit_bound import implicit_bound
from strategies.bounds.worst_bound import worst_bound
from strategies.operators import Array
from strategies.operators.base.threads import one_thread
from strategies.problem.problem import Problem

TOLERANCE = 2e-4
"""Gap at which the climb stops: the bound is then within 0.02 % of the best of its kind."""
WORK = 4.0
"""Seconds of the reference machine that a bound may cost."""
LARGEST = 2600
"""Merged cells up to which the weights are climbed; above, they stay uniform."""
SPEED = 6e10
"""Operations a second of the reference machine in matrix products."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """The lower bound of a problem, computed when it is first asked for, and once.

    Attributes
    ----------
    problem : Problem

    Examples
    --------
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


def lower_bound(problem: Problem) -> float:
    """Return a bound that the loss of no strategy can be below; 0 where none is known."""
    if not problem.is_total:
        return worst_bound(problem)
    merging, gram = problem.merging, None
    if merging is not None and merging.n_groups > LARGEST:
        gram = problem.gram
    if gram is not None:
        return uniform_bound(gram)
    factor = problem.factor
    if factor is None:
        found = implicit_bound(problem.workload)
        return 0.0 if found is None else found.value
    return factor_bound(factor)


def uniform_bound(gram: Array) -> float:
    """Return the bound for uniform weights, rounded down: the SVD bound ``||W||_*² / g``.

    One spectrum of the Gram ``WᵀW`` (g, g), without eigenvectors.
    """
    g = len(gram)
    values = linalg.eigvalsh(gram, check_finite=False)
    error = 8.0 * g * np.finfo(float).eps * values[-1]
    root = np.sqrt(np.maximum(values - error, 0.0)).sum()
    return float(root**2 / g * (1.0 - MARGIN))


def factor_bound(factor: Array, work: float = WORK) -> float:
    """Return the bound for a workload given by a factor F (r, g) of its Gram.

    Examples
    --------
    >>> import numpy as np
    >>> round(factor_bound(np.eye(3)), 6)
    3.0
    """
    return certified_bound(factor, ascend(factor, TOLERANCE, steps_within(factor, work)).weights)


def steps_within(factor: Array, work: float) -> int:
    """Return how many updates of the weights a work allowance covers, at least two."""
    r, g = factor.shape
    return max(2, int(work / (1e-4 + (4.0 * r**2 * g + 25.0 * r**3) / SPEED)))
