"""From a workload to its best strategy."""

from strategies.search.assessment import evaluate
from strategies.search.portfolio import Progress
from strategies.search.select import SmallestBudget, select, smallest_budget

__all__ = ["Progress", "SmallestBudget", "evaluate", "select", "smallest_budget"]
