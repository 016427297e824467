"""One partition is chosen, and its cells are labelled: all that is learned from the records."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.steps import tell
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.growth.private.labels import label_gaps, right_by_codes
from mrf_matrix.forests.growth.private.permute_and_flip import permute_and_flip
from mrf_matrix.forests.growth.private.selection import Rate, select
from mrf_matrix.labels.plan import LabelPlan
from mrf_matrix.residual.releases import chosen_place
from mrf_matrix.residual.step import ResidualStep


def release_labels(plan: LabelPlan, counts: Sequence[Longs], bits: Bits) -> tuple[int, Longs]:
    """Take both steps of a plan.

    `counts`: **Private**: those of the cells of each candidate, (n_cells, k) each; `bits`: the
    randomness of both.

    Returns which candidate was chosen, and the labels of its cells, shape (n_cells,).
    """
    place = 0
    if plan.choice is not None:
        tell(f"Choosing {plan.choice.measured}")
        scores = np.array([right_by_codes(one) for one in counts], dtype=np.int64)
        options = np.ones((len(scores), 1), dtype=np.bool_)
        gaps = (scores.max() - scores)[:, None]
        place = chosen_place(gaps, options, Rate.below(plan.choice.choice_rate), bits)
    tell(f"Choosing {plan.labels.measured}")
    return place, chosen_labels(plan.labels, counts[place], bits)


def chosen_labels(step: ResidualStep, counts: Longs, bits: Bits) -> Longs:
    """Choose the label of every cell; without noise the first of its largest classes.

    `counts` (cells, k): **Private**.
    """
    gaps = label_gaps(counts, "count")
    rate = Rate.below(step.choice_rate)
    if step.flips or rate.units is None:
        return permute_and_flip(gaps, rate, bits)
    return select(gaps, np.ones(gaps.shape, dtype=np.bool_), rate, bits)
