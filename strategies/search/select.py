"""The best strategy for a workload: a run of families, the last of which improve on the others.

It may end early, where a cheap bound proves the best optimal.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from reprlib import repr as short

import numpy as np
from scipy.linalg import LinAlgError

from strategies.methods import FAMILIES
from strategies.methods.family import (
    Family,
    Progress,
    Report,
    Search,
    evaluation_seconds,
    requested_families,
    searched_factors,
    shares_of,
)
from strategies.methods.weighted_rows import OWN_ROWS, own_loss
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    MemoryCapError,
    Norm,
    Operator,
    Product,
    RowSpaceError,
    as_operator,
    memory_cap,
)
from strategies.operators.base.arrays import one_thread
from strategies.problem.problem import Objective, Problem
from strategies.problem.strategy import Candidate, Strategy
from strategies.search.assessment import (
    CERTIFYING,
    TIE,
    Proof,
    assess,
    from_unit,
    is_worth_trials,
    smallest_of_best,
    surrogate_total,
)

DEFAULT_TIME_LIMIT = 6.0  # seconds of work where the cells can be enumerated
DEFAULT_BEYOND_CELLS = 4.0
"""The same over larger domains, where few families serve and soon level off."""
DEFAULT_MOST = 24.0
"""Most seconds that a family which takes long to be good may take it to."""


def select(
    workload: object,
    norm: Norm = "l1",
    method: str | Family | Sequence[str | Family] = "auto",
    random_state: int | np.random.Generator | None = None,
    *,
    objective: Objective = "total",
    weights: object = None,
    groups: object = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    progress: bool | Report | None = None,
) -> Strategy:
    """Return the best strategy found for a workload, with a certificate beside it.

    Parameters
    ----------
    workload : ndarray, scipy sparse, Operator or Gram, of shape (q, n)
        Every row a query over the n cells. Implicit workloads over domains too large to
        enumerate get the families that can serve them.
    norm : {"l1", "l2"}, default="l1"
        "l1" for Laplace noise (pure differential privacy), "l2" for Gaussian noise (zCDP).
    method : str, Family, or sequence of them, default="auto"
        One of `families` or a `Family` of one's own; several share the work as a portfolio, as in
        ``(*families(), mine)``. "auto" takes the families that are worth their time.
    random_state : int, numpy.random.Generator or None, default=None
        The same seed gives the same strategy, however busy the machine is.
    objective : {"total", "max"}, default="total"
        "total" makes the sum of all rows' errors small, "max" the largest error of a row.
    weights : array-like of shape (q,), optional
        Weight of every row's error, 1 when not given; a row of weight 0 needs no answer. The
        workload's structure is kept.
    groups : array-like of int, shape (q,), optional
        For "max": a label for every row; errors are summed within a group, and the worst group
        counts.
    time_limit : float, optional
        Seconds to spend, on one core of the reference machine; by default 6, or 4 over domains too
        large to enumerate, more where a family asks for it (`Family.good`), up to 24, and for each
        further factor of a Kronecker product. It is turned into fixed numbers of iterations: it
        sets the amount of work, and no clock decides the result. A family whose shortest search is
        dearer than what is left is not tried, and `Strategy.candidates` says so. Should the
        portfolio take ten times as long, it starts no further family and the strategy says
        ``truncated``.
    memory_limit : int, optional
        Bytes that one array may take, 2 GiB when not given.
    progress : bool or callable, optional
        True shows a progress bar, a function is called with a `Progress` before each search.

    Returns
    -------
    Strategy
        Its loss is recomputed from the matrix by another route than the search's own, with a
        check that the matrix determines the workload; `Strategy.candidates` tells what every
        family reached.

    Raises
    ------
    ValueError, TypeError
        If the workload is empty, all zeros, not finite or not real, an argument is out of
        range, or the method cannot serve the workload.
    MemoryCapError
        If a method needs an array above the memory limit.

    Examples
    --------
    >>> import numpy as np
    >>> strategy = select(np.tri(8), method="identity")
    >>> strategy.loss, strategy.method
    (36.0, 'identity')
    """
    given = None if time_limit is None else checked_time_limit(time_limit)
    generator = checked_generator(random_state)
    with nullcontext() if memory_limit is None else memory_cap(memory_limit):
        problem = Problem.of(workload, norm, objective, weights, groups).with_attributes()
        able = requested_families(method, problem, FAMILIES)
        named = None if method == "auto" else able
        limit = default_limit(problem, named) if given is None else given
        with progress_report(progress) as report, one_thread():
            found = Portfolio(problem, able, generator, limit, report, method == "auto").run()
    return from_unit(found, problem.power)


def default_limit(problem: Problem, able: Sequence[Family] | None = None) -> float:
    """Return the seconds of work of families, or of "auto", when the user names none.

    What the family that takes longest to be good asks for; for products, what each factor would
    get alone, or more where a family that is asked for by name needs it.
    """
    usual = DEFAULT_TIME_LIMIT if problem.merging is not None else DEFAULT_BEYOND_CELLS
    if isinstance(problem.workload, Kronecker) and problem.aim.groups is None:
        factors = searched_factors(problem.workload)
        alone = [Problem.of(one, problem.norm, problem.aim.objective) for one in factors]
        usual = max((len(alone) * default_limit(one) for one in alone), default=DEFAULT_TIME_LIMIT)
        if able is None:
            return usual
    families = requested_families("auto", problem, FAMILIES) if able is None else able
    asked = max(family.good(problem) for family in families)
    return max(usual, min(DEFAULT_MOST, asked))


def checked_time_limit(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0:
        raise ValueError(f"time_limit={short(seconds)}: expected a positive number of seconds.")
    return float(seconds)


def checked_generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state={short(random_state)}: expected None, a non-negative integer or a "
            f"numpy.random.Generator ({error})."
        ) from None


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
TRIALS = ("identity", "marginals", "boxes")
"""Families that are tried briefly before a long search over many cells."""
CHEAP_TRIALS = ("common_refinement", "workload_itself")
"""Families that are tried as well where their shortest search takes that share of the limit."""
TRIAL_WORK = 0.1  # seconds of work of each trial
GAIN = 1e-6
"""Relative gain over the Identity that a trial must show."""
POLISHING_SHARE = 0.5  # of the work, for families that only improve on what the others found


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
        self.proof = Proof(self.problem, self.limit)
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
            if step + 1 < len(steps) and self.is_optimal:
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
            workload, self.problem.norm, sensitivity, loss, name, self.proof.certificate,
            objective=objective,
        )  # fmt: skip
        self.found.append(plain)
        self.candidates.append(Candidate(name, loss, 0.0, "every row by its own answer", workload))

    def promises_nothing(self) -> bool:
        """Tell whether short trials show that a search over many cells ends at the Identity."""
        problem = self.problem
        if not is_worth_trials(problem):
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

    @property
    def is_optimal(self) -> bool:
        return self.proof.is_optimal(self.best_loss, {one.method for one in self.found})

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
        if matrix is merging.grouping or self.proof.meets_closed_bound(whole.loss):
            return whole, ""
        if not merging.can_average(matrix):
            return whole, ""
        averaged = self.strategy(family, merging.invert(merging.average(matrix)))
        if averaged.loss < whole.loss * (1 - 1e-9):
            return averaged, "columns averaged over merged cells"
        return whole, ""

    def strategy(self, family: Family, matrix: Operator) -> Strategy:
        return assess(self.problem, matrix, family.name, self.proof.certificate)

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
