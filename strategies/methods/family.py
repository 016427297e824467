"""What a family of strategies is, which of them a user asks for, and the one that serves all.

The Identity measures every merged cell once. With G the groups of equal columns of W, A = G:
sensitivity 1 in both norms, and loss ``||W'||_F²`` for the workload W' over the groups. It is a
local minimum of the L1 objective wherever ``|H_ij| <= min(H_ii, H_jj)`` for ``H = W'ᵀW'``, which
holds for every 0/1 workload, and never above the Identity on the cells themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import wraps
from inspect import getdoc, signature
from reprlib import repr as short
from typing import Literal, ParamSpec, TypeVar

import numpy as np

from strategies.bounds.dual_ascent import factor_seconds
from strategies.operators import Identity, Kronecker, Norm, Operator, fits
from strategies.operators.base.recovery import PRODUCTS, factorisation_seconds
from strategies.problem.problem import NORMS, OBJECTIVES, Objective, Problem

BOTH_NORMS: frozenset[Norm] = frozenset(NORMS)
BOTH_OBJECTIVES: frozenset[Objective] = frozenset(OBJECTIVES)
TOTAL_ONLY: frozenset[Objective] = frozenset({"total"})
Known = TypeVar("Known")

FEW_CELLS = 500
"""Cells up to which descents of all entries, and the optimum for Gaussian noise, serve ranges."""
MANY_CELLS = 2500
"""Cells beyond which those do not apply."""
MANY_RANGES = 8
"""Cells for every longer range beyond which the few rows are good ones to descend from."""


def has_many_ranges(problem: Problem) -> bool:
    """Tell whether rows are ranges of cells in some order, so many that searches of their own pay.

    For the worst row, as if for the total.
    """
    ranges = (problem if problem.is_total else problem.as_total()).ranges
    if ranges is None or ranges.n <= FEW_CELLS:
        return False
    longer = int(np.count_nonzero(ranges.lengths > 1))
    return ranges.n > MANY_CELLS or longer * MANY_RANGES > ranges.n


UNIONS = "products of the same attributes on top of each other"
PATHS = "rows of masks"
"""What families ask of a workload, in the words of a refusal."""
SEARCH_PER_CLIMB = 1.4
"""A whole search that ends near the best, as a multiple of its shortest climb."""


def is_unordered(problem: Problem, cells: int = 64, rank: int | None = None) -> bool:
    """Tell whether no order of more than some cells is known, which `ordered_cells` serves better.

    For Laplace noise, many ranges are one too, and workloads above a rank where one is given.
    """
    if rank is not None and problem.norm == "l1" and largest_rank(problem) > rank:
        return False
    ordered = problem.ordered_gram
    if ordered is not None and ordered.n > cells:
        return False
    return problem.norm == "l2" or not has_many_ranges(problem)


def largest_rank(problem: Problem) -> int:
    q, n = problem.workload.shape
    return min(q, n if problem.merging is None else problem.merging.n_groups)


def require(known: Known | None, what: str = "cells that can be enumerated") -> Known:
    """Return what a search rests on; raise ValueError where the workload does not show it."""
    if known is None:
        raise ValueError(f"workload has no {what}: expected one that the family applies to.")
    return known


def has_few_cells(problem: Problem, most: int, squares: int, fewest: int = 1) -> bool:
    if problem.merging is None:
        return False
    g = problem.merging.n_groups
    return fewest <= g <= most and fits((g, g), squares)


def always(problem: Problem) -> bool:
    return True


def never(problem: Problem) -> bool:
    """Return False: a family that runs by name only, since others are never above it."""
    return False


def no_seconds(problem: Problem) -> float:
    """Return 0: the least that a search takes which ends wherever its allowance does."""
    return 0.0


def evaluation_seconds(problem: Problem, rows: int) -> float:
    """Return the seconds of one evaluation of a strategy of some rows on the reference machine.

    Over the merged cells where arrays of them fit, else through inner products of rows.
    """
    q = problem.workload.shape[0]
    g = 0 if problem.merging is None else problem.merging.n_groups
    rank = min(rows, g)
    if g == 0 or not fits((rank, g), 32):
        return factorisation_seconds(rows) + 2.0 * q * rows * rows / PRODUCTS
    return (4.0 * rows * g * rank + 2.0 * min(q, g) * g * rank) / PRODUCTS


def explicit_seconds(problem: Problem) -> float:
    """Return the seconds of a factor of the merged workload and of one evaluation over its cells.

    What a search over explicit matrices takes at least.
    """
    if problem.merging is None:
        return 0.0
    g = problem.merging.n_groups
    return factor_seconds(largest_rank(problem), g) + evaluation_seconds(problem, g)


def no_selection(workload: Operator, work: float, method: object = "auto") -> Operator:
    raise ValueError("select: expected a search that a portfolio runs, to select for parts.")


@dataclass(frozen=True, eq=False)
class Search:
    """What a family may use while it searches.

    Attributes
    ----------
    starts : tuple of Operator
        Strategies over the same cells found so far, best first: starts for polishing.
    generator : numpy.random.Generator
        The only source of randomness.
    work : float
        Work allowance in seconds of the reference machine. A family turns it into a fixed number
        of iterations or restarts by a count of operations, never by reading a clock, so that the
        result does not depend on how busy the machine is.
    select : callable
        From a smaller workload, a work allowance and a method ("auto" by default) to the best
        strategy for it: what a family asks that puts strategies of parts together.
    limit : float, optional
        Work of the whole portfolio, the allowance of one family where it is not run in one.
    best : float, optional
        Smallest loss that the automatic portfolio knows of, infinite where it knows none.
    """

    starts: tuple[Operator, ...] = ()
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    work: float = 1.0
    select: Callable[..., Operator] = no_selection
    limit: float = 1.0
    best: float = float("inf")


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


@dataclass(frozen=True, eq=False)
class Family:
    """A way to find a strategy.

    Attributes
    ----------
    name : str
        What ``select(method=...)`` accepts.
    space : {"merged", "domain"}
        Columns of the operator that `search` returns: merged cells, or cells of the domain.
    norms : frozenset of {"l1", "l2"}
        The norms it can minimise.
    applies : callable
        Whether it can serve a problem at all, at a reasonable cost.
    search : callable
        Returns the best strategy it finds.
    polishes : bool
        Whether it only improves on the starts it is given, and so runs after the others.
    share : float, default=1.0
        Part of a portfolio's work that it gets, relative to the other families' shares.
    least : callable
        Seconds of the reference machine that its shortest search for a problem takes, with the
        evaluation of what it finds, by a count of operations. A portfolio that has less left
        leaves it out and says so.
    good : callable
        Seconds in which the whole portfolio does it justice where the default limit is too short.
    worthwhile : callable
        Whether ``method="auto"`` runs it for a problem that it serves. By default always.
    objectives : frozenset of {"total", "max"}
        The objectives it can minimise. For the worst row, a family of the total alone is asked
        for the total of rows weighted so that the worst count most, as a start for others.
    purpose : str, optional
        What it measures and serves, in a line, as `families` prints it.
    """

    name: str
    space: Literal["merged", "domain"]
    norms: frozenset[Norm]
    applies: Callable[[Problem], bool]
    search: Callable[[Problem, Search], Operator]
    polishes: bool = False
    share: float = 1.0
    least: Callable[[Problem], float] = no_seconds
    good: Callable[[Problem], float] = no_seconds
    worthwhile: Callable[[Problem], bool] = always
    objectives: frozenset[Objective] = TOTAL_ONLY
    purpose: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name in ("", "auto"):
            raise ValueError(f"name={self.name!r}: expected a family's own name, not 'auto'.")
        if self.space not in ("merged", "domain"):
            raise ValueError(f"space={self.space!r}: expected 'merged' or 'domain'.")
        if not self.norms or not self.norms <= BOTH_NORMS:
            raise ValueError(f"norms={self.norms!r}: expected a frozenset of 'l1' and 'l2'.")
        if not self.objectives or not self.objectives <= BOTH_OBJECTIVES:
            raise ValueError(
                f"objectives={self.objectives!r}: expected a frozenset of 'total' and 'max'."
            )
        if not 0 <= self.share < float("inf"):
            raise ValueError(f"share={self.share!r}: expected a finite number of at least 0.")

    def serves(self, problem: Problem) -> bool:
        """Tell whether the family has the norm, the cells and the will for a problem."""
        enumerable = self.space == "domain" or problem.merging is not None
        wanted = "total" in self.objectives or not problem.is_total
        return problem.norm in self.norms and enumerable and wanted and self.applies(problem)


Options = ParamSpec("Options")


def factory(make: Callable[Options, Family]) -> Callable[Options, Family]:
    """Name what a factory makes after it and the options that are not its defaults.

    Its summary line is the family's purpose. Without options it returns one object.
    """
    plain: list[Family] = []
    purpose = (getdoc(make) or "").split("\n\n")[0].replace("\n", " ")
    defaults = {name: one.default for name, one in signature(make).parameters.items()}

    @wraps(make)
    def build(*args: Options.args, **options: Options.kwargs) -> Family:
        given = signature(make).bind(*args, **options).arguments
        named = [f"{key}={one!r}" for key, one in given.items() if one is not defaults[key]]
        name = make.__name__ + (f"({', '.join(named)})" if named else "")
        if not named and plain:
            return plain[0]
        family = replace(make(*args, **options), name=name, purpose=purpose)
        if not named:
            plain.append(family)
        return family

    return build


def checked_count(name: str, value: int | None, least: int, meaning: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: expected an integer of at least {least}, {meaning}.")


def checked_switch(name: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: expected True or False.")


def merged_cells(problem: Problem, search: Search) -> Operator:
    """Return the groups of merged cells, or the identity where n is too large to enumerate."""
    if problem.merging is None:
        return Identity(problem.workload.shape[1], problem.workload.sizes)
    return problem.merging.invert(Identity(problem.merging.n_groups))


@factory
def identity() -> Family:
    """Measure every merged cell once: serves everything, at no cost."""
    return Family(
        "identity",
        "domain",
        BOTH_NORMS,
        always,
        merged_cells,
        share=0.0,
        objectives=BOTH_OBJECTIVES,
    )


def requested_families(
    method: str | Family | Sequence[str | Family], problem: Problem, known: Sequence[Family]
) -> tuple[Family, ...]:
    """Return the families, of the known ones or a user's, that ``method=`` asks for and that serve.

    Raises TypeError if something is neither a name nor a `Family`; ValueError if a name is unknown
    or stands twice, or no family asked for can serve the workload.
    """
    if isinstance(method, str) and method == "auto":
        rated = (one for one in known if problem.norm in one.norms)
        return tuple(one for one in rated if one.worthwhile(problem) and one.serves(problem))
    given: list[object] = [method]
    if isinstance(method, Sequence | Mapping) and not isinstance(method, str):
        given = list(method)
    asked = tuple(requested_family(one, known) for one in given)
    names = [family.name for family in asked]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"method={names!r}: expected at least one family, each name once.")
    able = tuple(family for family in asked if family.serves(problem))
    if not able:
        raise ValueError(
            f"method={', '.join(names)!r} cannot serve a workload of shape "
            f"{problem.workload.shape} for norm={problem.norm!r}: expected method='auto' or "
            f"another family."
        )
    return able


def requested_family(method: object, known: Sequence[Family]) -> Family:
    named = {family.name: family for family in known}
    if isinstance(method, Family):
        if named.get(method.name, method) is not method:
            raise ValueError(
                f"method={method.name!r} is the name of a family of this library: expected a "
                f"name of its own."
            )
        return method
    if not isinstance(method, str):
        is_matrix = getattr(method, "ndim", 0) == 2
        hint = " For a given matrix call strategies.evaluate(W, matrix)." if is_matrix else ""
        raise TypeError(
            f"method={short(method)}: expected 'auto', the name of a family, a Family, or a "
            f"sequence of names and families.{hint}"
        )
    if method not in named:
        nearest = get_close_matches(method, named, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(
            f"method={short(method)}: expected 'auto' or one of {', '.join(sorted(named))}.{hint}"
        )
    return named[method]


def shares_of(families: Sequence[Family]) -> tuple[float, ...]:
    """Return each family's part of the work, in all 1; a family alone gets everything."""
    total = sum(one.share for one in families)
    if not total > 0:
        return (1.0,) * len(families)
    return tuple(one.share / total for one in families)


@dataclass(frozen=True, eq=False)
class Parts:
    """Selections for parts of a workload, each made once."""

    search: Search
    work: float  # allowance of one selection
    known: dict[tuple[Family | str, bytes | int], Operator] = field(
        default_factory=dict, init=False
    )

    def best(self, workload: Operator, method: Family | None = None) -> Operator:
        """Return the strategy for a part, known by its Gram, by any family or a given one.

        A family is itself, whatever its name: two may be called the same.
        """
        n = workload.shape[1]
        part = workload.gram_dense().tobytes() if fits((n, n), 16) else id(workload)
        key = method or "auto", part
        if key not in self.known:
            self.known[key] = self.search.select(workload, self.work, key[0])
        return self.known[key]


SHARING = 8  # cells of a factor from which its selection takes time worth counting


def searched_factors(workload: Kronecker) -> list[Operator]:
    """Return the different factors whose selections take time."""
    known = {f.gram_dense().tobytes(): f for f in workload.factors if f.shape[1] >= SHARING}
    return list(known.values())
