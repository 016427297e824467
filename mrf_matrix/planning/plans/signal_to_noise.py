"""Signal against noise of a release: one verdict, from public numbers alone.

Two rules. Whatever is measured, a private model of few records may be right less often than the
majority class: records times ε say so. And a typical answer holds records and noise, whose ratio
says how far its labels are chance. Where what is measured is fixed, it is a leaf, or a query's
votes. Where a plan chooses what it measures by the very numbers that are judged (blocks, residuals,
trees of labels), finer answers are no worse verdict: there it is the count of a code, as the plan's
steps measure it. A choice stands for what is labelled by choices alone; the tables of a `Deferred`
share stand for what outcomes will pick.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf, pi, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from mrf_matrix.base.provenance import current_spending
from mrf_matrix.base.work import tell
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms import Mechanism
from mrf_matrix.mechanisms.measurement.mechanism import choice_epsilon, squared_factor
from mrf_matrix.planning.plans.cost import SIGNAL_CHECK
from mrf_matrix.planning.plans.planned_errors import PlannedErrors
from mrf_matrix.release.curator import StrategyStep, flat_steps, is_plan
from mrf_matrix.release.plan import Deferred, Plan
from mrf_matrix.residual.step import CHOICES

if TYPE_CHECKING:
    from mrf_matrix.reports.privacy_report import PrivacyReport

FAINT = 50
"""Records times ε below which a private model may be right less often than the majority class:
docs/private/accuracy.md has what was measured there."""

HOPELESS = {"leaf": 1 / 3, "count": 0.0, "query": 1.0}
"""Records over noise below which labels are chance. Votes of many trees average their leaves'
noise, so that a leaf may hold less than its noise and still say something; whoever chooses what to
measure may leave codes out."""

DOUBTFUL = {"leaf": 2.0, "count": 2.0, "query": 5.0}
"""Records over noise below which noise decides many labels."""

NOTE = "signal and noise: "
"""How the verdict begins among the notes of a report."""


class NoiseError(ValueError):
    """A release that was to be refused where noise leaves nothing of it."""


@dataclass(frozen=True)
class Verdict:
    """Signal and noise of a release, known without data; `verdict_of` makes it."""

    unit: str
    # root-mean-square noise of a typical answer in one class, in records (or votes)
    noise: float
    # what stands behind it, if all cells are as likely; None where the number of records is not
    # public
    records: float | None
    signal: float | None = None  # records times the ε of a choice of the whole budget

    @property
    def is_faint(self) -> bool:
        """Whether records times ε alone say that hardly anything can be learned."""
        return self.signal is not None and self.signal < FAINT

    @property
    def is_hopeless(self) -> bool:
        """Whether labels would be chance; False where that is not known."""
        small = self.records is not None and self.records < HOPELESS[self.unit] * self.noise
        return small or self.is_faint

    @property
    def ok(self) -> bool:
        """Whether noise leaves something, as far as is known."""
        return not self.is_hopeless

    @property
    def refusal(self) -> str | None:
        """Why a strict fit is refused; None where it is not."""
        if self.records is None:
            return "expected n_records=N, the public number of records"
        return None if self.ok else self.words

    @property
    def advice(self) -> str:
        """A recommendation in a few words."""
        if self.records is None:
            return "the public number of records would say whether that is much"
        if self.is_hopeless:
            return "do not deploy"
        if self.records < DOUBTFUL[self.unit] * self.noise:
            return "noise decides many labels"
        return "noise is the smaller part"

    @property
    def words(self) -> str:
        """The verdict, in the same words wherever it is told."""
        noise = f"noise of {_round(self.noise)}"
        if self.records is None:
            return f"a typical {self.unit} has {noise}; {self.advice}"
        told = f"a typical {self.unit} holds {_round(self.records)} records and {noise}"
        if self.signal is not None and self.is_faint:
            told += (
                f", and records times ε are {_round(self.signal)}, below {FAINT}, where the "
                f"majority class may be right more often"
            )
        return f"{told}: {self.advice}"

    def __str__(self) -> str:
        return self.words


def _round(number: float) -> str:
    return f"{number:,.0f}" if 10 <= number < 1e15 else f"{number:.2g}"


def verdict_of(plan: Plan, n_records: int | None = None) -> Verdict:
    """Return the verdict on a plan of any kind.

    `n_records`: the *public* number of records, where the plan was not told.

    >>> from mrf_matrix import Domain, plan
    >>> small = plan(Domain.from_sizes([4, 4], n_classes=2), n_trees=4, max_depth=2, epsilon=0.01)
    >>> print(verdict_of(small, n_records=64_000))
    a typical leaf holds 4,000 records and noise of 141: noise is the smaller part
    >>> print(verdict_of(small, n_records=640))
    a typical leaf holds 40 records and noise of 141, and records times ε are 6.4, below 50, where \
the majority class may be right more often: do not deploy
    """
    known = plan.n_records or n_records
    signal = None if known is None else known * choice_epsilon(plan.budget)
    if not isinstance(plan, PlannedErrors) or plan.kind.chooses_blocks:
        noise, share = typical_count(plan)
        return Verdict("count", noise, None if known is None else known * share, signal)
    unit = "leaf" if plan.releases_leaves else "query"
    noise = float(np.median(plan.row_rms))
    if known is None:
        return Verdict(unit, noise, None)
    records = float(np.median(replace(plan, n_records=known).expected_records))
    return Verdict(unit, noise, records, signal)


def typical_count(plan: Plan) -> tuple[float, float]:
    """Return the noise of a typical count of a plan's tables, and the share of records behind it.

    Of a plan that asks no table, the noise is that of its last choice.
    """
    found = np.array(list(_counts(plan)))
    if not len(found):
        return _noise_of_choice(list(flat_steps(plan))[-1]), _usual_share(plan.domain)
    noise, share = np.median(found, axis=0).tolist()
    return noise, share


def _counts(plan: Any) -> Iterator[tuple[float, float]]:
    """Yield noise and share of the records of a count of each table that a plan asks."""
    usual, known = _usual_share(plan.domain), {}
    for step in plan.steps:
        if is_plan(step):
            yield from _counts(step)
        elif isinstance(step, Deferred):
            if step.n_tables is not None:
                yield _noise_of_tables(step), usual
        elif isinstance(plan, PlannedErrors):
            yield from _codes_of_blocks(plan.parts[0], plan.domain)
        elif not _is_choice(step) and step.kind != "curvature":
            alike = step if isinstance(step, StrategyStep) else (step.kind, step.budget, step.units)
            if alike not in known:  # of thousands of steps few differ
                made = step.mechanism(1)
                noise = sqrt(made.law.variance) / (float(made.rounded.scale) * step.units)
                known[alike] = noise, _row_share(made) if alike is step else usual
            yield known[alike]


def _codes_of_blocks(part: Any, domain: Domain) -> Iterator[tuple[float, float]]:
    """Yield the count of a code of each attribute: the cells of its block, added up."""
    leaf = float(np.sqrt(part.row_variances[0]))
    for block in part.blocks:
        cells = prod(domain.sizes[i] for i in block)
        for i in block:
            yield leaf * sqrt(cells / domain.sizes[i]), 1 / domain.sizes[i]


def _row_share(made: Mechanism) -> float:
    """Return the share of the records that the middle row of a strategy counts, by its weights."""
    rows, cells = made.rounded.matrix.shape
    row = abs(made.rounded.matrix.take_rows(np.array([rows // 2])).to_sparse())
    return float(row.sum()) / (float(made.rounded.scale) * cells)


def _usual_share(domain: Domain) -> float:
    return 1 / float(np.median([size for size in domain.sizes if size > 1] or [1]))


def _noise_of_tables(step: Deferred) -> float:
    """Return the noise of a count where so many tables share a budget evenly; continuous noise.

    Laplace: ``sqrt(2) t/ε``; Gaussian: ``sqrt(t/2ρ)``; times the factor of the relation.
    """
    budget, many = step.budget, step.n_tables or 1
    if budget.is_infinite:
        return 0.0
    amount = float(budget.exact)  # 0 where a budget is no float
    if not amount:
        return inf
    squared = squared_factor(step.neighboring, budget.norm, nonnegative=True)
    if budget.norm == "l1":
        return sqrt(2 * squared) * many / amount
    return sqrt(squared * many / (2 * amount))


def _is_choice(step: Any) -> bool:
    return step.kind in CHOICES or not hasattr(step, "mechanism")


def _noise_of_choice(step: Any) -> float:
    """Return the noise of a score, in records.

    To choose by weights ``exp(rate · score)`` is to take the largest score with Gumbel noise of
    scale 1/rate.
    """
    rate = float(step.choice_rate)
    return pi / sqrt(6) / rate if rate else inf


def with_verdict(report: "PrivacyReport", plan: Plan) -> "PrivacyReport":
    """Return a report with the verdict on its whole plan among the notes, where that is known.

    In place of those on parts of it.
    """
    kept = tuple(note for note in report.notes if not note.startswith(NOTE))
    report = replace(report, notes=kept)
    if plan.n_records is None:
        return report
    return report.with_public_number().with_note(f"{NOTE}{verdict_of(plan)}")


@contextmanager
def weigh_signals(
    n_records: int | None = None,
    *,
    strict: bool = False,
    check: Callable[[Any], None] = lambda plan: None,
) -> Iterator[list[Verdict]]:
    """Weigh signal against noise of every fit inside, before it spends.

    A plan whose budget is spent already is not weighed.

    Parameters
    ----------
    n_records : int, optional
        The *public* number of records, for classifiers that take none.
    strict : bool, default=False
        Refuse fits whose labels would be chance, and those of which that is not known.
    check : callable, optional
        Called with each plan first; it refuses one for a reason of its own by raising.

    Yields
    ------
    list of Verdict
        A verdict for each fit so far; its text says what noise leaves of the signal.

    Raises
    ------
    NoiseError
        Within, by a fit that `strict` refuses. Nothing was spent.

    Examples
    --------
    >>> from mrf_matrix import PrivateForestClassifier, load_dataset
    >>> car = load_dataset("car")
    >>> with weigh_signals(1728) as verdicts:
    ...     model = PrivateForestClassifier(car.domain, epsilon=1).fit(car.X, car.y)
    >>> verdicts[0].refusal is None
    True
    """
    verdicts: list[Verdict] = []

    def check_and_weigh(plan: Any) -> None:
        check(plan)
        if current_spending() is not None:
            return
        found = verdict_of(plan, n_records)
        verdicts.append(found)
        tell(f"Weighing: {found}")
        if strict and (refusal := found.refusal) is not None:
            raise NoiseError(f"strict: {refusal}.")

    token = SIGNAL_CHECK.set(check_and_weigh)
    try:
        yield verdicts
    finally:
        SIGNAL_CHECK.reset(token)
