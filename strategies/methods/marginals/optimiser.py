"""Weights of marginals for the smallest total or largest error, by descents.

For "l1" the loss ``(Σ θ)² Σ_U w_U/λ_U(θ²)`` has many local minima, each with few sets of positive
weight. Descents on ``θ >= 0`` start from uniform random weights on the sets of one size (broken
symmetry), and the best is then perturbed again and again: part of its sets are dropped, sets
that differ in one or two attributes are offered, and the descent runs once more.

For "l2" the loss ``(Σ t) Σ_U w_U/λ_U(t)`` is convex in ``t = θ²`` on the simplex, so one descent
reaches the optimum; the distance is known from ``g(t*) >= g(t) + min_S ∂g_S - ∂g·t`` (Frank and
Wolfe).

Row i has the error ``Σ_U ||w_i E_U||²/(n λ_U)``, and rows of one table have the same, so the
problem has as many unknowns as attribute sets and as many errors as kinds of rows, over domains
of any size. The largest error is descended on as a rising p-norm: for "l2" it is convex in
``t = θ²`` and one descent finds it, for "l1" several start from weights drawn at random.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from strategies.methods.descents import POWERS, REFUSED, TOTAL, ErrorNorm
from strategies.methods.marginals.algebra import Cover, Ints, make_cover, set_cells
from strategies.operators import Array, Marginals, Norm, fits
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.anova import Energies
from strategies.operators.masks.components import components, mask_rows, table_components
from strategies.operators.masks.packed_masks import containment
from strategies.problem.problem import Problem

FIRST_ROUND = 0.8
"""Seconds of the first round of a search, each of the next takes twice as long."""
LONGER = 6.0
"""Seconds that the best of all rounds hops on for, for each of a round."""
GAIN = 1e-6
"""Gain of the loss's logarithm below which a hop, or a round, has found nothing."""
MOST_PAIRS = 1e6
"""Pairs of an active set and a candidate that a hop looks at for neighbours."""
TOLERANCES: dict[Norm, float] = {"l1": 1e-8, "l2": 1e-14}
RISING = 1e-10
"""Relative gain of a step below which a descent ends; the last on norms of the largest error."""
DROPPED = (0.05, 0.15, 0.3)
OFFERED = (0.03, 0.1, 0.3)
BOOSTS = (0.5, 1.5, 5.0)


@dataclass(frozen=True, eq=False)
class SetErrors:
    """Sums of errors that are compared, by attribute sets."""

    energies: Energies  # of all rows together
    table: scipy.sparse.csr_array  # (K, u): ``Σ_{i in G_k} ||w_i E_U||²/n``, distinct rows
    norm: Norm
    errors: ErrorNorm

    @classmethod
    def total(cls, energies: Energies, norm: Norm) -> "SetErrors":
        """Return the one sum over all rows."""
        return cls(energies, scipy.sparse.csr_array(energies.values[None]), norm, TOTAL)

    def value(self, weights: Array, cover: Cover) -> float:
        """Return the loss at θ ("l1") or θ² ("l2"), infinite where a component is in no set."""
        eigenvalues = cover.eigenvalues(weights**2 if self.norm == "l1" else weights)
        if not (eigenvalues > 0).all():
            return float("inf")
        cost = weights.sum() ** 2 if self.norm == "l1" else weights.sum()
        return float(cost * self.errors.value(self.table @ (1.0 / eigenvalues)))


def log_loss(
    weights: Array, cover: Cover, sums: SetErrors, errors: ErrorNorm
) -> tuple[float, Array]:
    """Return the log of the loss, by a norm of its errors, and its slope in θ or θ² ("l2")."""
    squares = weights * weights if sums.norm == "l1" else weights
    eigenvalues = cover.eigenvalues(squares)
    if not (eigenvalues > 0).all():
        return REFUSED, np.zeros_like(weights)
    if errors is TOTAL:  # needs no table, which takes a fifth of the time
        terms = sums.energies.values / eigenvalues
        value, slope = np.log(terms.sum()), cover.pull(terms / eigenvalues) / -terms.sum()
    else:
        value, slopes = errors.log_value(sums.table @ (1.0 / eigenvalues))
        slope = -cover.pull((slopes @ sums.table) / eigenvalues**2)
    cost = weights.sum()
    if sums.norm == "l1":
        return float(2 * np.log(cost) + value), 2 / cost + 2 * weights * slope
    return float(np.log(cost) + value), 1 / cost + slope


@dataclass(eq=False)
class Meter:
    """Counts work in seconds of the reference machine; no clock is read."""

    allowance: float
    used: float = 0.0

    @property
    def is_exhausted(self) -> bool:
        return self.used >= self.allowance


def descend(
    start: Array, cover: Cover, sums: SetErrors, errors: ErrorNorm, meter: Meter, iterations: int
) -> tuple[float, Array]:
    """Minimise from one start by L-BFGS-B on nonnegative weights; return (log loss, weights)."""
    result = scipy.optimize.minimize(
        log_loss,
        start,
        args=(cover, sums, errors),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(start),
        options={
            "maxiter": iterations,
            "maxfun": 2 * iterations,
            "ftol": TOLERANCES[sums.norm] if errors is TOTAL else RISING,
            "gtol": 1e-12,
        },
    )
    meter.used += int(result.nfev) * evaluation_seconds(cover, sums, len(start))
    meter.used += 5e-4 + 4e-6 * len(start)
    return float(result.fun), result.x / result.x.sum()


def evaluation_seconds(cover: Cover, sums: SetErrors, count: int) -> float:
    return 7e-5 + 1.2 * cover.work + 1.2e-7 * count + 4e-9 * sums.table.nnz


def optimise(
    sums: SetErrors,
    candidates: Bools,
    generator: np.random.Generator,
    work: float = 1.0,
    starts: tuple[Array, ...] = (),
) -> Array:
    """Return weights θ of candidate sets.

    Raises ValueError if the candidates do not contain every component that the workload reaches.
    """
    cover = make_cover(sums.energies, candidates)
    if not (cover.eigenvalues(np.ones(len(candidates))) > 0).all():
        raise ValueError(
            f"candidates: {len(candidates)} attribute sets do not contain every component of the "
            f"workload; expected a set around each of {len(sums.energies.maximal)} maximal ones."
        )
    meter = Meter(work)
    if sums.errors is not TOTAL:
        return _least_largest(sums, cover, len(candidates), generator, meter, starts)
    if sums.norm == "l2":
        return _convex(sums, cover, len(candidates), meter)
    best, allowance = (REFUSED, np.ones(len(candidates))), FIRST_ROUND
    hop = partial(_hop, candidates=candidates, cover=cover, sums=sums)
    while not meter.is_exhausted:  # a longer search takes the same steps first
        begun = meter.used
        first = _first_descents(
            sums, candidates, cover, generator, meter, starts, begun + allowance / 3
        )
        found = min(first, key=lambda one: one[0])
        found = _hop_on(found, hop, generator, meter, begun + allowance)
        settled = abs(found[0] - best[0]) < GAIN  # two rounds that end alike
        best = min(best, found, key=lambda one: one[0])
        if settled:
            break
        best = _hop_on(best, hop, generator, meter, meter.used + LONGER * allowance)
        starts, allowance = (), 2.0 * allowance
    return _without_negligible(best[1], cover, sums)


def _hop_on(
    best: tuple[float, Array],
    hop: Callable[..., tuple[float, Array]],
    generator: np.random.Generator,
    meter: Meter,
    end: float,
) -> tuple[float, Array]:
    """Hop on from the best until a time has come, or many hops have found nothing."""
    idle, patience = 0, 40 + 4 * len(best[1])
    while not meter.is_exhausted and meter.used < end and idle < patience:
        found = hop(best, generator=generator, meter=meter)
        idle = 0 if found[0] < best[0] - GAIN else idle + 1
        best = found
    return best


def _convex(sums: SetErrors, cover: Cover, count: int, meter: Meter) -> Array:
    """Solve the "l2" problem; the number of iterations follows from the allowance."""
    squares = np.full(count, 1 / count)
    for _ in range(12):
        _, squares = descend(squares, cover, sums, TOTAL, meter, 1000)
        _, gradient = log_loss(squares, cover, sums, TOTAL)
        gap = float(-gradient.min())  # the loss over its linear lower bound on the simplex
        if gap < 1e-6 or meter.is_exhausted:
            break
        squares = squares + 1e-4 / count
    return np.asarray(np.sqrt(squares / squares.sum()))


def _first_descents(
    sums: SetErrors,
    candidates: Bools,
    cover: Cover,
    generator: np.random.Generator,
    meter: Meter,
    starts: tuple[Array, ...],
    end: float,
) -> Iterator[tuple[float, Array]]:
    """Descend from given weights, then from random weights on the sets of about one size."""
    for start in (*starts, _smallest(sums.energies, candidates)):
        yield _descend_on_support(start, cover, sums, meter)
    sizes = candidates.sum(axis=1)
    smallest = int(sums.energies.sets.sum(axis=1).max(initial=0))
    kinds = [np.ones(len(candidates), dtype=bool)] if len(candidates) <= 4096 else []
    kinds += [sizes == k for k in range(smallest, min(smallest + 4, candidates.shape[1] + 1))]
    for turn in range(40):
        for kind in kinds:
            if turn > 0 and (meter.used > end or meter.is_exhausted):
                return
            start = np.where(kind, generator.uniform(size=len(candidates)), 0.0)
            yield _descend_on_support(start, cover, sums, meter)


def _descend_on_support(
    start: Array, cover: Cover, sums: SetErrors, meter: Meter, iterations: int = 400
) -> tuple[float, Array]:
    """Descend over the sets of positive weight: the slope is never below zero at the others."""
    index = np.flatnonzero(start)
    part = cover.columns_of(index)
    if not len(index) or not (part.eigenvalues(start[index]) > 0).all():
        return REFUSED, start
    value, found = descend(start[index], part, sums, TOTAL, meter, iterations)
    weights = np.zeros_like(start)
    weights[index] = found
    return value, weights


def _smallest(energies: Energies, candidates: Bools) -> Array:
    """Return cube-root weights on the smallest candidates around each maximal component.

    ``θ_S ∝ (w_U Π_{i ∈ S} n_i)^(1/3)``, the best where each component has a table of its own.
    """
    cells = set_cells(candidates, energies.sizes)
    value = dict(zip(map(bytes, energies.sets), energies.values, strict=True))
    row, around = containment(energies.maximal, candidates).tocoo().coords
    order = np.lexsort((around, cells[around], row))
    chosen = around[order][np.unique(row[order], return_index=True)[1]]
    values = np.array([value[bytes(needed)] for needed in energies.maximal])
    cubes = np.bincount(chosen, values * cells[chosen], minlength=len(candidates))
    return np.asarray(np.cbrt(cubes / cubes.max()))


def _hop(
    best: tuple[float, Array],
    candidates: Bools,
    cover: Cover,
    sums: SetErrors,
    generator: np.random.Generator,
    meter: Meter,
) -> tuple[float, Array]:
    """Drop some sets of the best solution, offer similar ones, descend again; keep the better."""
    value, weights = best
    active = np.flatnonzero(weights > 1e-7)
    most = max(1, int(MOST_PAIRS / len(candidates)))
    around = active if len(active) <= most else generator.choice(active, most, replace=False)
    nearby = neighbours(candidates, around)
    meter.used += 4e-9 * len(around) * len(candidates)
    start = np.zeros_like(weights)
    kept = active[generator.uniform(size=len(active)) > generator.choice(DROPPED)]
    start[kept] = weights[kept]
    share, boost = generator.choice(OFFERED), generator.choice(BOOSTS)
    offered = nearby[generator.uniform(size=len(nearby)) < share]
    start[offered] += generator.uniform(size=len(offered)) * boost / (share * len(nearby))
    meter.used += 2e-8 * candidates.size
    found = _descend_on_support(start, cover, sums, meter, 300)
    return found if found[0] < value - 1e-9 else best


def neighbours(candidates: Bools, active: Ints) -> Ints:
    """Return the candidates that differ from an active one in at most two attributes."""
    table = candidates.astype(np.float32)
    inside = table[active] @ table.T
    count = table.sum(axis=1)
    distance = count[active][:, None] + count - 2 * inside
    return np.flatnonzero((distance <= 2).any(axis=0))


def _without_negligible(weights: Array, cover: Cover, sums: SetErrors) -> Array:
    best, value = weights, sums.value(weights, cover)
    for threshold in (1e-9, 1e-7, 1e-5, 1e-4):
        trial = np.where(weights > threshold, weights, 0.0)
        found = sums.value(trial, cover)
        if found <= value * (1 + 1e-12):
            best, value = trial, min(found, value)
    return np.asarray(best / best.sum())


MOST_STARTS = 20
ITERATIONS = 120
FEWEST_STEPS = 4
DIGITS = 12
"""Digits to which energies of rows are compared: rounding tells equal ones apart."""


def row_errors_by_sets(problem: Problem) -> SetErrors | None:
    """Return the distinct energies of the rows or groups of a problem; None without masks."""
    workload, groups = problem.workload, problem.aim.groups
    if isinstance(workload, Marginals) and groups is None:  # one kind of row for every table
        sizes = workload.domain_sizes
        parts = table_components(sizes, workload.set_table, workload.weights)
        used = np.flatnonzero(parts.totals)
        energies = Energies(sizes, parts.sets[used], parts.totals[used])
        return _set_errors(problem.norm, energies, parts.energies[:, used])
    rows = mask_rows(workload)
    if rows is None:
        return None
    parts = components(rows)
    form = parts.energies
    if groups is not None:
        ones = (np.ones(len(groups)), (groups, np.arange(len(groups))))
        form = scipy.sparse.csr_array(scipy.sparse.csr_array(ones) @ form)
    if not fits(form.shape, 32):
        return None
    kinds = form.toarray()
    unit = kinds.max()
    kinds = np.unique((kinds / unit).round(DIGITS), axis=0) * unit
    reached = kinds.max(axis=0) > 0
    energies = Energies(rows.sizes, parts.sets[reached], parts.totals[reached])
    return _set_errors(problem.norm, energies, kinds[:, reached])


def _set_errors(norm: Norm, energies: Energies, kinds: Array | scipy.sparse.csr_array) -> SetErrors:
    return SetErrors(
        energies, scipy.sparse.csr_array(kinds), norm, ErrorNorm(np.arange(kinds.shape[0]))
    )


def _least_largest(
    sums: SetErrors,
    cover: Cover,
    count: int,
    generator: np.random.Generator,
    meter: Meter,
    starts: tuple[Array, ...],
) -> Array:
    """Return weights for the smallest largest error."""
    power = 1 if sums.norm == "l1" else 2
    given = [*(start**power for start in starts), np.full(count, 1.0 / count)]
    if sums.norm == "l2":
        given.reverse()
    best, lowest = given[0], sums.value(given[0], cover)
    for turn in range(1 if sums.norm == "l2" else MOST_STARTS + len(given)):
        if turn > 0 and meter.is_exhausted:
            break
        start = given[turn] if turn < len(given) else generator.exponential(size=count) ** 2
        index = np.flatnonzero(start)  # the slope is never below zero at the others
        part, found = cover.columns_of(index), np.zeros(count)
        found[index] = _descend_on_rising_norms(start[index], part, sums, meter)
        value = sums.value(found, cover)
        if value < lowest:
            best, lowest = found, value
    best = best / best.sum()
    return np.asarray(best if sums.norm == "l1" else np.sqrt(best))


def _descend_on_rising_norms(start: Array, cover: Cover, sums: SetErrors, meter: Meter) -> Array:
    """Return the best of the rounds."""
    each = evaluation_seconds(cover, sums, len(start))
    left = max(meter.allowance / 2.0, meter.allowance - meter.used)
    steps = max(FEWEST_STEPS, min(ITERATIONS, int(left / (len(POWERS) * each))))
    weights, best, lowest = start / start.sum(), start, sums.value(start, cover)
    for errors in sums.errors.rounds:
        _, weights = descend(weights, cover, sums, errors, meter, steps)
        value = sums.value(weights, cover)
        if value < lowest:
            best, lowest = weights, value
        weights = weights + 1e-5 / len(weights)  # a set that has left may return
    return best
