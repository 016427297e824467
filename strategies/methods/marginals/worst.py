"""Weights of marginals for the smallest largest error of a row, or of a group of rows.

Row i has the error ``Σ_U ||w_i E_U||²/(n λ_U)``, and rows of one table have the same, so the
problem has as many unknowns as attribute sets and as many errors as kinds of rows, over domains
of any size. The largest error is descended on as a rising p-norm: for "l2" it is convex in
``t = θ²`` and one descent finds it, for "l1" several start from weights drawn at random.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from strategies.methods.descents.error_norm import POWERS, ErrorNorm
from strategies.methods.marginals.algebra import Cover, make_cover
from strategies.methods.marginals.optimiser import INFEASIBLE, Meter, Weighted
from strategies.operators import Array, Marginals, Norm, fits
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.components import components, mask_rows, table_components
from strategies.operators.masks.energies import Energies
from strategies.problem.problem import Problem

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
    """Return weights on candidate sets for the smallest largest error.

    `candidates`: (K, d), attribute sets that may be measured; together they must contain every
    component; `work`: seconds of the reference machine; `starts`: (K,), weights θ to start from
    besides the even and the random ones.
    """
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


def evaluation_seconds(cover: Cover, table: scipy.sparse.csr_array, count: int) -> float:
    """Return the seconds of the largest error and its slope at `count` weights."""
    return 7e-5 + 1.2 * cover.work + 1.2e-7 * count + 1e-5 + 4e-9 * float(table.nnz)


def descend_worst(
    start: Array, cover: Cover, table: scipy.sparse.csr_array, norm: Norm, meter: Meter
) -> Array:
    """Descend on rising norms from weights θ ("l1") or θ² ("l2"), the best of the rounds."""
    each = evaluation_seconds(cover, table, len(start))
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
        meter.used += evaluation_seconds(cover, table, len(weights)) * int(result.nfev)
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
        return INFEASIBLE, np.zeros_like(weights)
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
