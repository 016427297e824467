"""From a workload to its best strategy."""

from strategies.search.assessment import evaluate
from strategies.search.select import select

__all__ = ["evaluate", "select"]
