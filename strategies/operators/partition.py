"""Strategies on top of each other, each of which answers a part of a workload by itself."""

from dataclasses import dataclass

import numpy as np

from strategies.operators.base.arrays import Array
from strategies.operators.base.operator import Operator
from strategies.operators.base.pseudo_inverse import RowSpaceError
from strategies.operators.base.recovery import error_trace, estimate, row_errors
from strategies.operators.stack import Stack

MOST_JOINT = 4 * 10**6
"""Entries of a factorisation of all rows up to which they are solved with together."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Partition(Stack):
    """A `Stack` whose block j answers block j of a workload alone.

    Over domains where nobody can solve with all rows at once, ``W_j A_j⁺`` block by block is still
    unbiased, and its error is the sum of the blocks' errors: at least that of ``W A⁺``, and what
    is reported, since it is what is done.

    Parameters
    ----------
    blocks : sequence of Operator
        One for each block of the workloads that it serves.
    """

    def pairs(self, workload: Operator) -> list[tuple[Operator, Operator]] | None:
        """Return the workload's blocks with those that answer them, None where they differ."""
        if not isinstance(workload, Stack) or len(workload.blocks) != len(self.blocks):
            return None
        if min(self.shape) * self.shape[1] <= MOST_JOINT:  # all rows together answer better
            return None
        return list(zip(workload.blocks, self.blocks, strict=True))

    def rounded(self, scale: int) -> Operator:
        """Return the operator with entries ``round(scale * A[i, j])``."""
        return Partition([block.rounded(scale) for block in self.blocks])

    def error_trace(self, workload: Operator) -> float | None:
        """Return the sum of the blocks' traces, None where they are not blocks of the workload."""
        pairs = self.pairs(workload)
        if pairs is None:
            return None
        try:
            return sum(error_trace(part, block) for part, block in pairs)
        except RowSpaceError:
            return None

    def row_errors(self, workload: Operator) -> Array | None:
        """Return the errors of the blocks' rows, None where they are not blocks of the workload."""
        pairs = self.pairs(workload)
        if pairs is None:
            return None
        try:
            return np.concatenate([row_errors(part, block) for part, block in pairs])
        except RowSpaceError:
            return None

    def estimate(self, workload: Operator, answers: Array) -> Array | None:
        """Return the blocks' estimates, None where they are not blocks of the workload."""
        pairs = self.pairs(workload)
        if pairs is None:
            return None
        own = self.split(self.checked_answers(answers))
        try:
            return np.concatenate(
                [estimate(*pair, part) for pair, part in zip(pairs, own, strict=True)]
            )
        except RowSpaceError:
            return None
