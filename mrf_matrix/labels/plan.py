"""The plan of a tree of labels: its depth, its public cuts, and its rounds of draws.

Depth, rounds and whether cells are counted follow from public numbers, by the signal of the records
beside the noise.

Where records outweigh noise by little, only the largest class of a few cells is legible. All trees
of two to four cuts a record, with all labels of their cells, are the options of one exponential
mechanism. Its score is the number of records that are right, and the whole budget pays for it.
Where there is more to read, that draw is a first round for a small share of the budget, and below
each of its cells another tree is drawn with the labels of its own cells. A further share pays for
noisy class counts of the cells, which tell how sure each label is.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.forests.label_tree import (
    MOST_CODES,
    Cut,
    number_of_cuts,
    public_cuts,
    usable_attributes,
)
from mrf_matrix.mechanisms.budget import checked_neighboring
from mrf_matrix.mechanisms.measurement.mechanism import LARGEST_FLOAT, choice_signal
from mrf_matrix.release.step_table import StepTable, share_of
from mrf_matrix.residual.step import ASSUMED_RECORDS, CHOICES, Budget, ResidualStep

FLAT, DEEP, DEEPEST = 2, 3, 4
"""Cuts that a record is asked for in the first round: four cells, eight, or sixteen."""

DEEP_FROM, DEEP_FOR_MORE = 60, 30
"""Signal (`choice_signal`) from which trees are deep; the second for more classes than flat ones
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


def count_threshold(n_classes: int) -> int:
    """Return the signal from which class counts are released.

    >>> count_threshold(2), count_threshold(10)
    (100, 400)
    """
    return max(COUNTED_FROM, COUNTED_A_CLASS * n_classes)


def most_cuts(depth: int, n_classes: int) -> int:
    """Return among how many cuts each node has one.

    >>> most_cuts(2, 2), most_cuts(3, 2), most_cuts(3, 10)
    (64, 64, 37)
    """
    return min(MOST_CUTS, int(np.power(MOST_COUNTS / n_classes, 1 / depth) + 1e-9))


SHARE_OF_COUNTS = Fraction(1, 4)
"""Share of the budget for class counts."""

SHARE_OF_FIRST = Fraction(1, 5)
"""Share of the first of two rounds in the budget of trees and labels. With .3 trees were up to a
point behind."""

MOST_RECORDS, MOST_ENTRIES = 1 << 17, 1 << 24
"""Public numbers of records, and of records times classes, up to which it is considered: weights
and counts are written out for each."""

CONCENTRATIONS = {FLAT: 0.8, DEEP: 0.45, DEEPEST: 0.4, DEEP + BELOW: 0.3}
"""Concentrations of the prior of a cell's shares, for labels as often right as expected on public
sets. The more cells there are to choose from, the purer are those that are chosen."""

MOST_CLASSES = 1000  # beyond, the posterior of a cell takes seconds


@dataclass(frozen=True)
class Round:
    """A draw of a tree below every cell of the round before, with the labels of its cells.

    A record is in one of these cells, so that draws below different ones cost no more than one.
    """

    depth: int  # cuts that it asks each record for
    step: ResidualStep


@dataclass(frozen=True)
class LabelPlan(StepTable):
    """The releases of a tree of labels, decided without data."""

    title = "tree of labels"

    domain: Domain
    budget: Budget
    neighboring: str  # {"add_remove", "replace_one"}
    # where it is public; else the depth is planned, and probabilities reckoned, for
    # `ASSUMED_RECORDS`
    n_records: int | None
    cuts: tuple[
        Cut, ...
    ]  # those that a node may have: public, and random where codes have no order
    rounds: tuple[Round, ...]  # one or more; the labels are those of the last one
    counts: ResidualStep | None = None  # the class counts of its cells, where they are released
    delta: float = 0.0  # the δ that the claim is stated for; 0 for none

    def __post_init__(self) -> None:
        if not all(one.step.can_be_drawn for one in self.rounds):
            raise ValueError(
                f"{self.budget!r} is too large for exact choices: expected a smaller one, or "
                f"float('inf') for no noise."
            )

    @property
    def n_classes(self) -> int:
        return self.domain.n_classes

    @property
    def steps(self) -> tuple[ResidualStep, ...]:
        """The draws, and the counts where they are released."""
        draws = tuple(one.step for one in self.rounds)
        return draws if self.counts is None else (*draws, self.counts)

    @property
    def labels(self) -> ResidualStep:
        """The draw of the labels: the last one."""
        return self.rounds[-1].step

    @property
    def concentration(self) -> float:
        """Concentration of the prior of a cell's shares."""
        return CONCENTRATIONS[self.depth]

    @property
    def depth(self) -> int:
        """Cuts that a record is asked for, in all rounds together."""
        return sum(one.depth for one in self.rounds)

    def cuts_of(self, one: Round) -> tuple[Cut, ...]:
        """Return the cuts that nodes of a round may have: the first ones."""
        return self.cuts[: most_cuts(one.depth, self.n_classes)]

    @property
    def spent(self) -> Budget:
        return self.budget

    @property
    def attributes(self) -> tuple[int, ...]:
        """Positions of the attributes that may be cut, rising."""
        return tuple(sorted({cut.attribute for cut in self.cuts}))

    @property
    def n_cells(self) -> int:
        return 1 << self.depth

    @property
    def cell_records(self) -> float:
        """Records behind a label, if all cells hold as many."""
        return min(self.n_records or ASSUMED_RECORDS, LARGEST_FLOAT) / self.n_cells

    @property
    def cell_signal(self) -> float:
        """By how much all records of a cell move the log probability of a label."""
        return self.cell_records * float(self.labels.choice_rate)

    def _with_budget(self, budget: Budget, delta: float) -> "LabelPlan":
        def rescale(step: ResidualStep) -> ResidualStep:
            return replace(step, budget=share_of(step.budget, self.budget, budget))

        rounds = tuple(replace(one, step=rescale(one.step)) for one in self.rounds)
        counts = None if self.counts is None else rescale(self.counts)
        return replace(self, budget=budget, rounds=rounds, counts=counts, delta=delta)

    def __repr__(self) -> str:
        return (
            f"LabelPlan(a tree with labels of {self.n_cells} cells, {len(self.cuts)} cuts, "
            f"{self.budget!r} under {self.neighboring} neighbours)"
        )

    def to_dict(self) -> dict[str, object]:
        return {
            "kind": "labels",
            "voting": "posterior",
            **self.claim_fields(),
            "cuts": len(self.cuts),
            "cells": self.n_cells,
            "classes": self.n_classes,
            "records": self.n_records,
            "steps": [
                {
                    "measured": step.measured,
                    "budget": repr(step.budget),
                    "sensitivity": step.sensitivity,
                }
                | ({} if step.kind not in CHOICES else {"rate": float(step.choice_rate)})
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

    `domain`: with two classes or more. `structure`: draws the cuts. `n_records`: where it is
    public. `neighboring`: {"add_remove", "replace_one"}. `delta`: the δ that the claim is stated
    for.

    Raises ValueError if labels do not suit the domain (`label_refusal`), or the budget is too large
    for exact choices.
    """
    if (reason := label_refusal(domain)) is not None:
        raise ValueError(reason)
    checked_neighboring(neighboring)
    signal = choice_signal(budget, n_records or ASSUMED_RECORDS, neighboring)
    drawn, counts = budget, None
    depths = depths_of_rounds(signal, domain.n_classes, number_of_cuts(domain))
    if signal >= count_threshold(domain.n_classes):
        drawn, rest = budget * (1 - SHARE_OF_COUNTS), budget * SHARE_OF_COUNTS
        of_cells = f"class counts of {1 << sum(depths)} cells"
        counts = ResidualStep("totals", of_cells, rest, neighboring, domain.n_classes)
    first, *later = depths
    what = f"a tree of {1 << first} cells and their labels"
    share = SHARE_OF_FIRST if later else Fraction(1)
    rounds = [Round(first, ResidualStep("labels", what, drawn * share, neighboring))]
    for depth in later:
        what = f"below each of them a tree of {1 << depth} cells and their labels"
        step = ResidualStep("labels", what, drawn * (1 - share), neighboring)
        rounds.append(Round(depth, step))
    most = max(most_cuts(depth, domain.n_classes) for depth in depths)
    cuts = public_cuts(domain, most, structure)
    return LabelPlan(domain, budget, neighboring, n_records, cuts, tuple(rounds), counts, delta)


def label_refusal(domain: Domain) -> str | None:
    """Return why no tree of labels can be planned over a domain; None where one can."""
    k, usable = domain.required_target().size, len(usable_attributes(domain))
    if not 1 <= k <= MOST_CLASSES:
        return (
            f"domain names {k} classes: expected 1 to {MOST_CLASSES} for labels of cells. Group "
            f"classes, or use a PosteriorForestClassifier."
        )
    if not usable:
        return (
            f"domain has no attribute that can be cut in two: expected one or more, each of 2 to "
            f"{MOST_CODES} codes."
        )
    return None
