"""One step of a residual forest: a share of the budget, what it pays for, and the noise it buys."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import sqrt
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
from mrf_matrix.mechanisms.measurement.mechanism import choice_rate
from mrf_matrix.mechanisms.selection import LARGEST_RATE
from mrf_matrix.posterior import UNITS, Link
from strategies.operators import Dense, Identity, Kronecker, Operator, as_operator

Kind = Literal["totals", "counts", "curvature", "residuals", "choice", "screening", "labels"]

MOST_EXPLICIT = 256 * 1025
"""Entries up to which the matrix is written out, at most 4 MB: its columns are found faster."""

CHOICES: tuple[Kind, ...] = ("choice", "screening", "labels")
"""Kinds that choose by integer scores, by the exponential mechanism. One record more never lowers
those of `MONOTONE`."""

MONOTONE: tuple[Kind, ...] = ("screening", "labels")

CHOICE_SENSITIVITY = 1  # one record more or less moves a score of a choice by one at most


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
            return CHOICE_SENSITIVITY
        return self.mechanism(1).rounded.column_sum

    @property
    def sensitivity(self) -> float:
        """How far one record moves a sum, in records, or a score; with the neighbours' factor."""
        if self.kind in CHOICES:
            return CHOICE_SENSITIVITY * neighboring_factor(self.neighboring)
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
