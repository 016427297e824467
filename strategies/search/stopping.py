"""When a search may end, where that is cheap to prove, and with which of its strategies."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from strategies.bounds.climbs import LARGEST
from strategies.bounds.lower_bound import closed_bound, lower_bound
from strategies.bounds.path_climb import has_weighable_cells
from strategies.bounds.prefix_weights import long_prefix_rows
from strategies.bounds.unions.pinched_union import tables_bound
from strategies.methods.plain import own_loss
from strategies.problem.problem import Problem
from strategies.problem.strategy import Strategy

CERTIFIED_BY = ("gaussian_optimal", "ordered_cells")
"""Families after which a bound for Gaussian noise is known, or costs little more."""
CLOSED_GAP = 1e-9
"""Certified distance from optimal at which a search ends, where the bound has a closed form."""
OPTIMALITY_GAP = 1e-4  # the same for Gaussian noise
WORST_GAP = 6e-4  # the same for the worst row or group, where a step of the search costs more
TABLES_GAP = 0.05
"""The same for unions of tables over more cells than can be climbed on: what other families reach
there stands 7 % and more above oblique residuals."""
PLAIN = ("identity", "workload_itself")  # families that no result of "auto" is above
TIE = 1e-9  # relative difference of losses that is rounding
AS_GOOD = 1e-3
"""Relative difference of losses for Gaussian noise for which a smaller strategy is kept."""


@dataclass(frozen=True, eq=False)
class Stopping:
    """The bounds of a problem that its own search asks for."""

    problem: Problem
    work: float  # seconds of the reference machine for a bound

    def is_optimal(self, found: Sequence[Strategy]) -> bool:
        """Tell whether the best found is certified optimal.

        A bound in closed form serves both norms, a climbed one Gaussian noise.
        """
        best = min((one.loss for one in found), default=float("inf"))
        if self.meets_closed_bound(best) or self.is_near_tables(best):
            return True
        climbed = CERTIFIED_BY if self.problem.is_total else CERTIFIED_BY[:1]
        if self.problem.norm == "l1" or not any(one.method in climbed for one in found):
            return False
        gap = OPTIMALITY_GAP if self.problem.is_total else WORST_GAP
        return best <= self.climbed_bound * (1 + gap)

    def is_near_tables(self, loss: float) -> bool:
        """Tell whether tables are too many cells for what comes closer than their own bound."""
        merging = self.problem.merging
        if self.problem.norm == "l1" or (merging is not None and merging.n_groups <= LARGEST):
            return False
        known = tables_bound(self.problem, self.work)
        return known > 0 and loss <= known * (1 + TABLES_GAP)

    def meets_closed_bound(self, loss: float) -> bool:
        """Tell whether a bound that costs next to nothing proves a loss optimal."""
        gap = CLOSED_GAP if self.problem.norm == "l1" else OPTIMALITY_GAP
        return self.closed_bound is not None and loss <= self.closed_bound * (1 + gap)

    @cached_property
    def closed_bound(self) -> float | None:
        """The best bound that costs next to nothing, None where there is none."""
        return closed_bound(self.problem, self.work)

    @cached_property
    def climbed_bound(self) -> float:
        """The bound at the weights that the search for Gaussian noise has found."""
        if not has_weighable_cells(self.problem) and long_prefix_rows(self.problem) is None:
            return 0.0
        return lower_bound(self.problem, self.work)


def smallest_of_best(problem: Problem, found: Sequence[Strategy]) -> Strategy:
    """Return the strategy of least loss; for Gaussian noise the smallest that is as good.

    Fewer answers take less time and room, and a thousandth of the loss is no price for that.
    """
    best = min(found, key=lambda strategy: strategy.loss)
    if problem.norm == "l1":
        return best
    plain = [one.loss for one in found if one.method in PLAIN]  # the rule stands above
    most = max(best.loss * (1 + TIE), min(best.loss * (1 + AS_GOOD), *plain, own_loss(problem)))
    near = [one for one in found if one.loss <= most]
    least = min(one.matrix.shape[0] for one in near)
    if best.matrix.shape[0] == least:
        return best
    return min((one for one in near if one.matrix.shape[0] == least), key=lambda one: one.loss)
