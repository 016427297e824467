"""Attributes, and how unequal classes are, chosen privately from records."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Bools
from mrf_matrix.forests.growth.private.labels import right_by_codes
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.mechanisms.selection.exponential import Rate
from mrf_matrix.planning.kinds.kind import TableSource
from mrf_matrix.planning.private.balance import balance_scores
from mrf_matrix.planning.private.screening import Screening
from mrf_matrix.residual.releases import chosen_place
from mrf_matrix.residual.step import ResidualStep


def chosen_balance(step: ResidualStep, data: TableSource, bits: Bits) -> int:
    """Return the level of `ONE_IN` that is chosen for the rarer of two classes.

    `step`: the choice; `data`: **Private**; `bits`: its randomness.
    """
    totals = data.cells((0,)).counts.sum(axis=0)
    scores = balance_scores(int(totals.min()), int(totals.sum())).tolist()
    return choice_of(scores, np.ones(len(scores), dtype=np.bool_), step, bits)


def screened(
    screening: Screening, data: TableSource, sizes: Sequence[int], bits: Bits
) -> tuple[tuple[int, ...], bool]:
    """Choose attributes, and tell whether they are enough: all that is learned is what returns.

    `screening`: what the choices cost; `data`: **Private**: gives counts of the cells of any
    attributes; `sizes`: codes of each attribute; `bits`: the randomness of the choices.

    Returns `chosen`: attributes, in the order of the choices; `enough`: whether the forest keeps
    to them.
    """
    scores = [right_by_codes(data.cells((i,)).counts) for i in range(len(sizes))]
    left = np.array(sizes) > 1
    chosen: list[int] = []
    for step in screening.choices:
        chosen.append(choice_of(scores, left, step, bits))
        left[chosen[-1]] = False
    if screening.enough is None:
        return tuple(chosen), True
    first = chosen[: screening.together([sizes[i] for i in chosen])]
    counts = data.cells(tuple(first)).counts
    without = screening.without(int(counts.sum(axis=0).max()), int(counts.sum()))
    options = np.ones(2, dtype=np.bool_)
    kept = choice_of([right_by_codes(counts), without], options, screening.enough, bits)
    return tuple(chosen), kept == 0


def choice_of(scores: Sequence[int], options: Bools, step: ResidualStep, bits: Bits) -> int:
    """Choose among options by their scores."""
    known = np.asarray(scores, dtype=np.int64)
    gaps = known[options].max() - known
    return chosen_place(gaps[:, None], options[:, None], Rate.below(step.choice_rate), bits)
