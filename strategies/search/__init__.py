"""From a workload to its best strategy."""

from strategies.search.objective import evaluate
from strategies.search.progress import Progress
from strategies.search.select import select

__all__ = [
    "Progress",
    "evaluate",
    "select",
]
