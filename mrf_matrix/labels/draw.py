r"""Trees and their labels, drawn together by the exponential mechanism, exactly.

A tree t with labels l is right on :math:`\sum_v n_v(l_v)` records, v its cells. Each is drawn with
probability proportional to :math:`\exp(r \sum_v n_v(l_v))`, r the rate, for which nobody has to
write out all trees: labels of different cells, and what lies on either side of a cut, are
independent given the tree above them, so that

.. math:: Z(v) = \sum_{\text{cuts}} Z(v_\text{below})\, Z(v_\text{above}), \qquad
    Z(\text{cell}) = \sum_c \exp(r\,n(c)) .

Cuts are drawn from the root down in proportion to their terms, then labels to theirs. With whole
numbers in place of the exponentials (`weights`) all of this is exact, and rounded ones are looked
at only where the whole ones would say the same (`rules`). One record more raises the number of
records that are right by 0 or 1, for every tree and labels: sensitivity 1, monotone.

Draws of a later round are below the cells of the tree so far, which hold different records: one
record more is in one of them, and a record in another's place moves each of two by a half of what
the rate allows for. So all draws of a round together cost what one does.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.kept import Choice, begun
from mrf_matrix.base.provenance import chosen_here
from mrf_matrix.base.steps import tell
from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.forests.sources.cuts import Cut
from mrf_matrix.labels.depth import DEEP
from mrf_matrix.labels.joint_counts import JointCounts
from mrf_matrix.labels.rules import Arithmetic, Rules, Worth

MOST_SUMMED = 2**53  # doubles are whole numbers below


def draw_tree(cuts: Sequence[Cut], counts: JointCounts, rules: Rules) -> tuple[LabelTree, Longs]:
    """Draw a tree with its labels.

    `counts`: **Private**: those of the root, by all of `cuts`.

    Returns
    -------
    tree : LabelTree
    of_cells : ndarray of int64, shape (n_cells, k)
        **Private**: how many records of each class its cells hold.
    """
    tell(lambda: f"Drawing a tree of {1 << counts.order} cells and their labels")
    nodes: list[JointCounts] = [counts]
    drawn: list[Cut] = []
    labels: list[int] = []
    begun(Choice).outcome = drawn, labels  # kept as they are drawn
    for _ in range(counts.order):
        below = []
        for node in nodes:
            lower, upper = node.split()
            place = rules.draw(partial(_of_each_cut, lower, upper))
            drawn.append(cuts[place])
            below += [lower.at(place), upper.at(place)]
        nodes = below
    labels.extend(rules.draw(partial(_of_each_label, cell)) for cell in nodes)
    known = chosen_here()
    tree = LabelTree(tuple(drawn), np.array(labels, dtype=np.int64), provenance=known)
    return tree, np.array([cell.total for cell in nodes], dtype=np.int64)


def _of_each_cut(
    lower: JointCounts, upper: JointCounts, rules: Arithmetic[Worth]
) -> Sequence[Worth]:
    """Return what the trees that begin with each cut are worth.

    Of deep trees one cut at a time: the largest arrays hold a number for all that may follow one.
    """
    if lower.order < DEEP - 1:
        return rules.each(rules.both(_worth(lower, rules), _worth(upper, rules)))
    return [
        rules.both(_worth(lower.at(place), rules), _worth(upper.at(place), rules))
        for place in range(len(lower.total))
    ]


def _of_each_label(cell: JointCounts, rules: Arithmetic[Worth]) -> Sequence[Worth]:
    """Return what each label of a cell is worth."""
    return rules.each(rules.labels(cell.total))


def _worth(node: JointCounts, rules: Arithmetic[Worth]) -> Worth:
    """Return what all trees of the nodes are worth together, and the labels of their cells."""
    if node.order == 0:
        return rules.either(rules.labels(node.total))
    lower, upper = node.split()
    return rules.either(rules.both(_worth(lower, rules), _worth(upper, rules)))
