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

from strategies.methods.descents import POWERS, REFUSED, ErrorNorm
from strategies.methods.marginals.algebra import Cover, Ints, make_cover, marginals_loss, set_cells
from strategies.operators import Array, Marginals, Norm, fits
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.components import components, mask_rows, table_components
from strategies.operators.masks.energies import Energies
from strategies.operators.masks.packed_masks import contained
from strategies.problem.problem import Problem

FIRST_ROUND = 0.8
"""Seconds of the first round of a search, each of the next takes twice as long."""
LONGER = 6.0
"""Seconds that the best of all rounds hops on for, for each of a round."""
GAIN = 1e-6
"""Gain of the loss's logarithm below which a hop, or a round, has found nothing."""
MOST_PAIRS = 1e6
"""Pairs of an active set and a candidate that a hop looks at for neighbours."""
DROPPED = (0.05, 0.15, 0.3)
OFFERED = (0.03, 0.1, 0.3)
BOOSTS = (0.5, 1.5, 5.0)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Candidate sets with weights, and the loss they reach."""

    sets: Bools  # (K, d)
    weights: Array  # (K,): of sum 1 for "l1", squares of sum 1 for "l2"
    loss: float
    gap: float = float("nan")  # for "l2": relative distance to the optimum over these sets


def log_loss(weights: Array, cover: Cover, values: Array, norm: Norm) -> tuple[float, Array]:
    """Return the logarithm of the loss and its gradient in θ ("l1") or in t = θ² ("l2")."""
    squares = weights * weights if norm == "l1" else weights
    eigenvalues = cover.eigenvalues(squares)
    if not (eigenvalues > 0).all():
        return REFUSED, np.zeros_like(weights)
    terms = values / eigenvalues
    error, cost = terms.sum(), weights.sum()
    slope = cover.pull(terms / eigenvalues) / -error
    if norm == "l1":
        return float(2 * np.log(cost) + np.log(error)), 2 / cost + 2 * weights * slope
    return float(np.log(cost) + np.log(error)), 1 / cost + slope


@dataclass(eq=False)
class Meter:
    """Counts work in seconds of the reference machine; no clock is read."""

    allowance: float
    used: float = 0.0

    def charge(self, cover: Cover, evaluations: int, count: int) -> None:
        self.used += evaluations * evaluation_seconds(cover, count) + 5e-4 + 4e-6 * count

    @property
    def exhausted(self) -> bool:
        return self.used >= self.allowance


def descend(
    start: Array, cover: Cover, values: Array, norm: Norm, meter: Meter, iterations: int
) -> tuple[float, Array]:
    """Minimise from one start by L-BFGS-B on nonnegative weights; return (log loss, weights)."""
    tolerance = 1e-8 if norm == "l1" else 1e-14
    result = scipy.optimize.minimize(
        log_loss,
        start,
        args=(cover, values, norm),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(start),
        options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": tolerance, "gtol": 1e-12},
    )
    meter.charge(cover, int(result.nfev), len(start))
    return float(result.fun), result.x / result.x.sum()


def optimise(
    energies: Energies,
    candidates: Bools,
    norm: Norm,
    generator: np.random.Generator,
    work: float = 1.0,
    starts: tuple[Array, ...] = (),
) -> Weighted:
    """Find weights on candidate sets.

    Raises ValueError if the candidates do not contain every component that the workload reaches.
    """
    cover = make_cover(energies, candidates)
    if not (cover.eigenvalues(np.ones(len(candidates))) > 0).all():
        raise ValueError(
            f"candidates: {len(candidates)} attribute sets do not contain every component of the "
            f"workload; expected a set around each of {len(energies.maximal)} maximal ones."
        )
    meter = Meter(work)
    if norm == "l2":
        return _convex(energies, candidates, cover, meter)
    best, allowance = (REFUSED, np.ones(len(candidates))), FIRST_ROUND
    hop = partial(_hop, candidates=candidates, cover=cover, values=energies.values)
    while not meter.exhausted:  # a longer search takes the same steps first
        begun = meter.used
        first = _first_descents(
            energies, candidates, cover, generator, meter, starts, begun + allowance / 3
        )
        found = min(first, key=lambda one: one[0])
        found = _hopped(found, hop, generator, meter, begun + allowance)
        settled = abs(found[0] - best[0]) < GAIN  # two rounds that end alike
        best = min(best, found, key=lambda one: one[0])
        if settled:
            break
        best = _hopped(best, hop, generator, meter, meter.used + LONGER * allowance)
        starts, allowance = (), 2.0 * allowance
    weights = _without_negligible(best[1], cover, energies)
    return Weighted(candidates, weights, marginals_loss(weights, cover, energies, norm))


def _hopped(
    best: tuple[float, Array],
    hop: Callable[..., tuple[float, Array]],
    generator: np.random.Generator,
    meter: Meter,
    end: float,
) -> tuple[float, Array]:
    """Hop on from the best until a time has come, or many hops have found nothing."""
    idle, patience = 0, 40 + 4 * len(best[1])
    while not meter.exhausted and meter.used < end and idle < patience:
        found = hop(best, generator=generator, meter=meter)
        idle = 0 if found[0] < best[0] - GAIN else idle + 1
        best = found
    return best


def _convex(energies: Energies, candidates: Bools, cover: Cover, meter: Meter) -> Weighted:
    """Solve the "l2" problem; the number of iterations follows from the allowance."""
    squares = np.full(len(candidates), 1 / len(candidates))
    gap = np.inf
    for _ in range(12):
        _, squares = descend(squares, cover, energies.values, "l2", meter, 1000)
        _, gradient = log_loss(squares, cover, energies.values, "l2")
        gap = float(-gradient.min())  # the loss over its linear lower bound on the simplex
        if gap < 1e-6 or meter.exhausted:
            break
        squares = squares + 1e-4 / len(squares)
    weights = np.sqrt(squares / squares.sum())
    return Weighted(candidates, weights, marginals_loss(weights, cover, energies, "l2"), gap)


def _first_descents(
    energies: Energies,
    candidates: Bools,
    cover: Cover,
    generator: np.random.Generator,
    meter: Meter,
    starts: tuple[Array, ...],
    end: float,
) -> Iterator[tuple[float, Array]]:
    """Descend from given weights, then from random weights on the sets of about one size."""
    for start in (*starts, _smallest(energies, candidates)):
        yield _within(start, cover, energies.values, meter)
    sizes = candidates.sum(axis=1)
    smallest = int(energies.sets.sum(axis=1).max(initial=0))
    kinds = [np.ones(len(candidates), dtype=bool)] if len(candidates) <= 4096 else []
    kinds += [sizes == k for k in range(smallest, min(smallest + 4, candidates.shape[1] + 1))]
    for turn in range(40):
        for kind in kinds:
            if turn > 0 and (meter.used > end or meter.exhausted):
                return
            start = np.where(kind, generator.uniform(size=len(candidates)), 0.0)
            yield _within(start, cover, energies.values, meter)


def _within(
    start: Array, cover: Cover, values: Array, meter: Meter, iterations: int = 400
) -> tuple[float, Array]:
    """Descend over the sets of positive weight: the slope is never below zero at the others."""
    index = np.flatnonzero(start)
    part = cover.columns_of(index)
    if not len(index) or not (part.eigenvalues(start[index]) > 0).all():
        return REFUSED, start
    value, found = descend(start[index], part, values, "l1", meter, iterations)
    weights = np.zeros_like(start)
    weights[index] = found
    return value, weights


def _smallest(energies: Energies, candidates: Bools) -> Array:
    """Return cube-root weights on the smallest candidates around each maximal component.

    ``θ_S ∝ (w_U Π_{i ∈ S} n_i)^(1/3)``, the best where each component has a table of its own.
    """
    cells = set_cells(candidates, energies.sizes)
    value = dict(zip(map(bytes, energies.sets), energies.values, strict=True))
    row, around = contained(energies.maximal, candidates).tocoo().coords
    order = np.lexsort((around, cells[around], row))
    chosen = around[order][np.unique(row[order], return_index=True)[1]]
    values = np.array([value[bytes(needed)] for needed in energies.maximal])
    cubes = np.bincount(chosen, values * cells[chosen], minlength=len(candidates))
    return np.asarray(np.cbrt(cubes / cubes.max()))


def _hop(
    best: tuple[float, Array],
    candidates: Bools,
    cover: Cover,
    values: Array,
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
    found = _within(start, cover, values, meter, 300)
    return found if found[0] < value - 1e-9 else best


def neighbours(candidates: Bools, active: Ints) -> Ints:
    """Return the candidates that differ from an active one in at most two attributes."""
    table = candidates.astype(np.float32)
    inside = table[active] @ table.T
    count = table.sum(axis=1)
    distance = count[active][:, None] + count - 2 * inside
    return np.flatnonzero((distance <= 2).any(axis=0))


def _without_negligible(weights: Array, cover: Cover, energies: Energies) -> Array:
    best, value = weights, marginals_loss(weights, cover, energies, "l1")
    for threshold in (1e-9, 1e-7, 1e-5, 1e-4):
        trial = np.where(weights > threshold, weights, 0.0)
        found = marginals_loss(trial, cover, energies, "l1")
        if found <= value * (1 + 1e-12):
            best, value = trial, min(found, value)
    return np.asarray(best / best.sum())


MOST_STARTS = 20
ITERATIONS = 120
FEWEST_STEPS = 4
DIGITS = 12
"""Digits to which energies of rows are compared: rounding tells equal ones apart."""


@dataclass(frozen=True, eq=False)
class RowEnergies:
    """Energies of every kind of sum that is compared."""

    energies: Energies  # of all rows together
    table: scipy.sparse.csr_array  # (K, u): ``Σ_{i in G_k} ||w_i E_U||²/n``, distinct rows


def row_energies(problem: Problem) -> RowEnergies | None:
    """Return the distinct energies of the rows or groups of a problem; None without masks."""
    workload, groups = problem.workload, problem.aim.groups
    if isinstance(workload, Marginals) and groups is None:  # one kind of row for every table
        sizes = workload.domain_sizes
        parts = table_components(sizes, workload.attribute_sets, workload.weights)
        used = np.flatnonzero(parts.totals)
        table = scipy.sparse.csr_array(parts.energies[:, used])
        return RowEnergies(Energies(sizes, parts.sets[used], parts.totals[used]), table)
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
    return RowEnergies(
        Energies(rows.sizes, parts.sets[reached], parts.totals[reached]),
        scipy.sparse.csr_array(kinds[:, reached]),
    )


def optimise_worst(
    rows: RowEnergies,
    candidates: Bools,
    norm: Norm,
    generator: np.random.Generator,
    work: float,
    starts: tuple[Array, ...] = (),
) -> Weighted:
    """Return weights on candidate sets for the smallest largest error."""
    cover, meter = make_cover(rows.energies, candidates), Meter(work)
    count = len(candidates)
    power = 1 if norm == "l1" else 2
    given = [*(start**power for start in starts), np.full(count, 1.0 / count)]
    if norm == "l2":
        given.reverse()
    best, lowest = given[0], largest_error(given[0], cover, rows.table, norm)
    for turn in range(1 if norm == "l2" else MOST_STARTS + len(given)):
        if turn > 0 and meter.exhausted:
            break
        start = given[turn] if turn < len(given) else generator.exponential(size=count) ** 2
        index = np.flatnonzero(start)  # the slope is never below zero at the others
        part, found = cover.columns_of(index), np.zeros(count)
        found[index] = descend_worst(start[index], part, rows.table, norm, meter)
        value = largest_error(found, cover, rows.table, norm)
        if value < lowest:
            best, lowest = found, value
    best = best / best.sum()
    return Weighted(candidates, best if norm == "l1" else np.sqrt(best), lowest)


def evaluation_seconds(cover: Cover, count: int, entries: int = 0) -> float:
    return 7e-5 + 1.2 * cover.work + 1.2e-7 * count + 4e-9 * entries


def descend_worst(
    start: Array, cover: Cover, table: scipy.sparse.csr_array, norm: Norm, meter: Meter
) -> Array:
    """Descend on rising norms from weights θ ("l1") or θ² ("l2"), the best of the rounds."""
    each = evaluation_seconds(cover, len(start), table.nnz)
    left = max(meter.allowance / 2.0, meter.allowance - meter.used)
    steps = max(FEWEST_STEPS, min(ITERATIONS, int(left / (len(POWERS) * each))))
    weights, best = start / start.sum(), start
    lowest = largest_error(start, cover, table, norm)
    for power in POWERS:
        errors = ErrorNorm(np.arange(table.shape[0]), power)
        result = scipy.optimize.minimize(
            worst_log_loss,
            weights,
            args=(cover, table, norm, errors),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * len(weights),
            options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-10, "gtol": 1e-12},
        )
        meter.used += each * int(result.nfev)
        weights = result.x / result.x.sum()
        value = largest_error(weights, cover, table, norm)
        if value < lowest:
            best, lowest = weights, value
        weights = weights + 1e-5 / len(weights)  # a set that has left may return
    return best


def worst_log_loss(
    weights: Array, cover: Cover, table: scipy.sparse.csr_array, norm: Norm, errors: ErrorNorm
) -> tuple[float, Array]:
    """Return the log of the norm of all errors and its gradient in θ ("l1") or θ² ("l2")."""
    squares = weights * weights if norm == "l1" else weights
    eigenvalues = cover.eigenvalues(squares)
    if not (eigenvalues > 0).all():
        return REFUSED, np.zeros_like(weights)
    value, slopes = errors.log_value(table @ (1.0 / eigenvalues))
    slope = -cover.pull((slopes @ table) / eigenvalues**2)
    cost = weights.sum()
    if norm == "l1":
        return float(2 * np.log(cost) + value), 2 / cost + 2 * weights * slope
    return float(np.log(cost) + value), 1 / cost + slope


def largest_error(weights: Array, cover: Cover, table: scipy.sparse.csr_array, norm: Norm) -> float:
    """Return the largest error at weights θ ("l1") or θ² ("l2"); infinite where none is known."""
    eigenvalues = cover.eigenvalues(weights**2 if norm == "l1" else weights)
    if not (eigenvalues > 0).all():
        return float("inf")
    cost = weights.sum() ** 2 if norm == "l1" else weights.sum()
    return float(cost * (table @ (1.0 / eigenvalues)).max())
