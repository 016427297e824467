r"""How unequal two classes are: chosen privately among few levels, before anything else is planned.

Where a share p of N records has the rarer class and q = 1 - p the other, noise of variance v leaves
:math:`v/(pn)^2 + v/(qn)^2` unknown of the log odds of a cell of n records, and :math:`8v/n^2` where
classes are even. So noise drowns the cells of N records as it would drown those of

.. math::  N \sqrt{\frac{8}{p^{-2} + q^{-2}}} \approx 2.8\,p\,N

records of even classes. A plan made for N of those measures too much at once; made for so many it
measures what noise leaves legible.

The exponential mechanism picks one of the shares :math:`1/a` by the score
:math:`-\lfloor |a\,n_{\text{rarer}} - N| / a \rfloor`, how many records the rarer class is away
from it. One record more or less moves :math:`n_{\text{rarer}} - N/a` by at most 1, and so each
score.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import ClassVar

import numpy as np

from mrf_matrix.base.arrays import Bools, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.release.questions import Data, FewOptions
from mrf_matrix.residual.settings import Budget
from mrf_matrix.residual.step import ResidualStep

ONE_IN = (2, 3, 5, 8, 12, 20, 32, 50, 100)  # levels: the rarer class is one record in so many

NEARLY_EVEN = 3
"""Up to one in so many classes count as even: constants of all plans were set on such sets."""

MOST, LEAST = Fraction(4, 100), Fraction(1, 100)
"""Of the budget, at most and at least."""

SIGNAL = 100  # N ε of the choice beyond which it gets no more than the least

LEAST_SIGNAL = 1000  # N ε below which a choice would guess

FEWEST = 4  # attributes from which there is something to plan


def planned_balance(
    domain: Domain, budget: Budget, *, n_records: int | None, neighboring: str
) -> ResidualStep | None:
    """Return the choice of how unequal two classes are; None where it is not made.

    Under zCDP it is not: parts of a budget cost a root there, and plans for fewer records gained
    nothing on made-up tables.

    `budget`: the whole; `n_records`: where it is public; `neighboring` {"add_remove",
    "replace_one"}.

    >>> domain = Domain.from_sizes([4] * 10, n_classes=2)
    >>> step = planned_balance(domain, PureDP(1), n_records=2000, neighboring="add_remove")
    >>> step.budget
    PureDP(epsilon=0.04)
    """
    if domain.n_classes != 2 or domain.n_attributes < FEWEST or budget.is_infinite:
        return None
    if not isinstance(budget, PureDP):  # what is measured at once costs a root there
        return None
    signal = (n_records or 0) * float(budget.exact)
    if signal < LEAST_SIGNAL:
        return None
    share = min(max(Fraction(round(SIGNAL / signal * 10**6), 10**6), LEAST), MOST)
    step = ResidualStep("choice", "how rare the rarer class is", budget * share, neighboring)
    return step if step.can_be_drawn else None


def balance_scores(rarer: int, n_records: int) -> Longs:
    """Return the score of every level.

    `rarer`, `n_records`: **Private**: records of the rarer class, and of both.
    """
    return np.array([-(abs(a * rarer - n_records) // a) for a in ONE_IN], dtype=np.int64)


def even_records(n_records: int, level: int) -> int:
    """Return how many records of even classes tell as much, at a level.

    >>> even_records(10_000, 0), even_records(10_000, 5)
    (10000, 1412)
    """
    one_in = ONE_IN[level]
    if one_in <= NEARLY_EVEN:
        return n_records
    return max(1, round(n_records * sqrt(8 / (one_in**2 + (1 - 1 / one_in) ** -2))))


@dataclass(frozen=True, eq=False)
class Rarity(FewOptions):
    """One in how many records has the rarer of two classes.

    A score is minus how many records the rarer class is away from a level: one record moves it by
    one at most (`balance_scores`).
    """

    kind: ClassVar[str] = "choice"
    options: Bools = field(default_factory=lambda: np.ones(len(ONE_IN), dtype=np.bool_))

    def scores(self, data: Data) -> Longs:
        """Return them: **private**."""
        totals = data.cells((0,)).counts.sum(axis=0)
        return balance_scores(int(totals.min()), int(totals.sum()))
