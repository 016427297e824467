"""The matrix mechanism for any workload: strategy matrices and their certificates.

A workload W (q x n) asks q linear queries of a histogram over n cells. A strategy A (m x n) is
what is measured under noise; ``W A⁺`` turns its answers into the workload's. This package finds
strategies with a small expected error, and a lower bound that no strategy can beat. It knows
nothing of records or budgets.

>>> import numpy as np
>>> import strategies
>>> strategies.evaluate(np.tri(4), np.eye(4)).loss
10.0
"""

from importlib import import_module
from typing import TYPE_CHECKING

from strategies import examples
from strategies.methods.family import Family, Search
from strategies.methods.ordered.streams import prefix_factorisation, toeplitz
from strategies.methods.registry import families
from strategies.operators import Gram, MemoryCapError, Operator, RowSpaceError, memory_cap
from strategies.problem.merging import Merging, merge_columns
from strategies.problem.problem import Problem
from strategies.problem.strategy import Candidate, Strategy
from strategies.search.assessment import evaluate
from strategies.search.progress import Progress
from strategies.search.select import select
from strategies.search.smallest_budget import SmallestBudget, smallest_budget

if TYPE_CHECKING:
    from strategies.allocation.allocate import Allocation as Allocation
    from strategies.allocation.allocate import allocate as allocate

__all__ = [
    "Allocation",
    "Candidate",
    "Family",
    "Gram",
    "MemoryCapError",
    "Merging",
    "Operator",
    "Problem",
    "Progress",
    "RowSpaceError",
    "Search",
    "SmallestBudget",
    "Strategy",
    "allocate",
    "evaluate",
    "examples",
    "families",
    "memory_cap",
    "merge_columns",
    "prefix_factorisation",
    "select",
    "smallest_budget",
    "toeplitz",
]


def __getattr__(name: str) -> object:
    """Load the conic room when it is first used."""
    if name not in ("Allocation", "allocate"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("strategies.allocation.allocate"), name)
