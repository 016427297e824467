r"""Private choices before a forest is planned: among few options, each paid for.

**Screening.** Few attributes are chosen privately before anything is counted, or all are kept.

An attribute's score is how many records are right if each of its codes says its largest class: one
record more raises it by at most one, and never lowers it. So the exponential mechanism has the
rate ε itself under add/remove neighbours, and half of it under replace-one. Attributes are chosen
one after another. With two classes and enough records one more choice asks whether the first ones
tell nearly all: whether their joint table is right on a stated part of the records that the
largest class misses. If not, all attributes are kept. With few records an attribute there is no
such choice: tables of all would show none of them.

**Balance.** How unequal two classes are is chosen among few levels before all else is planned.

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

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from math import sqrt
from operator import mul
from typing import ClassVar

import numpy as np

from mrf_matrix.base.arrays import Bools, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.forests.growth.level import count_right
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.mechanisms.measurement.mechanism import choice_epsilon
from mrf_matrix.release.plan import Data, Deferred, FewOptions, Plan
from mrf_matrix.residual.step import ASSUMED_RECORDS, Budget, ResidualStep

# Screening ---------------------------------------------------------------------------------------

LARGEST_SHARE, LARGEST_OF_FEW = Fraction(20, 100), Fraction(30, 100)
"""Of the budget, for all choices; the second below `GATED_FROM`, where few are made."""

CHOICE_SIGNAL = 100
"""N ε of one choice from which a twentieth of the records is told from none: no more is spent."""

KEPT, KEPT_OF_TWO = 0.185, 0.13
"""Attributes kept, by the root of N ε; the second of two classes from `GATED_FROM` on."""

AMPLE, AMPLE_OF_SEVERAL = 4, 100
"""Root of N ε / k, an attribute, beyond which all of two classes are kept; and N ε / k beyond which
all of several are."""

FEWEST = 8
"""Attributes from which those of several classes are screened, if two in five are kept at most."""

LEAST_SIGNAL, LEAST_OF_CLASS, GATED_FROM = 20, 5, 400
"""N ε from which choices bring more than they cost, and the same for each class; from the last on
all attributes of two classes may be kept: below they tell less together than the best one."""

GATED_SIGNAL, GATED_RECORDS = 12, 2000
"""N ε an attribute from which the same holds; and records: the joint table of the first attributes
has a hundred cells then. With fewer records it cost more than it told, .3 to 1 point."""

MOST_KEPT, MOST_OF_SEVERAL = 8, 4
"""Attributes kept of two classes; of several, where more are worth while all are kept."""

TOLD = Fraction(70, 100)
"""Part of the records beyond the largest class that the first attributes must be right on together
to be enough."""

RECORDS_OF_A_CELL, MOST_CELLS = 20, 4096
"""Records of each cell of their joint table, at least: with fewer it is right by chance; and its
cells at most."""


@dataclass(frozen=True)
class Screening:
    """Which choices are made, and what they cost: fixed before the data.

    Attributes
    ----------
    choices : tuple of ResidualStep
        One for each attribute that is kept.
    enough : ResidualStep or None
        Whether the first ones are enough; None where they are kept whatever they tell.
    told : Fraction
        Part of the records beyond the largest class that they must be right on.
    most_cells : int
        Of the joint table of the first ones.
    """

    choices: tuple[ResidualStep, ...]
    enough: ResidualStep | None
    told: Fraction
    most_cells: int

    @property
    def steps(self) -> tuple[ResidualStep, ...]:
        """Every choice, in the order in which they are made."""
        return (*self.choices, *([] if self.enough is None else [self.enough]))

    def together(self, sizes: Sequence[int]) -> int:
        """Return how many of the first attributes are looked at together, one at least.

        `sizes`: codes of the chosen attributes, in the order of the choices.
        """
        cells: list[int] = list(accumulate(sizes, mul))
        return max(1, sum(one <= self.most_cells for one in cells))

    def score_of_all(self, best: int, n_records: int) -> int:
        """Return the score of keeping all attributes, which one record moves by one at most.

        Parameters
        ----------
        best : int
            Records of the largest class.
        n_records : int
        """
        numerator, denominator = self.told.as_integer_ratio()
        return (best * (denominator - numerator) + n_records * numerator) // denominator


def deferred_step(
    plan: Plan, choices: Sequence[ResidualStep], screening: Screening | None
) -> Deferred:
    """Return the share for what choices pick: tables of what screening keeps, or of each attribute.

    `plan`: of the whole budget.
    """
    left = budget_after(choices, plan.budget)
    used = sum(size > 1 for size in plan.domain.sizes)
    many = used if screening is None else len(screening.choices)
    return Deferred("what follows the choices", left, plan.neighboring, many)


def budget_after(choices: Sequence[ResidualStep], budget: Budget) -> Budget:
    """Return what choices leave of a budget, exactly."""
    if budget.is_infinite:
        return budget
    return budget.of(budget.exact - sum(one.budget.exact for one in choices))


def plan_screening(
    domain: Domain, budget: Budget, *, n_records: int | None, neighboring: str
) -> Screening | None:
    """Return how attributes would be screened; None where nearly all would be kept anyway.

    `budget`: the whole; `n_records`: where it is public; `neighboring` {"add_remove",
    "replace_one"}.
    """
    known, k = n_records or ASSUMED_RECORDS, domain.n_classes
    d = sum(size > 1 for size in domain.sizes)
    signal = known * choice_epsilon(budget)
    kept, gated = n_kept(signal, d, k), is_gated(signal, d, k)
    if kept is None or (gated and known < GATED_RECORDS):
        return None
    if k == 2 and n_records is None and not gated:
        return None  # of more records than were assumed, all attributes would tell more
    names = [f"which attribute is kept, choice {i + 1}" for i in range(kept)]
    names += ["whether the first attributes tell enough"] if gated else []
    each = choice_share(signal, budget, len(names), gated=gated)
    steps = tuple(ResidualStep("screening", one, budget * each, neighboring) for one in names)
    if not steps[0].can_be_drawn:
        return None
    return Screening(
        choices=steps[:kept],
        enough=steps[kept] if gated else None,
        told=TOLD,
        most_cells=min(known // RECORDS_OF_A_CELL, MOST_CELLS),
    )


def n_kept(signal: float, n_attributes: int, n_classes: int) -> int | None:
    """Return how many attributes are kept; None for all. `signal`: N ε.

    Examples
    --------
    >>> n_kept(250, 36, 2), n_kept(1250, 36, 2), n_kept(8800, 16, 10)
    (3, 5, None)
    """
    if n_attributes < 4 or signal < max(LEAST_SIGNAL, LEAST_OF_CLASS * n_classes):
        return None
    signal, gated = min(signal, 1e18), is_gated(signal, n_attributes, n_classes)
    wanted = max(1, round((KEPT_OF_TWO if gated else KEPT) * sqrt(signal)))
    if n_classes == 2:
        ample = 2 * (AMPLE * n_attributes) ** 2
        return min(wanted, MOST_KEPT, n_attributes // 2) if signal <= ample else None
    few = wanted <= MOST_OF_SEVERAL and 5 * wanted <= 2 * n_attributes >= 2 * FEWEST
    return wanted if few and signal <= AMPLE_OF_SEVERAL * n_classes else None


def is_gated(signal: float, n_attributes: int, n_classes: int) -> bool:
    """Tell whether the last choice is whether all attributes are kept; `signal`: N ε."""
    return n_classes == 2 and signal >= max(GATED_FROM, GATED_SIGNAL * n_attributes)


def choice_share(signal: float, budget: Budget, count: int, *, gated: bool) -> Fraction:
    """Return the share of the budget of each of so many choices; `signal`: N ε."""
    whole = (LARGEST_SHARE if gated else LARGEST_OF_FEW) / count
    if budget.is_infinite:
        return whole
    needed = CHOICE_SIGNAL / signal
    if budget.parameter == "rho":
        needed = needed**2
    return min(whole, max(Fraction(round(needed * 10**6), 10**6), whole / 10))


@dataclass(frozen=True, eq=False)
class Attribute(FewOptions):
    """Which attribute is kept.

    A score is how many records are right if each code says its largest class: one record more
    raises it by one at most, and never lowers it.
    """

    options: Bools
    kind: ClassVar[str] = "screening"

    def scores(self, data: Data) -> Longs:
        rights = [count_right(data.cells((i,)).counts) for i in range(len(self.options))]
        return np.asarray(rights, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Enough(FewOptions):
    """Whether the first attributes that were kept tell nearly all.

    Scores are how many records their joint table is right on, and a part of all records that one
    record moves by one at most (`Screening.score_of_all`).
    """

    screening: Screening
    first: tuple[int, ...]
    kind: ClassVar[str] = "screening"
    options: Bools = field(default_factory=lambda: np.ones(2, dtype=np.bool_))

    def scores(self, data: Data) -> Longs:
        counts = data.cells(self.first).counts
        best, n_records = int(counts.sum(axis=0).max()), int(counts.sum())
        without = self.screening.score_of_all(best, n_records)
        return np.array([count_right(counts), without], dtype=np.int64)


# How unequal two classes are ---------------------------------------------------------------------

ONE_IN = (2, 3, 5, 8, 12, 20, 32, 50, 100)  # levels: the rarer class is one record in so many

NEARLY_EVEN = 3
"""Up to one in so many classes count as even: constants of all plans were set on such sets."""

MOST_SHARE, LEAST_SHARE = Fraction(4, 100), Fraction(1, 100)
"""Of the budget, at most and at least."""

SURE_SIGNAL = 100  # N ε of the choice beyond which it gets no more than the least

BALANCE_FROM = 1000  # N ε below which a choice would guess

FEWEST_IN_BALANCE = 4  # attributes from which there is something to plan


def plan_balance(
    domain: Domain, budget: Budget, *, n_records: int | None, neighboring: str
) -> ResidualStep | None:
    """Return the choice of how unequal two classes are; None where it is not made.

    Under zCDP it is not: parts of a budget cost a root there, and plans for fewer records gained
    nothing on made-up tables.

    `budget`: the whole; `n_records`: where it is public; `neighboring` {"add_remove",
    "replace_one"}.

    >>> domain = Domain.from_sizes([4] * 10, n_classes=2)
    >>> step = plan_balance(domain, PureDP(1), n_records=2000, neighboring="add_remove")
    >>> step.budget
    PureDP(epsilon=0.04)
    """
    if domain.n_classes != 2 or domain.n_attributes < FEWEST_IN_BALANCE or budget.is_infinite:
        return None
    if not isinstance(budget, PureDP):  # what is measured at once costs a root there
        return None
    signal = (n_records or 0) * float(budget.exact)
    if signal < BALANCE_FROM:
        return None
    share = min(max(Fraction(round(SURE_SIGNAL / signal * 10**6), 10**6), LEAST_SHARE), MOST_SHARE)
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
        totals = data.cells((0,)).counts.sum(axis=0)
        return balance_scores(int(totals.min()), int(totals.sum()))
