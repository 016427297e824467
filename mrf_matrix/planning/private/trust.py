r"""How far to believe what a release says of the classes: one factor, chosen privately at the end.

Tables of single attributes cannot tell how far their votes repeat each other, and a model of few
tables may be far too careful. With the class shares :math:`\pi` and the log odds a posterior adds
to them, the factor :math:`f` multiplies what is added. The records say which is right: each has, by
the probability :math:`p_f` of its own class, the gain

.. math:: g_f = \frac{1}{2} \min\bigl(\max(\log p_f - \log p_1, -2), 2\bigr),

and the score of f is the sum of all gains less a public penalty, rounded down. One record more or
less moves it by at most 1. The exponential mechanism chooses.
"""

from fractions import Fraction

import numpy as np

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.residual.settings import Budget
from mrf_matrix.residual.step import ResidualStep

FACTORS: Array = np.array([float(Fraction(5, 4) ** n) for n in sorted(range(-8, 6), key=abs)])
"""Candidates, a quarter apart, from a sixth to three; those nearer to one first, for ties go to the
first."""

SPREAD_OF_FACTORS = 0.3
"""Of their logarithms, before any record: the mean size of a Laplace law. With .2 or a normal law
nothing changed by more than log-loss .005."""

SHARE = Fraction(3, 100)
"""Of the budget. With 2 and 5 hundredths log-loss was up to .01 worse and better, before the tables
pay for it."""

LEAST_SIGNAL = 75
"""N ε of the choice from which it is made; at 50 it gained nothing."""

LARGEST_GAIN = 2.0
"""Of a record's log-likelihood, beyond which it is cut off. With 1 models that are far too bold
were found out less often, with 3 others chose less well."""

UNITS = 1 << 10
"""Whole numbers in the largest gain: sums of them are exact."""


def planned_trust(
    n_classes: int, budget: Budget, *, n_records: int | None, neighboring: str
) -> ResidualStep | None:
    """Return the choice of a factor; None where too few records are known of to make it.

    Nor is it made of two classes: it gained log-loss .005 there, and residuals, which have a choice
    of their own, are taken where tables do not suffice.

    `budget`: the whole; `n_records`: where it is public; `neighboring` {"add_remove",
    "replace_one"}.

    >>> from mrf_matrix.mechanisms import PureDP
    >>> planned_trust(3, PureDP(1), n_records=5000, neighboring="add_remove").budget
    PureDP(epsilon=0.03)
    >>> planned_trust(3, PureDP(1), n_records=2000, neighboring="add_remove") is None
    True
    """
    if n_classes <= 2 or budget.is_infinite or n_records is None:
        return None
    step = ResidualStep("choice", "how far votes are believed", budget * SHARE, neighboring)
    if not step.can_be_drawn or 2 * step.choice_rate * n_records < LEAST_SIGNAL:
        return None
    return step


def gain_units(gains: Array) -> Longs:
    """Return gains in log-likelihood as whole numbers of size `UNITS` at most, which may be summed.

    >>> gain_units(np.array([-50.0, 0.5, 2.0]))
    array([-1024,   256,  1024])
    """
    kept = np.clip(np.nan_to_num(gains / LARGEST_GAIN, nan=0.0), -1.0, 1.0)
    return np.asarray(np.trunc(UNITS * kept).astype(np.int64))


def trust_scores(sums: Longs, step: ResidualStep) -> Longs:
    """Return the score of each of `FACTORS`: whole units of gain, less what is unusual beforehand.

    `sums`: **Private**: of the records' `gain_units`; `step`: the choice.
    """
    rate = max(float(step.choice_rate), 1e-9)
    unusual = np.abs(np.log(FACTORS)) / SPREAD_OF_FACTORS / rate
    return np.asarray(sums // UNITS - np.floor(unusual).astype(np.int64))
