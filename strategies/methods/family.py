"""What a family of strategies is, and what its search may use."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from strategies.operators import Norm, Operator
from strategies.operators.base.recovery import PRODUCTS, factorisation_seconds
from strategies.problem.objective import OBJECTIVES, Objective
from strategies.problem.problem import NORMS, Problem

BOTH_NORMS: frozenset[Norm] = frozenset(NORMS)
BOTH_OBJECTIVES: frozenset[Objective] = frozenset(OBJECTIVES)
TOTAL_ONLY: frozenset[Objective] = frozenset({"total"})


FEW_CELLS = 500
"""Cells up to which descents of all entries, and the optimum for Gaussian noise, serve ranges."""
MANY_CELLS = 2500
"""Cells beyond which those do not apply."""
MANY_RANGES = 8
"""Cells for every longer range beyond which the few rows are good ones to descend from."""


def has_many_ranges(problem: Problem) -> bool:
    """Tell whether rows are ranges of cells in some order, so many that searches of their own pay.

    For the worst row, as if for the total.
    """
    ranges = (problem if problem.is_total else problem.summed()).ranges
    if ranges is None or ranges.n <= FEW_CELLS:
        return False
    longer = int(np.count_nonzero(ranges.lengths > 1))
    return ranges.n > MANY_CELLS or longer * MANY_RANGES > ranges.n


def nothing(problem: Problem) -> float:
    """Return the price of a search that ends wherever its allowance does."""
    return 0.0


def nowhere(problem: Problem) -> bool:
    """Return False: no other family is known to be better."""
    return False


def evaluation_seconds(problem: Problem, rows: int) -> float:
    """Return the seconds of one evaluation of a strategy of some rows on the reference machine.

    Over the merged cells, or through inner products of rows where they cannot be enumerated.
    """
    q = problem.workload.shape[0]
    if problem.merging is None:
        return factorisation_seconds(rows) + 2.0 * q * rows * rows / PRODUCTS
    g = problem.merging.n_groups
    rank = min(rows, g)
    return (4.0 * rows * g * rank + 2.0 * min(q, g) * g * rank) / PRODUCTS


def no_selection(workload: Operator, work: float) -> Operator:
    """Refuse to select for a part: only a portfolio can."""
    raise ValueError("select: expected a search that a portfolio runs, to select for parts.")


@dataclass(frozen=True, eq=False)
class Search:
    """What a family may use while it searches.

    Attributes
    ----------
    starts : tuple of Operator
        Strategies over the same cells found so far, best first: starts for polishing.
    generator : numpy.random.Generator
        The only source of randomness.
    work : float
        Work allowance in seconds of the reference machine. A family turns it into a fixed number
        of iterations or restarts by a count of operations, never by reading a clock, so that the
        result does not depend on how busy the machine is.
    select : callable
        From a smaller workload and a work allowance to the best strategy for it: what a family
        asks that puts strategies of parts together.
    limit : float, optional
        Work of the whole portfolio, the allowance of one family where it is not run in one.
    """

    starts: tuple[Operator, ...] = ()
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    work: float = 1.0
    select: Callable[[Operator, float], Operator] = no_selection
    limit: float = 1.0


@dataclass(frozen=True, eq=False)
class Family:
    """A way to find a strategy.

    Attributes
    ----------
    name : str
        What ``select(method=...)`` accepts.
    space : {"merged", "domain"}
        Columns of the operator that `search` returns: merged cells, or cells of the domain.
    norms : frozenset of {"l1", "l2"}
        The norms it can minimise.
    applies : callable
        Whether it can serve a problem at all, at a reasonable cost.
    search : callable
        Returns the best strategy it finds.
    polishes : bool
        Whether it only improves on the starts it is given, and so runs after the others.
    share : float, default=1.0
        Part of a portfolio's work that it gets, relative to the other families' shares.
    share_for_l2 : float, optional
        The same for Gaussian noise where it differs.
    least : callable
        Seconds of the reference machine that its shortest search for a problem takes, with the
        evaluation of what it finds, by a count of operations. A portfolio that cannot afford them
        leaves it out and says so.
    largest_for_l1 : int, optional
        Rank of the workload (rows or merged cells, whichever is less) up to which the automatic
        portfolio tries it for Laplace noise, where it seldom wins above; None for any.
    largest_if_ordered : int, optional
        Merged cells up to which the automatic portfolio tries it where cells are ordered, as for
        prefix sums: `strategies.methods.ordered` serves those above. None for any.
    largest_far : int, optional
        Merged cells up to which the automatic portfolio tries it where a result far below the
        Identity's loss is known: descents from rows beside the Identity end above it.
    objectives : frozenset of {"total", "max"}
        The objectives it can minimise. For the worst row, a family of the total alone is asked
        for the total of rows weighted so that the worst count most, as a start for others.
    beaten : callable
        Whether another family is better on a problem, so that the automatic portfolio spends no
        time on this one.
    """

    name: str
    space: Literal["merged", "domain"]
    norms: frozenset[Norm]
    applies: Callable[[Problem], bool]
    search: Callable[[Problem, Search], Operator]
    polishes: bool = False
    share: float = 1.0
    share_for_l2: float | None = None
    least: Callable[[Problem], float] = nothing
    largest_for_l1: int | None = None
    largest_if_ordered: int | None = None
    largest_far: int | None = None
    objectives: frozenset[Objective] = TOTAL_ONLY
    beaten: Callable[[Problem], bool] = nowhere

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name in ("", "auto"):
            raise ValueError(f"name={self.name!r}: expected a family's own name, not 'auto'.")
        if self.space not in ("merged", "domain"):
            raise ValueError(f"space={self.space!r}: expected 'merged' or 'domain'.")
        if not self.norms or not self.norms <= BOTH_NORMS:
            raise ValueError(f"norms={self.norms!r}: expected a frozenset of 'l1' and 'l2'.")
        if not self.objectives or not self.objectives <= BOTH_OBJECTIVES:
            raise ValueError(
                f"objectives={self.objectives!r}: expected a frozenset of 'total' and 'max'."
            )
        if not 0 <= self.share < float("inf"):
            raise ValueError(f"share={self.share!r}: expected a finite number of at least 0.")

    def serves(self, problem: Problem) -> bool:
        """Tell whether the family has the norm, the cells and the will for a problem."""
        enumerable = self.space == "domain" or problem.merging is not None
        wanted = "total" in self.objectives or not problem.is_total
        return problem.norm in self.norms and enumerable and wanted and self.applies(problem)

    def is_worthwhile(self, problem: Problem) -> bool:
        """Tell whether the automatic portfolio spends time on it for a problem."""
        if self.beaten(problem):
            return False
        merging = problem.merging
        largest, ordered = self.largest_if_ordered, problem.ordered
        if largest is not None and ordered is not None and ordered.n > largest:
            return False
        if largest is not None and problem.norm == "l1" and has_many_ranges(problem):
            return False
        if self.largest_for_l1 is None or merging is None or problem.norm != "l1":
            return True
        return min(problem.workload.shape[0], merging.n_groups) <= self.largest_for_l1
