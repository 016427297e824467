r"""What ``max_depth="auto"`` measures: all cells, or one-way tables where cells would drown.

Cells answer every forest, but each of them has the whole noise. The tables of single attributes
answer forests of depth 1 only, with little of it. Which of the two serves better is decided
without data: by the expected share of right labels under the public prior of
`mrf_matrix.planning.blocks.block_design`, in which all cells are one block and tables are blocks of
one. The class totals get a share of the budget of their own beside either.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from mrf_matrix.base.shown import shown
from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.block_trees import Block
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import ZCDP, Mechanism, PureDP, calibrate
from mrf_matrix.mechanisms.budgets.neighboring import squared_factor
from mrf_matrix.planning.blocks.block_design import judge_blocks
from mrf_matrix.planning.plans.part import PlanPart
from strategies import evaluate
from strategies.operators import Identity, Marginals, Operator, check_allocation, fits

CELLS_LEAD = 0.01
"""Expected lead from which cells are measured: the prior reckons with labels that make the best of
them, and forests are chosen by noisy scores."""


@dataclass(frozen=True)
class Measured:
    """Which tables are measured, and how the budget is shared.

    Attributes
    ----------
    blocks : tuple of tuple of int
        The attributes of each table; all of them in one are the cells.
    class_share : float
        Share of the budget of the class totals, from 0 to below 1.
    """

    blocks: tuple[Block, ...]
    class_share: float

    @property
    def are_cells(self) -> bool:
        """Whether all cells of the domain are told apart."""
        return len(self.blocks) == 1

    def __str__(self) -> str:
        many = len(self.blocks)
        what = "cells of the domain" if self.are_cells else f"tables of {many} attributes"
        return what + (", and class totals" if self.class_share else "")

    def mechanism(
        self, domain: Domain, budget: PureDP | ZCDP, neighboring: str
    ) -> tuple[Operator, Mechanism]:
        """Return the strategy of these tables, and its noise."""
        matrix = self.matrix(domain, budget)
        return matrix, calibrate(matrix, budget, neighboring=neighboring)

    def matrix(self, domain: Domain, budget: PureDP | ZCDP) -> Operator:
        """Return the strategy: weights are shares of the budget, under zCDP their roots."""
        each = (1 - self.class_share) / len(self.blocks)
        if self.are_cells:
            check_allocation("cells of the domain", (domain.size, domain.n_classes))
            if self.class_share == 0:
                return Identity(domain.size, domain.sizes)
        sets, shares = list(self.blocks), [each] * len(self.blocks)
        if self.class_share > 0:
            sets, shares = [(), *sets], [self.class_share, *shares]
        weights = shares if budget.norm == "l1" else [sqrt(share) for share in shares]
        return Marginals(domain.sizes, sets, weights)


def part_of_forest(forest: Forest, matrix: Operator, mechanism: Mechanism) -> PlanPart:
    """Return how tables that are measured answer the leaves of a forest over the whole domain."""
    workload = path_matrix(forest)
    strategy = evaluate(workload, matrix, norm=mechanism.budget.norm)
    whole = Ensemble(tuple(range(forest.domain.n_attributes)), forest)
    return PlanPart(whole, workload, strategy, mechanism)


def planned_tables(
    domain: Domain,
    budget: PureDP | ZCDP,
    *,
    neighboring: str,
    n_records: int | None,
    class_share: Any,
    strategy: Any,
    n_trees: int,
) -> Measured:
    """Choose what is measured, without data.

    Parameters
    ----------
    domain : Domain
    budget : PureDP or ZCDP
    neighboring : {"add_remove", "replace_one"}
    n_records : int or None
        Where it is public.
    class_share : float
    strategy : {"auto", "identity"}
        "identity" measures cells whatever is expected of them.
    n_trees : int
        Of all forests that would be tried on cells, together.

    Raises
    ------
    ValueError
        If `class_share` is out of range.
    """
    share = checked_share(class_share)
    everything = tuple(range(domain.n_attributes))
    cells = Measured((everything,), share)
    split = tuple((i,) for i in everything if domain.sizes[i] > 1)
    if strategy == "identity" or len(split) < 2:
        return cells
    tables = Measured(split, share)
    if not _can_be_scored(domain, n_trees):
        return tables
    if budget.is_infinite:
        return cells
    factor = squared_factor(neighboring, budget.norm, nonnegative=True)
    told = [
        judge_blocks(
            one.blocks,
            domain.sizes,
            domain.n_classes,
            budget,
            n_records,
            squared_factor=factor,
        ).value
        for one in (tables, cells)
    ]
    return cells if told[1] > told[0] + CELLS_LEAD else tables


def checked_share(class_share: Any) -> float:
    """Return a share of the budget or refuse by name."""
    number = isinstance(class_share, int | float | np.integer | np.floating)
    if isinstance(class_share, bool) or not number or not 0 <= class_share < 1:
        raise ValueError(
            f"class_share={shown(class_share)}: expected a share of the budget, from 0 to below 1."
        )
    return float(class_share)


def _can_be_scored(domain: Domain, n_trees: int) -> bool:
    """Tell whether the cells' estimates, and their leaves in all trees, fit the memory cap."""
    widest = max(4 * domain.n_classes, 2 * n_trees)
    return fits((domain.size, widest))
