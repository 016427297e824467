"""The portfolio: run the families that can serve a workload, return the best, checked."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from strategies.family import Family, Search
from strategies.objective import assess
from strategies.operators import (
    MemoryCapError,
    Norm,
    Operator,
    RowSpaceError,
    memory_cap,
)
from strategies.problem import Problem
from strategies.progress import Progress, Report, reporting
from strategies.registry import FAMILIES, family_named
from strategies.strategy import Candidate, Strategy

RandomState = int | np.random.Generator | None
DEFAULT_TIME_LIMIT = 8.0
PATIENCE = 3.0
"""The portfolio stops starting families after this many times its limit of wall time."""


def select(
    workload: Any,
    norm: Norm = "l1",
    method: str = "auto",
    random_state: RandomState = None,
    *,
    time_limit: float = DEFAULT_TIME_LIMIT,
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
    method : str, default="auto"
        One of `families`, or "auto" for the portfolio.
    random_state : int, numpy.random.Generator or None, default=None
        The same seed gives the same strategy, however busy the machine is.
    time_limit : float, default=8.0
        Seconds to spend, on the reference machine of two cores. It is turned into fixed numbers
        of iterations, so it sets the work and not the result's luck.
    memory_limit : int, optional
        Bytes that one array may take, 2 GiB when not given.
    progress : bool or callable, optional
        True shows a progress bar, a function is called with a `Progress` before each search.

    Returns
    -------
    Strategy
        The loss is recomputed from the matrix by another route than the search's own, with a
        check that the matrix determines the workload.

    Raises
    ------
    ValueError, TypeError
        If the workload is empty, all zeros, not finite or not real, an argument is out of
        range, or the method cannot serve the workload.

    Examples
    --------
    >>> import numpy as np
    >>> strategy = select(np.tri(8), method="identity")
    >>> strategy.loss, strategy.method
    (36.0, 'identity')
    """
    limit = checked_time_limit(time_limit)
    generator = np.random.default_rng(random_state)
    with nullcontext() if memory_limit is None else memory_cap(memory_limit):
        problem = Problem.of(workload, norm)
        chosen = FAMILIES if method == "auto" else (family_named(method),)
        able = tuple(family for family in chosen if family.serves(problem))
        if not able:
            raise ValueError(
                f"method={method!r} cannot serve a workload of shape {problem.workload.shape} "
                f"for norm={norm!r}: expected method='auto' or another family."
            )
        with reporting(progress) as report:
            return Portfolio(problem, able, generator, limit, report).run()


def checked_time_limit(seconds: float) -> float:
    """Return the time limit as a positive float, or refuse."""
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0:
        raise ValueError(f"time_limit={seconds!r}: expected a positive number of seconds.")
    return float(seconds)


@dataclass(frozen=True, eq=False)
class Portfolio:
    """A run of several families over one problem, each starting from what the others found."""

    problem: Problem
    families: tuple[Family, ...]
    generator: np.random.Generator
    limit: float
    report: Report

    def run(self) -> Strategy:
        """Search with every family in turn and return the best strategy."""
        began = time.monotonic()
        found: list[Strategy] = []
        tried: list[Candidate] = []
        truncated = False
        for step, family in enumerate(self.families):
            if found and time.monotonic() - began > PATIENCE * self.limit:
                truncated = True
                break
            best = min((strategy.loss for strategy in found), default=float("inf"))
            self.report(Progress(family.name, step, len(self.families), best))
            strategy, candidate = self.attempt(family, found)
            tried.append(candidate)
            if strategy is not None:
                found.append(strategy)
        if not found:
            raise MemoryCapError("; ".join(f"{item.family}: {item.note}" for item in tried))
        tried.sort(key=lambda candidate: candidate.loss)
        best_found = min(found, key=lambda strategy: strategy.loss)
        return replace(best_found, candidates=tuple(tried), truncated=truncated)

    def attempt(self, family: Family, found: list[Strategy]) -> tuple[Strategy | None, Candidate]:
        """Let one family search; a failure for size or rank becomes a note."""
        began = time.monotonic()
        try:
            matrix = family.search(self.problem, self.search_for(family, found))
            strategy = assess(self.problem, self.lifted(family, matrix), family.name)
        except (MemoryCapError, RowSpaceError, LinAlgError) as error:
            spent = time.monotonic() - began
            if len(self.families) == 1:
                raise
            return None, Candidate(family.name, float("inf"), spent, str(error))
        spent = time.monotonic() - began
        return strategy, Candidate(family.name, strategy.loss, spent)

    def search_for(self, family: Family, found: list[Strategy]) -> Search:
        """Return a family's share of the work and its starts, best first."""
        ordered = sorted(found, key=lambda strategy: strategy.loss)
        starts = [self.lowered(family, strategy.matrix) for strategy in ordered]
        usable = tuple(start for start in starts if start is not None)
        return Search(usable, self.generator, self.limit / len(self.families))

    def lifted(self, family: Family, matrix: Operator) -> Operator:
        """Return a family's matrix over the cells of the domain."""
        merging = self.problem.merging
        if family.space == "domain" or merging is None:
            return matrix
        return merging.invert(matrix)

    def lowered(self, family: Family, matrix: Operator) -> Operator | None:
        """Return a strategy over a family's own cells, None where it has none there."""
        merging = self.problem.merging
        if family.space == "domain" or merging is None:
            return matrix
        return merging.average(matrix)
