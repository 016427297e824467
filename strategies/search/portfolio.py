"""A run of several families over one problem, the last of which improve on the others' best.

It may end early, where a cheap bound proves the best optimal.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError

from strategies.bounds.dual_ascent import LARGEST
from strategies.bounds.lower_bound import (
    Certificate,
    closed_bound,
    has_weighable_cells,
    lower_bound,
)
from strategies.bounds.pinched_union import tables_bound
from strategies.methods.family import (
    Family,
    Search,
    evaluation_seconds,
    requested_families,
    shares_of,
)
from strategies.methods.registry import FAMILIES
from strategies.methods.workload_itself import OWN_ROWS, own_loss
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    MemoryCapError,
    Operator,
    Product,
    RowKronecker,
    RowSpaceError,
    as_operator,
)
from strategies.problem.problem import Problem
from strategies.problem.strategy import Candidate, Strategy
from strategies.search.assessment import assess, surrogate_total


@dataclass(frozen=True)
class Progress:
    """One step of a selection.

    Attributes
    ----------
    family : str
        The family about to search.
    step, steps : int
        Searches done so far, and in all.
    best : float
        Smallest loss so far; infinite before the first.
    """

    family: str
    step: int
    steps: int
    best: float


Report = Callable[[Progress], object]


@contextmanager
def progress_report(progress: bool | Report | None) -> Iterator[Report]:
    """Turn the user's ``progress`` argument into a function: a rich bar for True."""
    if progress is None or progress is False:
        yield lambda event: None
    elif progress is True:
        with _progress_bar() as report:
            yield report
    elif callable(progress):
        yield progress
    else:
        raise TypeError(
            f"progress={progress!r}: expected True, False, None or a function of one "
            f"strategies.Progress."
        )


@contextmanager
def _progress_bar() -> Iterator[Report]:
    import rich.progress

    words = rich.progress.TextColumn("{task.description}", markup=False)  # a family's name is text
    rest = rich.progress.Progress.get_default_columns()[1:]
    with rich.progress.Progress(words, *rest, transient=True) as bar:
        task = bar.add_task("strategies", total=None)

        def report(event: Progress) -> None:
            text = f"{event.family} (best {event.best:.6g})"
            bar.update(task, description=text, completed=event.step, total=event.steps)

        yield report


PATIENCE = 10.0
"""No family starts after this many times the limit of this thread's time: the result says so.

On an idle machine that is wall time; on a busy one what is found stays the same."""
LEAST_PATIENCE = 20.0
"""Seconds of the thread in which a family may start, however short the limit."""
RULED = "kronecker_selections"
"""Always runs, even past the deadline, so no result is above the product of its factors' own."""
CERTIFYING = 0.1
"""Share of the limit for a bound, for weights of rows, or for an evaluation of the workload."""
TRIALS = ("identity", "marginals", "boxes")
"""Families that are tried briefly before a long search over many cells."""
CHEAP_TRIALS = ("common_refinement", "workload_itself")
"""Families that are tried as well where their shortest search takes that share of the limit."""
TRIAL_WORK = 0.1  # seconds of work of each trial
MANY_CELLS = 1000
"""Merged cells above which searches over all of them are worth a trial first."""
GAIN = 1e-6
"""Relative gain over the Identity that a trial must show."""
POLISHING_SHARE = 0.5  # of the work, for families that only improve on what the others found
CERTIFIED_BY = ("gaussian_optimal", "ordered_cells")
"""Families after which a bound for Gaussian noise is known, or costs little more."""
CLOSED_GAP = 1e-9
"""Certified distance from optimal at which a search ends, where the bound has a closed form."""
OPTIMALITY_GAP = 1e-4  # the same for Gaussian noise
WORST_GAP = 6e-4  # the same for the worst row or group, where a step of the search costs more
TABLES_GAP = 0.05
"""The same for unions of tables over more cells than can be climbed on: what other families reach
there stands 7 % and more above oblique residuals."""
PLAIN = ("identity", "workload_itself")  # families that no result of "auto" is above
TIE = 1e-9  # relative difference of losses that is rounding
AS_GOOD = 1e-3
"""Relative difference of losses for Gaussian noise for which a smaller strategy is kept."""


def smallest_of_best(problem: Problem, found: Sequence[Strategy]) -> Strategy:
    """Return the strategy of least loss; for Gaussian noise the smallest that is as good.

    Fewer answers take less time and room: a 0.1 % larger loss is acceptable for that.
    """
    best = min(found, key=lambda strategy: strategy.loss)
    if problem.norm == "l1":
        return best
    plain = [one.loss for one in found if one.method in PLAIN]  # the rule stands above
    most = max(best.loss * (1 + TIE), min(best.loss * (1 + AS_GOOD), *plain, own_loss(problem)))
    near = (one for one in found if one.loss <= most)
    return min(near, key=lambda one: (one.matrix.shape[0], one.loss))


@dataclass(eq=False)
class Portfolio:
    """One run: searches in a fixed order with fixed shares of the work, and what they found.

    Where nobody asked for a family by name, a short trial may end the search, and no result is
    above the workload's own rows.
    """

    problem: Problem
    families: tuple[Family, ...]  # those that can serve the problem, in order
    generator: np.random.Generator
    limit: float  # seconds of the reference machine, for all searches together
    report: Report  # called before each search
    is_auto: bool = False
    found: list[Strategy] = field(default_factory=list, init=False)
    candidates: list[Candidate] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.first_generator = deepcopy(self.generator)
        self.seed = int(self.generator.integers(2**63))

    def run(self) -> Strategy:
        """Search with every family in turn, polish, and return the best strategy."""
        if self.is_auto and self.promises_nothing():
            return replace(
                min(self.found, key=lambda one: one.loss), candidates=tuple(self.candidates)
            )
        truncated = self.search_in_turn()
        if self.is_auto and own_loss(self.problem) < self.best_loss * (1 - TIE):
            self.add_own_rows()
        if not self.found:
            notes = "; ".join(f"{item.family}: {item.note}" for item in self.candidates)
            raise MemoryCapError(f"no family could serve the workload: {notes}")
        best = smallest_of_best(self.problem, self.found)
        ranking = tuple(sorted(self.candidates, key=lambda candidate: candidate.loss))
        return replace(best, candidates=ranking, truncated=truncated)

    def search_in_turn(self) -> bool:
        """Search with every family that can be afforded; tell whether time left some out."""
        deadline = time.thread_time() + max(LEAST_PATIENCE, PATIENCE * self.limit)
        steps = tuple(self.steps())
        truncated, left = False, self.limit
        for step, (family, work) in enumerate(steps):
            if self.found and time.thread_time() > deadline and family.name != RULED:
                truncated = True
                continue
            if not self.affords(family, left):
                continue
            left = max(0.0, left - family.least(self.problem))
            self.report(Progress(family.name, step, len(steps), self.best_loss))
            self.attempt(family, work)
            if step + 1 < len(steps) and self.is_optimal():
                break
        return truncated

    def affords(self, family: Family, left: float) -> bool:
        """Tell whether what is left covers a family's shortest search, and note where it does not.

        Left is what shortest searches before did not need: most end long before their share does.
        The first family always runs, unless the workload's own rows may be measured; so does the
        family that the rule of products stands on.
        """
        price = family.least(self.problem)
        serves_itself = self.is_auto and own_loss(self.problem) < float("inf")
        first = not (self.found or serves_itself)
        if first or family.name == RULED or price <= left:
            return True
        note = f"takes about {price:.2g} s at least, more than is left of the limit"
        self.candidates.append(Candidate(family.name, float("inf"), 0.0, note))
        return False

    def add_own_rows(self) -> None:
        """Add the workload itself; where an evaluation takes long, by the loss of plain noise.

        Least squares over all rows only lowers it, by as much as rows depend on others.
        """
        workload = self.problem.workload
        if evaluation_seconds(self.problem, workload.shape[0]) <= CERTIFYING * self.limit:
            self.attempt(OWN_ROWS, 0.0)
            return
        sensitivity, loss = self.problem.own_sensitivity, own_loss(self.problem)
        objective, name = self.problem.aim.objective, OWN_ROWS.name
        plain = Strategy(
            workload, self.problem.norm, sensitivity, loss, name, self.certificate,
            objective=objective,
        )  # fmt: skip
        self.found.append(plain)
        self.candidates.append(Candidate(name, loss, 0.0, "every row by its own answer", workload))

    def promises_nothing(self) -> bool:
        """Tell whether short trials show that a search over many cells ends at the Identity.

        Rows of plain paths have their local minimum at the Identity, which long searches over
        many cells leave only where weighted tables, boxes, refined trees or the rows themselves
        are below it at once.
        """
        problem, merging = self.problem, self.problem.merging
        asked = problem.norm == "l1" and problem.is_total
        if not asked or not isinstance(problem.workload, RowKronecker):
            return False
        if (
            merging is None
            or merging.n_groups <= MANY_CELLS
            or problem.ordered_gram
            or problem.ranges
        ):
            return False  # ordered cells have families of their own
        if own_loss(problem) < problem.merged_total:
            return False
        trials = [family for family in self.families if family.name in TRIALS]
        if len(trials) < 2 or any(family.least(problem) > self.limit for family in trials):
            return False
        cheap = [family for family in self.families if family.name in CHEAP_TRIALS]
        trials += [one for one in cheap if one.least(problem) <= CERTIFYING * self.limit]
        for family in trials:
            self.attempt(family, TRIAL_WORK)
        if self.best_loss >= problem.merged_total * (1 - GAIN):
            self.candidates.sort(key=lambda candidate: candidate.loss)
            return True
        self.found.clear()
        self.candidates.clear()
        return False

    def is_optimal(self) -> bool:
        """Tell whether the best found is certified optimal, at a small share of the limit.

        A bound in closed form serves both norms, a climbed one Gaussian noise.
        """
        best = self.best_loss
        if self.meets_closed_bound(best) or self.is_near_tables(best):
            return True
        climbed = CERTIFIED_BY if self.problem.is_total else CERTIFIED_BY[:1]
        if self.problem.norm == "l1" or not any(one.method in climbed for one in self.found):
            return False
        gap = OPTIMALITY_GAP if self.problem.is_total else WORST_GAP
        return best <= self.climbed_bound * (1 + gap)

    def is_near_tables(self, loss: float) -> bool:
        """Tell whether tables are too many cells for what comes closer than their own bound."""
        merging = self.problem.merging
        if self.problem.norm == "l1" or (merging is not None and merging.n_groups <= LARGEST):
            return False
        known = tables_bound(self.problem, CERTIFYING * self.limit)
        return known > 0 and loss <= known * (1 + TABLES_GAP)

    def meets_closed_bound(self, loss: float) -> bool:
        """Tell whether a bound that costs next to nothing proves a loss optimal."""
        gap = CLOSED_GAP if self.problem.norm == "l1" else OPTIMALITY_GAP
        return self.closed_bound is not None and loss <= self.closed_bound * (1 + gap)

    @cached_property
    def closed_bound(self) -> float | None:
        return closed_bound(self.problem, CERTIFYING * self.limit)

    @cached_property
    def climbed_bound(self) -> float:
        """The bound at the weights that the search for Gaussian noise has found."""
        if not has_weighable_cells(self.problem) and self.problem.long_prefix_rows is None:
            return 0.0
        return lower_bound(self.problem, CERTIFYING * self.limit)

    @cached_property
    def certificate(self) -> Certificate:
        return Certificate(self.problem)

    @property
    def best_loss(self) -> float:
        return min((strategy.loss for strategy in self.found), default=float("inf"))

    def steps(self) -> Iterator[tuple[Family, float]]:
        """Yield every search with its share of the work: those from scratch, then the polishers."""
        fresh = tuple(family for family in self.families if not family.polishes)
        polishers = tuple(family for family in self.families if family.polishes)
        late = (POLISHING_SHARE if fresh else 1.0) if polishers else 0.0
        for group, part in ((fresh, 1 - late), (polishers, late)):
            for family, share in zip(group, shares_of(group), strict=True):
                yield family, self.limit * part * share

    def attempt(self, family: Family, work: float) -> None:
        """Let one family search; a failure for size or rank becomes a note."""
        began = time.monotonic()
        try:
            ordered = sorted(self.found, key=lambda strategy: strategy.loss)
            matrices = tuple(strategy.matrix for strategy in ordered)
            starts = matrices if family.space == "domain" else self.average_columns(matrices)
            drawn = np.random.default_rng([*family.name.encode(), self.seed])  # whatever ran
            known = self.best_loss if self.is_auto and self.problem.is_total else float("inf")
            search = Search(starts, drawn, work, self.select_part, self.limit, known)
            matrix = as_operator(family.search(self.problem_of(family), search), family.name)
            strategy, note = self.best_form(family, matrix)
            if isinstance(matrix, Identity) and family.name != "identity":
                note = "ended at the Identity"
        except (MemoryCapError, RowSpaceError, LinAlgError) as error:
            if len(self.families) == 1:
                raise
            spent = time.monotonic() - began
            self.candidates.append(Candidate(family.name, float("inf"), spent, str(error)))
            return
        spent = time.monotonic() - began
        self.found.append(strategy)
        kept = None if is_dense(strategy.matrix) else strategy.matrix
        self.candidates.append(Candidate(family.name, strategy.loss, spent, note, kept))

    def select_part(
        self,
        workload: Operator,
        work: float,
        method: str | Family | Sequence[str | Family] = "auto",
    ) -> Operator:
        """Return the best strategy found for a part of the workload, such as one factor.

        With the randomness that a search for the part alone begins with. The largest errors of a
        product's factors multiply, as their totals do; other parts are selected for their total.
        """
        whole = isinstance(self.problem.workload, Kronecker) and self.problem.aim.groups is None
        objective = self.problem.aim.objective if whole else "total"
        problem = Problem.of(workload, self.problem.norm, objective)
        able, own = requested_families(method, problem, FAMILIES), deepcopy(self.first_generator)
        quiet, is_auto = (lambda event: None), method == "auto"
        return Portfolio(problem, able, own, work, quiet, is_auto).run().matrix

    def problem_of(self, family: Family) -> Problem:
        """Return the problem, or one of total error near it where a family knows no other."""
        if self.problem.aim.objective in family.objectives:
            return self.problem
        near = self.surrogate
        return near if family.serves(near) else self.problem.as_total()  # weights hide structure

    @cached_property
    def surrogate(self) -> Problem:
        """The total error of rows weighted so that the worst count most."""
        return surrogate_total(self.problem, CERTIFYING * self.limit)

    def best_form(self, family: Family, matrix: Operator) -> tuple[Strategy, str]:
        """Return a family's matrix as a strategy over the domain, merged where that is better."""
        merging = self.problem.merging
        if merging is None or merging.is_trivial:
            return self.strategy(family, matrix), ""
        if family.space == "merged":
            return self.strategy(family, merging.invert(matrix)), ""
        whole = self.strategy(family, matrix)
        if matrix is merging.grouping or self.meets_closed_bound(whole.loss):
            return whole, ""
        if not merging.can_average(matrix):
            return whole, ""
        averaged = self.strategy(family, merging.invert(merging.average(matrix)))
        if averaged.loss < whole.loss * (1 - 1e-9):
            return averaged, "columns averaged over merged cells"
        return whole, ""

    def strategy(self, family: Family, matrix: Operator) -> Strategy:
        return assess(self.problem, matrix, family.name, self.certificate)

    def average_columns(self, matrices: Iterable[Operator]) -> tuple[Operator, ...]:
        """Return the strategies whose columns can be averaged, over the merged cells."""
        merging = self.problem.merging
        if merging is None:
            return tuple(matrices)
        return tuple(merging.average(matrix) for matrix in matrices if merging.can_average(matrix))


def is_dense(matrix: Operator) -> bool:
    """Tell whether a strategy is an explicit array, over the cells or over groups of them."""
    while isinstance(matrix, Product):
        matrix = matrix.left
    return isinstance(matrix, Dense)
