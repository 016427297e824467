"""Steps of a residual forest: the constants of their shares, what they pay for, and their noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, comb, sqrt
from typing import Literal

import numpy as np
from scipy import sparse

from mrf_matrix.mechanisms import (
    ZCDP,
    Mechanism,
    NoiseLaw,
    PureDP,
    calibrate,
    neighboring_factor,
)
from mrf_matrix.mechanisms.measurement.mechanism import SCORE_SENSITIVITY, choice_rate
from mrf_matrix.mechanisms.selection import LARGEST_RATE
from mrf_matrix.posterior import UNITS, Link, Smoothness
from strategies.operators import Dense, Identity, Kronecker, Operator, as_operator

Budget = PureDP | ZCDP

RESIDUAL_SIGNAL = {"l1": 150, "l2": 50}
"""Signal that a residual forest needs, by the norm of the noise. Below it was behind on public
sets: under "l1" by a point of AUC, and by up to 14 where one class is rare."""

PAIR_SIGNAL = 300
"""Signal from which tables of pairs and triples pay."""

SIGNAL_OF_A_PAIR = 150
"""Signal that one table of a pair or triple takes."""

ASSUMED_RECORDS = 2000
"""Number of records for which passes and pairs are planned where theirs is not public."""

SHARES_SIGNAL = 800
"""Signal from which the first pass tells the class shares of codes, times the rarest class's share
over an even one. Below it they are mostly noise, and there are too few passes to go astray."""

AMPLE_SIGNAL = 50_000
"""Signal from which there are `MOST_PASSES`, all over all attributes. Until attributes that repeat
each other have come apart, what is left of them looks like pairs. Each pass spends twice what the
one before did: noise falls as effects come near."""

AMPLE_FIRST = 16
"""Weight of the first of these passes, beside 2 4 8 .. 128: it tells the shares of all codes."""

TABLE_POWER = {"l1": 1 / 3, "l2": 1 / 2}
"""Where passes visit all attributes, a table's share is its number of codes to this power, by the
norm of the noise: the least sum of variances over all codes."""

PASSES_BELOW = ((50, 1), (800, 2), (2000, 3), (5000, 4), (AMPLE_SIGNAL, 5))
"""Passes over the attributes under pure DP, by signal; `MOST_PASSES` beyond."""

MOST_PASSES = 8


@dataclass(frozen=True)
class ResidualSettings:
    """Shares and constants, the same for all data. Set on public sets, each with its ablation."""

    # shares of the budget: class totals, one-way counts without class, the scale of the first pass,
    # and mean curvatures and the choice of pairs where there are any
    totals: Fraction = Fraction(4, 100)
    counts: Fraction = Fraction(5, 100)
    scale: Fraction = Fraction(3, 100)
    curvature: Fraction = Fraction(2, 100)
    choice: Fraction = Fraction(5, 100)
    pairs: Fraction = Fraction(40, 100)  # of what remains, for tables of pairs and triples
    pair_counts: Fraction = Fraction(25, 100)  # of a pair's budget, for its counts without class
    passes: int | None = None  # over the attributes below `AMPLE_SIGNAL`; None: by signal
    # below `AMPLE_SIGNAL` a pass visits this part of the attributes that the one before visited:
    # those of the largest released effects, and no fewer than `least_attributes`
    decay: float = 0.7
    first_pass: Fraction = Fraction(1)  # weight of its share, beside 1 of each later one
    least_attributes: int = 3
    smoothness: Smoothness = Smoothness(rough=0.1, reach=0.95)  # noqa: RUF009 -- frozen
    # effects of attributes have this variance on average over so many visits that never were
    prior_visits: float = 2.0
    prior_variance: float = 0.1
    pooling: float = 0.25  # how strongly variances of effects are drawn to their mean
    largest_step: float = 1.0  # of an effect by one visit, on the log odds

    def pass_share(self, number: int, passes: int, signal: float) -> Fraction:
        """Return the share of a pass, numbered from 0, of what all passes spend."""
        if signal >= AMPLE_SIGNAL:
            weights = [Fraction(AMPLE_FIRST), *(Fraction(2**later) for later in range(1, passes))]
        else:
            weights = [self.first_pass, *[Fraction(1)] * (passes - 1)]
        return weights[number] / sum(weights)

    def n_visits(self, number: int, n_attributes: int, signal: float) -> int:
        """Return how many attributes a pass visits; passes are numbered from 0."""
        if signal >= AMPLE_SIGNAL:
            return n_attributes
        return min(
            n_attributes, max(ceil(self.decay**number * n_attributes), self.least_attributes)
        )


PURE = ResidualSettings()
GAUSSIAN = ResidualSettings(
    passes=5,
    prior_visits=6.0,
    prior_variance=0.025,
    pooling=0.5,
)


def settings_for(budget: Budget) -> ResidualSettings:
    return PURE if isinstance(budget, PureDP) else GAUSSIAN


def residual_signal(n_records: int, budget: Budget, n_attributes: int, n_classes: int = 2) -> float:
    r"""Return how far records outweigh noise: ``N ε / d``, or ``N sqrt(2 ρ / d)`` under zCDP.

    Of k classes it is ``2 / k`` of that: records of a class are so many fewer.

    >>> residual_signal(10_000, PureDP(1), 10)
    1000.0
    """
    if budget.is_infinite:
        return float("inf")
    amount, of_two = float(budget.exact), n_records * 2 / n_classes
    if isinstance(budget, PureDP):
        return of_two * amount / n_attributes
    return of_two * sqrt(2 * amount / n_attributes)


def suits_residual_forest(
    n_records: int | None, budget: Budget, n_attributes: int, n_classes: int
) -> bool:
    """Tell whether a residual forest is to be preferred to a posterior forest; no data is needed.

    It is where the number of records is public, the signal is at least `RESIDUAL_SIGNAL`, and there
    are two classes or noise is Gaussian: under Laplace noise a table of several classes costs two
    columns, which on public tasks lost two points as often as it gained them. Where the posterior
    forest would measure one block of all attributes, that one table is the better one, whatever
    this says.

    >>> suits_residual_forest(40_000, PureDP(0.5), 12, n_classes=2)
    True
    >>> suits_residual_forest(900, PureDP(0.5), 9, n_classes=2)
    False
    """
    if n_records is None or (n_classes != 2 and isinstance(budget, PureDP)):
        return False
    signal = residual_signal(n_records, budget, n_attributes, n_classes)
    return signal >= RESIDUAL_SIGNAL[budget.norm]


def table_shares(sizes: Sequence[int], budget: Budget, signal: float) -> tuple[Fraction, ...]:
    """Return the share of each attribute's table in a pass over all of them; they sum to one.

    `sizes`: of the attributes. Below `AMPLE_SIGNAL` all are the same.
    """
    power = TABLE_POWER[budget.norm] if signal >= AMPLE_SIGNAL else 0.0
    weights = [round(8 * float(size) ** power) for size in sizes]
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def n_passes(settings: ResidualSettings, signal: float) -> int:
    if settings.passes is not None and signal < AMPLE_SIGNAL:
        return settings.passes
    return next((passes for below, passes in PASSES_BELOW if signal < below), MOST_PASSES)


def n_pair_tables(signal: float, n_attributes: int) -> int:
    """Return how many tables of pairs and triples are measured."""
    if signal < PAIR_SIGNAL or n_attributes < 2:
        return 0
    most = min(n_attributes, 10, comb(n_attributes, 2))
    return most if signal > most * SIGNAL_OF_A_PAIR else max(1, int(signal / SIGNAL_OF_A_PAIR))


Kind = Literal["totals", "counts", "curvature", "residuals", "choice", "screening", "labels"]

MOST_EXPLICIT = 256 * 1025
"""Entries up to which the matrix is written out, at most 4 MB: its columns are found faster."""

CHOICES: tuple[Kind, ...] = ("choice", "screening", "labels")
"""Kinds that choose by integer scores, by the exponential mechanism. One record more never lowers
those of `MONOTONE`."""

MONOTONE: tuple[Kind, ...] = ("screening", "labels")


@dataclass(frozen=True)
class ResidualStep:
    """A step that is announced before any data is seen.

    A record adds to one cell of a table a public integer function of its codes, its label and
    earlier releases. So a table of sums is a linear query of the counts of (cell, integer): the
    matrix ``I ⊗ (low, ..., high)``, whose sensitivity is the largest of these integers. Of several
    classes a record adds an integer in each column of the table, of a joint norm that is no larger
    (`Link`), and so moves the whole table no further.
    """

    kind: Kind
    measured: str  # what it measures, in words
    budget: PureDP | ZCDP  # its share
    neighboring: str
    n_classes: int = 2

    @property
    def link(self) -> Link:
        return Link(self.n_classes, self.budget.norm)

    @property
    def values(self) -> tuple[int, int] | None:
        """Smallest and largest integer that a record adds to a sum; None: it adds one."""
        if self.kind == "residuals":
            return -self.link.residual_cap, self.link.residual_cap
        return (0, self.link.curvature_cap) if self.kind == "curvature" else None

    @property
    def n_columns(self) -> int:
        """Columns of its table; of class totals one a class."""
        if self.kind == "totals":
            return self.n_classes
        return self.link.n_columns if self.kind == "residuals" else 1

    @property
    def units(self) -> int:
        return 1 if self.values is None else UNITS

    @property
    def n_values(self) -> int:
        low, high = self.values or (1, 1)
        return high - low + 1

    def mechanism(self, n_cells: int) -> Mechanism:
        """Return the mechanism over a table of so many cells; its noise is that of any other."""
        return calibrate(
            sums_of_values(self.values, n_cells), self.budget, neighboring=self.neighboring
        )

    @cached_property
    def law(self) -> NoiseLaw:
        """Law of the noise on each sum, in units."""
        if self.kind in CHOICES:
            raise ValueError("a choice adds no noise to sums: expected its rate.")
        return self.mechanism(1).law

    @property
    def variance(self) -> float:
        """Variance of the noise on each sum, in records."""
        return self.law.variance / self.units**2

    @property
    def column_sum(self) -> int:
        """What the noise is calibrated to, exactly: in units, squared for Gaussian noise."""
        if self.kind in CHOICES:
            return SCORE_SENSITIVITY
        return self.mechanism(1).rounded.column_sum

    @property
    def sensitivity(self) -> float:
        """How far one record moves a sum, in records, or a score; with the neighbours' factor."""
        if self.kind in CHOICES:
            return SCORE_SENSITIVITY * neighboring_factor(self.neighboring)
        return self.mechanism(1).sensitivity / self.units

    @property
    def is_choice(self) -> bool:
        return self.kind in CHOICES

    @property
    def rms(self) -> float | None:
        """Noise of each sum, in records; None of a choice."""
        return None if self.is_choice else sqrt(self.variance)

    @property
    def choice_rate(self) -> Fraction | float:
        """By what the log probability of a choice falls for every unit of score."""
        return choice_rate(self.budget, self.neighboring, is_monotone=self.kind in MONOTONE)

    @property
    def can_be_drawn(self) -> bool:
        """Whether a choice has no noise, or a rate that is drawn exactly."""
        return self.budget.is_infinite or self.choice_rate < LARGEST_RATE


@lru_cache(maxsize=64)
def sums_of_values(values: tuple[int, int] | None, n_cells: int) -> Operator:
    """Return the matrix that sums what the records of each cell add: (n, n * values).

    It is kept, with its exact sensitivity, for the next step over as many cells.
    """
    if values is None:
        return Identity(n_cells)
    row = np.arange(values[0], values[1] + 1)[None, :]
    if n_cells * row.size > MOST_EXPLICIT:
        return Kronecker([Identity(n_cells), Dense(row)])
    return as_operator(sparse.kron(sparse.eye_array(n_cells, dtype=np.int64), row, "csr"))


@dataclass(frozen=True)
class FirstPass:
    """A table of residuals for each attribute, beside the class totals alone; then one choice.

    The scale that is chosen says by how much of the sum of their effects to believe. The mean
    curvature at the class totals is known.
    """

    visits: tuple[ResidualStep, ...]  # one an attribute, in the domain's order
    scale: ResidualStep


@dataclass(frozen=True)
class ResidualPass:
    """A later pass over attributes: the mean curvature, then a table of residuals a visit."""

    curvature: ResidualStep
    visits: tuple[ResidualStep, ...]
    # all attributes, in the order in which those that are visited are visited
    order: tuple[int, ...]

    def with_order(self, order: tuple[int, ...]) -> "ResidualPass":
        """Return the pass in another order of the attributes; each keeps its share."""
        if len(self.visits) < len(order):
            return replace(self, order=order)
        visits = dict(zip(self.order, self.visits, strict=True))
        return replace(self, order=order, visits=tuple(visits[i] for i in order))


@dataclass(frozen=True)
class PairSteps:
    """Tables of pairs and triples: a choice for each, then counts and residuals of each."""

    curvature: ResidualStep
    # choices, counts, residuals: one a table
    choices: tuple[ResidualStep, ...]
    counts: tuple[ResidualStep, ...]
    residuals: tuple[ResidualStep, ...]
