"""Signal and noise of a plan in words, and a refusal of plans whose noise leaves nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.base.provenance import is_charged
from mrf_matrix.base.steps import tell
from mrf_matrix.planning.plans.signal import WEIGHING

if TYPE_CHECKING:
    from mrf_matrix.labels import LabelPlan
    from mrf_matrix.planning.plans.planned_errors import PlannedErrors
    from mrf_matrix.residual.sequence import ResidualPlan

HOPELESS = {"leaf": 1 / 3, "cell": 1 / 3, "query": 1.0}
"""Records over noise below which labels are chance. Votes of many trees average their leaves'
noise, so that a leaf may hold less than its noise and still say something."""

DOUBTFUL = {"leaf": 2.0, "cell": 2.0, "query": 5.0}
"""Records over noise below which noise decides many labels."""


class NoiseError(ValueError):
    """A release that was to be refused where noise leaves nothing of it."""


@dataclass(frozen=True)
class Verdict:
    """Records and noise of a typical answer, known without data."""

    unit: str
    # root-mean-square noise in one class, in records (or votes); of labels what one class is ahead
    # by chance
    noise: float
    # what stands behind it, if all cells are as likely; None where the number of records is not
    # public
    records: float | None

    @property
    def is_hopeless(self) -> bool:
        """Whether labels would be chance; False where that is not known."""
        return self.records is not None and self.records < HOPELESS[self.unit] * self.noise

    @property
    def advice(self) -> str:
        """What to make of it."""
        if self.records is None:
            return "the public number of records would say whether that is much"
        if self.is_hopeless:
            return "do not deploy"
        if self.records < DOUBTFUL[self.unit] * self.noise:
            return "noise decides many labels"
        return "noise is the smaller part"

    def __str__(self) -> str:
        if self.records is None:
            return f"a typical {self.unit} has noise of {_round(self.noise)}; {self.advice}"
        return (
            f"a typical {self.unit} holds {_round(self.records)} records and noise of "
            f"{_round(self.noise)}: {self.advice}"
        )


def _round(number: float) -> str:
    return f"{number:,.0f}" if 10 <= number < 1e15 else f"{number:.2g}"


def verdict_of(
    plan: "PlannedErrors | ResidualPlan | LabelPlan", n_records: int | None = None
) -> Verdict:
    """Return the verdict on a plan.

    `plan`: of a residual forest a code of an attribute is its leaf, and the noise that of a sum of
    residuals in the first pass; of labels the noise is what one count is ahead by chance, one over
    the rate; `n_records`: the *public* number of records, where the plan was not told.

    >>> from mrf_matrix import Domain, plan
    >>> small = plan(Domain.from_sizes([4, 4], n_classes=2), n_trees=4, max_depth=2, epsilon=0.01)
    >>> print(verdict_of(small, n_records=64))
    a typical leaf holds 4 records and noise of 141: do not deploy
    """
    from mrf_matrix.labels import LabelPlan  # as the next, files for such plans alone
    from mrf_matrix.residual.sequence import ResidualPlan

    known = plan.n_records or n_records
    if isinstance(plan, LabelPlan):
        rate = float(plan.labels.choice_rate)
        noise = 1 / rate if rate else inf
        return Verdict("cell", noise, None if known is None else known / plan.n_cells)
    if isinstance(plan, ResidualPlan):
        noise = sqrt(plan.first.visits[0].variance)
        behind = None if known is None else known / float(np.median(plan.domain.sizes))
        return Verdict("leaf", noise, behind)
    unit = "leaf" if plan.releases_leaves else "query"
    noise = float(np.median(plan.row_rms))
    if known is None:
        return Verdict(unit, noise, None)
    return Verdict(unit, noise, float(np.median(replace(plan, n_records=known).expected_records)))


@dataclass(frozen=True)
class Weighing:
    """Weighs plans before they are paid for: tells the verdict, and refuses where it is strict."""

    n_records: int | None  # the public number of records, for plans that take none
    strict: bool
    verdicts: list[Verdict]  # of the plans that were weighed

    def weigh(self, plan: "PlannedErrors | ResidualPlan | LabelPlan") -> None:
        """Weigh a plan, unless its budget is spent already.

        Raises NoiseError if it is hopeless, or that is not known.
        """
        if is_charged():
            return
        found = verdict_of(plan, self.n_records)
        self.verdicts.append(found)
        tell(f"Weighing: {found}")
        if self.strict and found.records is None:
            raise NoiseError("strict: expected n_records=N, the public number of records.")
        if self.strict and found.is_hopeless:
            raise NoiseError(f"strict: {found}.")


@contextmanager
def weighing(n_records: int | None = None, *, strict: bool = False) -> Iterator[list[Verdict]]:
    """Weigh signal against noise of every fit inside, before it spends; give the verdicts.

    `n_records`: the *public* number of records, for classifiers that take none; `strict`: refuse
    fits whose labels would be chance, and those of which that is not known.
    """
    verdicts: list[Verdict] = []
    token = WEIGHING.set(Weighing(n_records, strict, verdicts).weigh)
    try:
        yield verdicts
    finally:
        WEIGHING.reset(token)
