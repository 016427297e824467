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
from strategies.methods import families
from strategies.methods.common_refinement import common_refinement
from strategies.methods.family import Family, Progress, Search, identity
from strategies.methods.few_rows import p_identity, row_space
from strategies.methods.free_entries import free_entries
from strategies.methods.gaussian_optimal import gaussian_optimal, leaves, path_optimal
from strategies.methods.kronecker_selections import boxes, kronecker, kronecker_selections
from strategies.methods.marginals.gaussian_unions import (
    joint_tables,
    oblique_residuals,
    weighted_kronecker,
)
from strategies.methods.marginals.marginals import marginals, residual_marginals
from strategies.methods.marginals.product_marginals import product_marginals
from strategies.methods.ordered_cells import ordered_cells, prefix_factorisation, toeplitz
from strategies.methods.trees import levels, tree, wavelet
from strategies.methods.weighted_rows import weighted_rows, workload_itself
from strategies.operators import Gram, MemoryCapError, Operator, RowSpaceError, memory_cap
from strategies.problem.merging import Merging, merge_columns
from strategies.problem.problem import Problem
from strategies.problem.strategy import Candidate, Strategy
from strategies.search.assessment import evaluate
from strategies.search.select import select

if TYPE_CHECKING:
    from strategies.allocation.allocate import Allocation as Allocation
    from strategies.allocation.allocate import SmallestBudget as SmallestBudget
    from strategies.allocation.allocate import allocate as allocate
    from strategies.allocation.allocate import smallest_budget as smallest_budget
    from strategies.problem.matrix_files import load as load
    from strategies.problem.matrix_files import save as save

LATER = {
    "Allocation": "strategies.allocation.allocate",
    "SmallestBudget": "strategies.allocation.allocate",
    "allocate": "strategies.allocation.allocate",
    "load": "strategies.problem.matrix_files",
    "save": "strategies.problem.matrix_files",
    "smallest_budget": "strategies.allocation.allocate",
}
"""Names whose rooms are loaded when they are first used."""

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
    "boxes",
    "common_refinement",
    "evaluate",
    "examples",
    "families",
    "free_entries",
    "gaussian_optimal",
    "identity",
    "joint_tables",
    "kronecker",
    "kronecker_selections",
    "leaves",
    "levels",
    "load",
    "marginals",
    "memory_cap",
    "merge_columns",
    "oblique_residuals",
    "ordered_cells",
    "p_identity",
    "path_optimal",
    "prefix_factorisation",
    "product_marginals",
    "residual_marginals",
    "row_space",
    "save",
    "select",
    "smallest_budget",
    "toeplitz",
    "tree",
    "wavelet",
    "weighted_kronecker",
    "weighted_rows",
    "workload_itself",
]


def __getattr__(name: str) -> object:
    """Load a room when it is first used."""
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LATER[name]), name)
