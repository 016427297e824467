r"""The plan of a tree of labels: few public cells, each of which releases which class is largest.

A record lies in one cell, so all cells together cost what one does: each label is chosen at the
whole rate (parallel composition). Where records outweigh noise by little, that is all that can be
legible: a fourth of the records behind each answer, and no bit of budget for how large a class is.
Four cells name four classes at most: of more classes there are eight or sixteen cells, from the
signal on that makes them legible.

Attributes are drawn at random, so often that one set is chosen by how many records are right if
each of its cells says its largest class; the more records there are for each class, the larger is
the share of the budget that this choice gets.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.forests.growth.private.selection import LARGEST_RATE
from mrf_matrix.forests.sources.halves import MOST_CODES, Halves, random_halves, usable_attributes
from mrf_matrix.mechanisms.budgets.claim import checked_neighboring
from mrf_matrix.residual.settings import ASSUMED_RECORDS, Budget
from mrf_matrix.residual.step import ResidualStep

N_CANDIDATES = 32
"""Sets of attributes among which one is chosen: 8 were a point behind, 100 half a point ahead."""

FEWEST_CUT, MOST_CUT = 2, 4
"""Attributes that are cut, at least and at most."""

LEAST_FOR_MORE = 30
"""Signal from which more than `FEWEST_CUT` are: so many that each class may be named."""

FOR_ALL, LARGEST_CHOICE = 30, Fraction(1, 2)
"""Signal of a class for which the choice would take the whole budget, and what it takes at most."""

MOST_CLASSES = 1000  # beyond, what a label says of its cell takes seconds to work out

LEAST_SHARE = Fraction(1, 20)
"""Share below which there is no choice: the first that are drawn are as good."""


@dataclass(frozen=True)
class LabelPlan:
    """What a tree of labels will release, decided without data.

    Attributes
    ----------
    domain : Domain
    budget : PureDP or ZCDP
    neighboring : {"add_remove", "replace_one"}
    n_records : int or None
        Where it is public; else shares are planned, and probabilities reckoned, for
        `ASSUMED_RECORDS`.
    candidates : tuple of Halves
        The partitions among which one is chosen: random and public.
    choice : ResidualStep or None
        Which of them; None: the first.
    labels : ResidualStep
        The label of each cell.
    delta : float
        The δ that the claim is stated for; 0 for none.
    """

    domain: Domain
    budget: Budget
    neighboring: str
    n_records: int | None
    candidates: tuple[Halves, ...]
    choice: ResidualStep | None
    labels: ResidualStep
    delta: float = 0.0

    def __post_init__(self) -> None:
        rates = [step.choice_rate for step in self.steps]
        if not self.budget.is_infinite and max(rates) >= LARGEST_RATE:
            raise ValueError(
                f"{self.budget!r} is too large for exact choices: expected a smaller one, or "
                f"float('inf') for no noise."
            )

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.domain.n_classes

    @property
    def steps(self) -> tuple[ResidualStep, ...]:
        """Every step, in the order in which they are taken."""
        return (self.labels,) if self.choice is None else (self.choice, self.labels)

    @property
    def spent(self) -> Budget:
        """Sum of the steps' budgets, exact: the whole."""
        return reduce(add, (step.budget for step in self.steps))

    @property
    def n_cells(self) -> int:
        """Number of cells, and of labels."""
        return self.candidates[0].n_cells

    @property
    def cell_records(self) -> float:
        """Records behind a label, if all cells hold as many."""
        return (self.n_records or ASSUMED_RECORDS) / self.n_cells

    @property
    def cell_signal(self) -> float:
        """By how much all records of a cell move the log probability of a label."""
        return self.cell_records * float(self.labels.choice_rate)

    def __repr__(self) -> str:
        some = f", of one of {len(self.candidates)} sets of attributes" if self.choice else ""
        return (
            f"LabelPlan({self.labels.measured}{some}, {self.budget!r} under {self.neighboring} "
            f"neighbours)"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the plan's figures as plain values, ready for JSON."""
        return {
            "mode": "labels",
            "voting": "posterior",
            "budget": repr(self.budget),
            "delta": self.delta,
            "claim": self.budget.claim(self.delta),
            "neighboring": self.neighboring,
            "attributes": self.domain.n_attributes,
            "cells": self.n_cells,
            "classes": self.n_classes,
            "records": self.n_records,
            "candidates": len(self.candidates),
            "steps": [
                {
                    "measured": step.measured,
                    "budget": repr(step.budget),
                    "sensitivity": step.sensitivity,
                    "rate": float(step.choice_rate),
                }
                for step in self.steps
            ],
        }


def label_plan(
    domain: Domain,
    budget: Budget,
    structure: np.random.Generator,
    *,
    n_records: int | None,
    neighboring: str = "add_remove",
    delta: float = 0.0,
) -> LabelPlan:
    """Return the plan of a tree of labels. No data is needed.

    `domain`: with two classes or more. `structure`: draws the sets of attributes. `n_records`:
    where it is public. `neighboring`: {"add_remove", "replace_one"}. `delta`: the δ that the claim
    is stated for.

    Raises ValueError if labels do not suit the domain (`why_no_labels`), or the budget is too large
    for exact choices.
    """
    if (reason := why_no_labels(domain)) is not None:
        raise ValueError(reason)
    checked_neighboring(neighboring)
    usable, signal = len(usable_attributes(domain)), label_signal(budget, n_records, neighboring)
    n_cut = min(n_attributes_cut(signal, domain.n_classes), usable)
    share = halves_choice_share(signal, domain.n_classes) if usable > n_cut else Fraction(0)
    candidates = random_halves(domain, n_cut, N_CANDIDATES if share else 1, structure)
    choice = None
    if share:
        which = f"which {n_cut} attributes are cut in two"
        choice = ResidualStep("screening", which, budget * share, neighboring)
    rest = budget * (1 - share)
    labels = ResidualStep("labels", f"labels of {1 << n_cut} cells", rest, neighboring)
    return LabelPlan(domain, budget, neighboring, n_records, candidates, choice, labels, delta)


def why_no_labels(domain: Domain) -> str | None:
    """Return why no tree of labels can be planned over a domain; None where one can."""
    k, usable = domain.required_target().size, len(usable_attributes(domain))
    if not 2 <= k <= MOST_CLASSES:
        return (
            f"domain names {k} classes: expected 2 to {MOST_CLASSES} for labels of cells. Group "
            f"classes, or use a PosteriorForestClassifier."
        )
    if usable < 2:
        return (
            f"domain has n_features={usable} that can be cut in two: expected two attributes or "
            f"more, each of 2 to {MOST_CODES} codes."
        )
    return None


def label_signal(budget: Budget, n_records: int | None, neighboring: str) -> float:
    """Return by how much all records move the log probability of a label, for the whole budget.

    It is N ε under add/remove neighbours, and half of that under replace-one.
    """
    rate = ResidualStep("labels", "", budget, neighboring).choice_rate
    return float(rate) * (n_records or ASSUMED_RECORDS)


def n_attributes_cut(signal: float, n_classes: int) -> int:
    """Return how many attributes are cut in two.

    >>> n_attributes_cut(50, 2), n_attributes_cut(50, 7), n_attributes_cut(20, 7)
    (2, 3, 2)
    """
    if signal < LEAST_FOR_MORE:
        return FEWEST_CUT
    return min(max(FEWEST_CUT, (n_classes - 1).bit_length()), MOST_CUT)


def halves_choice_share(signal: float, n_classes: int) -> Fraction:
    """Return the share of the budget that chooses the attributes; 0 for no choice.

    >>> halves_choice_share(18, 2), halves_choice_share(2, 2)
    (Fraction(3, 10), Fraction(0, 1))
    """
    wanted = min(signal / (FOR_ALL * n_classes), 1.0)
    share = min(LARGEST_CHOICE, Fraction(round(wanted * 10**6), 10**6))
    return share if share >= LEAST_SHARE else Fraction(0)
