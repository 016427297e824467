"""From a workload to its best strategy."""

from strategies.search.assessment import evaluate
from strategies.search.select import select
from strategies.search.targets import SmallestBudget, smallest_budget

__all__ = ["SmallestBudget", "evaluate", "select", "smallest_budget"]
