"""How deep a tree of labels is, in how many rounds, and whether its cells are counted.

All of it follows from public numbers, by what the records can tell beside the noise.
"""

from fractions import Fraction

import numpy as np

from mrf_matrix.residual.settings import ASSUMED_RECORDS, Budget
from mrf_matrix.residual.step import ResidualStep

FLAT, DEEP, DEEPEST = 2, 3, 4
"""Cuts that a record is asked for in the first round: four cells, eight, or sixteen."""

DEEP_FROM, DEEP_FOR_MORE = 60, 30
"""Signal (`label_signal`) from which trees are deep; the second for more classes than flat ones
have cells. Of several classes they are the deepest from the first on, where a domain has no more
than `MORE_CUTS` times the public cuts that are then to choose from: up to 10 points more than with
eight cells, and up to 12 less on sets with twice as many."""

MORE_CUTS = Fraction(5, 4)

COUNTED_FROM, COUNTED_A_CLASS = 100, 40
"""Signal, in all and a class, from which class counts of the cells are released too. Below
accuracy fell by 1 to 4 points."""

MOST_CUTS, MOST_COUNTS = 64, 1 << 19
"""Cuts among which each node has one, and counts that trees of them need: cuts to the power of
their depth, times classes. With 20 cuts trees were 1 to 2.5 points behind, with 100 no better."""

GROWN_FROM, GROWN_FROM_OF_TWO = 400, 1000
"""Signal from which there is a second round; the second of two classes. Of several, whose cells are
too few for all classes, it gained 2 to 5 points."""

BELOW = 2
"""Cuts that the second round asks each record for."""

LARGEST_FLOAT = 10**300  # of exact numbers that are given, which may be larger


def depths_of_rounds(signal: float, n_classes: int, n_cuts: int) -> tuple[int, ...]:
    """Return the cuts of the first round, and of the second if there is one.

    `n_cuts`: public ones of the domain.

    >>> depths_of_rounds(40, 2, 64), depths_of_rounds(40, 10, 64), depths_of_rounds(1000, 2, 64)
    ((2,), (3,), (3, 2))
    >>> most_cuts(DEEPEST, 3), depths_of_rounds(100, 3, 25), depths_of_rounds(100, 3, 26)
    (20, (4,), (3,))
    """
    if signal >= (GROWN_FROM if n_classes > 2 else GROWN_FROM_OF_TWO):
        return DEEP, BELOW
    if (
        n_classes > 2
        and signal >= DEEP_FROM
        and n_cuts <= MORE_CUTS * most_cuts(DEEPEST, n_classes)
    ):
        return (DEEPEST,)
    least = DEEP_FROM if n_classes <= 1 << FLAT else DEEP_FOR_MORE
    return (DEEP if signal >= least else FLAT,)


def label_signal(budget: Budget, n_records: int | None, neighboring: str) -> float:
    """Return by how much all records move the log probability of a label.

    It is N ε under add/remove neighbours, and half of that under replace-one.
    """
    rate = ResidualStep("labels", "", budget, neighboring).choice_rate
    if budget.is_infinite:
        return float("inf")
    return float(min(Fraction(rate) * (n_records or ASSUMED_RECORDS), Fraction(LARGEST_FLOAT)))


def counted_from(n_classes: int) -> int:
    """Return the signal from which class counts are released.

    >>> counted_from(2), counted_from(10)
    (100, 400)
    """
    return max(COUNTED_FROM, COUNTED_A_CLASS * n_classes)


def most_cuts(depth: int, n_classes: int) -> int:
    """Return among how many cuts each node has one.

    >>> most_cuts(2, 2), most_cuts(3, 2), most_cuts(3, 10)
    (64, 64, 37)
    """
    return min(MOST_CUTS, int(np.power(MOST_COUNTS / n_classes, 1 / depth) + 1e-9))
