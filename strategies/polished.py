"""Strategies found by others, with every entry set free.

A start of full column rank descends over all matrices with columns of L1 norm 1
(`strategies.free_columns_descent`). A start of lower rank, such as marginals, keeps to few
dimensions: its rows descend beside identity rows of a few thousandths of its weight
(`strategies.p_identity_descent`), which keep the systems regular and move the row space only as
far as it pays; they are left out at the end where the rows alone determine the workload.
"""

from dataclasses import dataclass

import numpy as np

from strategies.descent import step_seconds
from strategies.family import Family, Search
from strategies.free_columns_descent import descend_columns
from strategies.operators import Array, Dense, Identity, Operator, RowSpaceError, fits
from strategies.operators.pseudo_inverse import factorised
from strategies.p_identity_descent import descend, p_identity_matrix
from strategies.problem import Problem
from strategies.structured_starts import hefty
from strategies.workload_factor import factor_of

LARGEST = 1000
"""Merged cells up to which every entry can be a variable."""
HEFTS = (3e3, 1e4, 3e4)
"""Weights of a low-rank start's rows in units of the identity rows beside it."""
MOST_STARTS = 2
FEWEST_STEPS = 12
"""Below this a descent is not worth its start."""
MOST_STEPS = 400
NEAR = 1e-3
"""Relative distance from the Identity's loss at which a start is taken to be the Identity."""


def polished(problem: Problem, search: Search) -> Operator:
    """Return the best of the starts after a descent over all entries, over the merged cells."""
    factor = factor_of(problem)
    if factor is None:
        raise ValueError("workload is too large to enumerate: expected merged cells.")
    found = chosen(factor, search.starts)
    best: Operator = search.starts[0] if search.starts else Identity(factor.shape[1])
    lowest = float("inf")
    for polish in found:
        matrix = polish.run(search.work / len(found), search.generator)
        loss = direct_loss(factor, matrix)
        if loss < lowest:
            best, lowest = Dense(matrix), loss
    return best


def chosen(factor: Array, starts: tuple[Operator, ...]) -> list["Polish"]:
    """Return the best starts that a descent can improve: the Identity is a local minimum."""
    whole = float(np.sum(factor**2))
    found: list[Polish] = []
    for start in starts:
        if isinstance(start, Identity) or len(found) == MOST_STARTS:
            continue
        dense = start.to_dense()
        if abs(direct_loss(factor, dense) / whole - 1.0) > NEAR:
            found.append(Polish(factor, dense))
    return found


@dataclass(frozen=True, eq=False)
class Polish:
    """A start and the workload's factor, both over the merged cells."""

    factor: Array
    start: Array

    def run(self, work: float, generator: np.random.Generator) -> Array:
        """Return a matrix where a descent ends, or the start where it would be too short."""
        full = self.start.shape[0] >= self.start.shape[1] and self.is_regular
        steps = min(MOST_STEPS, int(work / (self.columns_cost if full else self.rows_cost)))
        if steps < FEWEST_STEPS:
            return self.start
        if full:
            warmup = steps // 3
            return descend_columns(self.factor, self.start, warmup, steps - warmup, generator)
        ends = [
            descend(self.factor, hefty(self.start, heft), steps // len(HEFTS), 0.0, warmup=0)
            for heft in HEFTS
        ]
        return without_identity(self.factor, min(ends, key=lambda end: end.loss).rows)

    @property
    def is_regular(self) -> bool:
        """Whether the start has full column rank, well within rounding."""
        values = np.linalg.eigvalsh(self.start.T @ self.start)
        return bool(values[0] > 1e-10 * values[-1])

    @property
    def columns_cost(self) -> float:
        """Seconds of one step over all entries on the reference machine."""
        (r, g), m = self.factor.shape, len(self.start)
        return step_seconds(2.0 * m * g * g + 2.0 * g**3 + 2.0 * r * g * (g + 2 * m), m * g)

    @property
    def rows_cost(self) -> float:
        """Seconds of one step over the rows' nonzero entries on the reference machine."""
        (r, g), p = self.factor.shape, len(self.start)
        entries = int(np.count_nonzero(self.start)) + p * g // 8
        return step_seconds(2.0 * g * p * p + p**3 + 6.0 * r * g * p, entries)


def without_identity(factor: Array, rows: Array) -> Array:
    """Return the rows alone, columns at most 1, where they determine the workload well enough."""
    whole = p_identity_matrix(rows)
    alone = rows / np.abs(rows).sum(axis=0).max()
    return alone if direct_loss(factor, alone) < direct_loss(factor, whole) else whole


def direct_loss(factor: Array, matrix: Array) -> float:
    """Return the loss for "l1" by QR, infinite where W is not determined."""
    try:
        solved = factorised(Dense(matrix)).row_errors(factor)
    except RowSpaceError:
        return float("inf")
    return float(np.abs(matrix).sum(axis=0).max() ** 2 * solved.sum())


def applies(problem: Problem) -> bool:
    """Tell whether the merged cells are few enough."""
    if problem.merging is None:
        return False
    g = problem.merging.n_groups
    return 1 < g <= LARGEST and fits((g, g), 64)


FAMILY = Family("polished", "merged", frozenset({"l1"}), applies, polished, polishes=True)
