"""A tree is drawn with its labels: all that is learned from the records."""

from fractions import Fraction

from mrf_matrix.base.arrays import AnyInts, Longs
from mrf_matrix.base.steps import tell
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.labels.draw import Exponential, MostRight, Rules, draw_tree
from mrf_matrix.labels.joint_counts import JointCounts, joint_counts
from mrf_matrix.labels.plan import LabelPlan
from mrf_matrix.labels.weights import weights
from mrf_matrix.mechanisms.counts.cells import check_private_allocation


def counted(plan: LabelPlan, codes: AnyInts, counts: Longs) -> JointCounts:
    """Return all that the draw needs of the records; nothing is spent by it.

    `codes` (n, m), `counts` (n, k): **Private**: cells of `plan.attributes` and their records.
    """
    tell("Counting the records")
    check_private_allocation(
        "weights of up to so many records", (int(counts.sum(axis=0).max()),), 80
    )
    return joint_counts(plan.cuts, plan.attributes, codes, counts, plan.depth)


def release_labels(plan: LabelPlan, counts: JointCounts, bits: Bits) -> LabelTree:
    """Draw a tree and its labels. `counts`: **Private**; `bits`: the randomness."""
    tell(f"Drawing {plan.labels.measured}")
    rate = plan.labels.choice_rate
    rules: Rules = MostRight()
    if not plan.budget.is_infinite:
        rules = Exponential(weights(Fraction(rate), int(counts.total.max())), bits)
    return draw_tree(plan.cuts, counts, rules)
