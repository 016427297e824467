"""Weights of given rows: the workload's own as they are or weighted, and any candidates.

*By a bound.* For ``A = diag(w) U`` with U the distinct nonzero rows of W and c their
multiplicities, ``W A⁺ = W U⁺ diag(1/w)`` where U has independent rows, so the loss is

    max_j (sum_i w_i |u_ij|^p)^(2/p)  *  sum_i c_i / w_i²   (bounded by it where rows depend)

with p = 1 for "l1" and 2 for "l2". Rows that meet in every column get the cube-root law
``w ∝ c^(1/3)`` for "l1" and the fourth-root law ``w ∝ c^(1/4)`` for "l2". From there the weights
descend on the bound's right-hand side, with the maximum replaced by a p-norm; the problem is
convex in log w, so one descent finds it.

*By the loss.* With candidate rows N, weights w of their groups, ``A = diag(w) N`` and ``c_l`` the
column sums of ``|N|^p`` over group l,

    loss(w) = max_i (Σ_l w_l^p c_li)^(2/p) · tr F (Nᵀ diag(w²) N)⁻¹ Fᵀ      (p = 1 or 2)

is descended on over log w, with the maximum over columns replaced by a norm that sharpens round by
round. Rows that end with a negligible weight are left out.

So the workload's own rows are weighed beside the cells, each its own, for the smallest largest
error under Laplace noise. One weight for all nodes of a level of trees finds weights of levels. The
problem has many local minima in which other rows are left out, so descents start from several
weights of rows by their length. For Gaussian noise the optimum is known at these sizes
(`strategies.methods.gaussian_optimal`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from strategies.methods.descents import (
    REFUSED,
    TOTAL,
    ErrorNorm,
    descent_target,
    log_norm,
    minimise,
    step_seconds,
)
from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    Family,
    Search,
    always,
    checked_switch,
    evaluation_seconds,
    explicit_seconds,
    factory,
    is_unordered,
    require,
)
from strategies.operators import (
    Array,
    Dense,
    Gram,
    Marginals,
    MemoryCapError,
    Norm,
    Operator,
    Product,
    RowKronecker,
    RowScaled,
    Scaled,
    as_operator,
    check_allocation,
)
from strategies.operators.base.arrays import Longs
from strategies.operators.base.qr import qr_triangle
from strategies.operators.explicit import dense_keys, sparse_keys
from strategies.operators.masks.packed_masks import unique_rows
from strategies.problem.merging import merge_columns
from strategies.problem.problem import Problem

OWN_ROWS = Family(
    "workload_itself",
    "domain",
    BOTH_NORMS,
    always,
    lambda problem, _: problem.workload,
    objectives=BOTH_OBJECTIVES,
)
"""The workload measured as it is: what every result has to be as good as."""


def own_loss(problem: Problem) -> float:
    """Return the loss of noise on each row of the workload itself, ``||W||² · rows``.

    For the worst row or group, the rows of the largest group.
    """
    workload = problem.workload
    if isinstance(workload, Gram):  # its rows are not known
        return float("inf")
    return problem.own_sensitivity**2 * float(problem.aim.most_rows(workload.shape[0]))


TABLE_SECONDS = 5e-5  # seconds of an evaluation for every table
LARGEST_ROW_GRAM = 3000
"""Distinct rows up to which a domain too large to enumerate is served through row Grams."""
LARGEST_RANK = 1000  # for Laplace noise, where nobody asks for it: it seldom wins above
MOST_ENTRIES = 4 * 10**6  # entries of dense rows that are compared and weighed one by one
BOUND_SHARPNESS = (4.0, 16.0, 64.0, 256.0)
"""Exponents of the p-norm that stands in for the largest column sum, round by round."""


def own_rows(problem: Problem, search: Search, weighted: bool = True) -> Operator:
    """Return the distinct rows of the workload with optimised weights, or as they are."""
    if not weighted:
        return problem.workload
    if isinstance(problem.workload, Marginals):
        return weighted_tables(problem.workload, problem.norm)
    rows, counts = distinct_rows(problem)
    if problem.merging is None:
        return RowScaled(balanced_weights(counts, problem.norm), rows)
    weights = optimised_weights(rows, counts, problem.norm, search.work)
    return problem.merging.invert(RowScaled(weights, rows))


def weighted_tables(workload: Marginals, norm: Norm) -> Marginals:
    """Return tables with the best weights: every column meets every table once."""
    cells = np.array([float(count) for count in workload.rows])
    weights = balanced_weights(cells * np.square(workload.weights), norm)
    return Marginals(workload.domain_sizes, workload.attribute_sets, weights.tolist())


def has_own_rows(problem: Problem) -> bool:
    """Tell whether the rows are at hand, and few enough where only row Grams can serve."""
    if isinstance(problem.workload, Marginals):
        return True
    merged = problem.merged_workload
    if merged is not None:
        return merged.prefers_sparse or merged.entries <= MOST_ENTRIES
    inner = path_rows(problem.workload)
    return inner is not None and inner.unique_rows()[0].shape[0] <= LARGEST_ROW_GRAM


def path_rows(workload: Operator) -> RowKronecker | None:
    """Return the 0/1 rows behind a workload too large to enumerate, None where there are none."""
    while isinstance(workload, Scaled | RowScaled | Product):
        workload = workload.right if isinstance(workload, Product) else workload.inner
    return workload if isinstance(workload, RowKronecker) else None


def distinct_rows(problem: Problem) -> tuple[Operator, Array]:
    """Return the distinct nonzero rows of a workload, and how often each occurs."""
    merged = problem.merged_workload
    if merged is None:
        paths = path_rows(problem.workload)
        if paths is None:
            raise MemoryCapError("workload is too large to enumerate and has no 0/1 paths.")
        rows, _, counts = paths.unique_rows()
        return rows, counts.astype(float)
    form = merged.compact()
    keys = dense_keys(form.T) if isinstance(form, np.ndarray) else sparse_keys(form.T.tocsc())
    first, number = unique_rows(keys)
    kept = np.asarray(abs(form[first]).sum(axis=1)) > 0
    return as_operator(form[first[kept]]), np.bincount(number)[kept].astype(float)


def balanced_weights(counts: Array, norm: Norm) -> Array:
    """Return the weights that are optimal where every column meets every row alike."""
    return np.asarray(counts ** (1 / 3 if norm == "l1" else 1 / 4))


def optimised_weights(rows: Operator, counts: Array, norm: Norm, work: float) -> Array:
    """Return row weights that minimise the smoothed loss, within a fixed number of iterations."""
    form = abs(rows.compact().astype(np.float64))
    powers = form if norm == "l1" else form * form
    stored = int(getattr(powers, "nnz", powers.size))
    iterations = int(min(200.0, work * 1e8 / max(stored, 1) / len(BOUND_SHARPNESS)))
    logs = np.log(balanced_weights(counts, norm))
    for sharpness in BOUND_SHARPNESS if iterations > 0 else ():
        value = partial(
            smoothed_loss,
            powers=powers,
            counts=counts,
            power=1 if norm == "l1" else 2,
            sharpness=sharpness,
        )
        logs, _ = minimise(value, logs, iterations)
    return np.asarray(np.exp(logs - logs.max()))


def smoothed_loss(
    logs: Array, powers: Array | sparse.csr_array, counts: Array, power: int, sharpness: float
) -> tuple[float, Array]:
    """Return the log of the loss bound at weights ``exp(logs)``, and its gradient.

    ``(2/p) log ||sum_i w_i^p |u_ij|^p||_s + log sum_i c_i / w_i²``, a convex function of the
    logs: both terms are logs of sums of exponentials.
    """
    weights = np.exp(power * logs)
    top, column = log_norm(powers.T @ weights, sharpness)
    errors = counts * np.exp(-2 * logs)
    value = 2 / power * top + np.log(errors.sum())
    gradient = 2 * weights * (powers @ column) - 2 * errors / errors.sum()
    return float(value), np.asarray(gradient)


def least_seconds(problem: Problem) -> float:
    if isinstance(problem.workload, Marginals):
        return TABLE_SECONDS * len(problem.workload.attribute_sets)
    rows, merging = problem.workload.shape[0], problem.merging
    return evaluation_seconds(problem, rows if merging is None else min(rows, 2 * merging.n_groups))


@factory
def workload_itself(*, weighted: bool = True) -> Family:
    """Measure the workload's own distinct rows, each with its own weight.

    Parameters
    ----------
    weighted : bool, default=True
        False measures every row as it is.
    """
    checked_switch("weighted", weighted)
    return Family(
        "workload_itself",
        "domain",
        BOTH_NORMS,
        has_own_rows,
        partial(own_rows, weighted=weighted),
        share=0.5,
        least=least_seconds,
        worthwhile=lambda problem: is_unordered(problem, rank=LARGEST_RANK),
    )


SHARPNESS = (8.0, 40.0, 200.0, 1000.0)  # exponents of the norm over column sums, round by round
PRUNED = 5e-4  # share of the largest weight below which a row is left out
LEAST_LOG = -8.5  # least log-weight, so that systems stay regular
RANK = 1e-10  # share of the largest eigenvalue of the workload's Gram below which one is rounding
ITERATIONS = 25  # of weights that are shared
LARGEST = 300  # rank up to which those are descended; above, the best start is returned
LARGEST_LOG = 200.0  # largest log-weight that a line search may try, so that squares stay finite


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows to weigh by groups, and the workload's factor."""

    rows: Array  # (m, r): N, of full column rank
    factor: Array  # (k, r): F with ``FᵀF = WᵀW``, or the workload's rows
    groups: Longs  # (m,): of every row, from 0 up
    sums: Array  # (groups, g): c
    norm: Norm = "l1"
    errors: ErrorNorm = TOTAL  # what is minimised of the errors of F's rows

    @classmethod
    def per_row(cls, rows: Array, factor: Array, errors: ErrorNorm) -> "Candidates":
        """Return rows with a weight each, for Laplace noise."""
        return cls(rows, factor, np.arange(len(rows)), np.abs(rows), errors=errors)

    @classmethod
    def per_group(
        cls, workload: RowKronecker, rows: RowKronecker, labels: NDArray[np.int32], norm: Norm
    ) -> "Candidates":
        """Return 0/1 rows that are sums of the workload's, labels from 0 up, in its row space.

        A triangle stands for all rows of a group.

        Raises MemoryCapError if the triangles exceed the memory cap.
        """
        merging, groups = merge_columns(workload), int(labels.max()) + 1
        check_allocation(
            "Grams of groups of rows", (groups + 2, merging.n_groups, merging.n_groups)
        )
        distinct, number, _ = rows.unique_rows()
        over = merging.apply(distinct).to_dense()
        counts = np.zeros((groups, len(over)))
        np.add.at(counts, (labels, number), 1.0)
        values, vectors = linalg.eigh(merging.apply(workload).gram_dense())
        kept = values > RANK * values[-1]
        inner = over @ vectors[:, kept]
        levels = [(count[count > 0], inner[count > 0]) for count in counts]
        parts = [qr_triangle(np.sqrt(count)[:, None] * own) for count, own in levels]
        group = np.repeat(np.arange(groups), [len(part) for part in parts])
        factor = np.diag(np.sqrt(values[kept]))
        return cls(np.concatenate(parts), factor, group, counts @ over, norm)


def weights_value(logs: Array, candidates: Candidates, sharpness: float) -> tuple[float, Array]:
    """Return the log of the smoothed loss at weights ``exp(logs)``, and its gradient."""
    power = 1 if candidates.norm == "l1" else 2
    weights = np.exp(np.clip(logs, LEAST_LOG, LARGEST_LOG))
    weighted = candidates.rows * weights[candidates.groups][:, None]
    triangle, info = linalg.lapack.dpotrf(weighted.T @ weighted, lower=True, overwrite_a=True)
    if info != 0:
        return REFUSED, np.zeros_like(logs)
    solved = linalg.lapack.dpotrs(triangle, candidates.factor.T, lower=True)[0]
    squares = (weighted @ solved) ** 2
    log_error, slopes = candidates.errors.log_value(squares.sum(axis=0))
    pulls = np.bincount(candidates.groups, squares @ slopes, len(logs))
    paid = weights[:, None] ** power * candidates.sums
    column, slope = log_norm(paid.sum(axis=0), sharpness)
    gradient = 2.0 * paid @ slope - 2.0 * pulls
    return 2.0 / power * column + log_error, np.where(
        (logs > LEAST_LOG) & (logs < LARGEST_LOG), gradient, 0.0
    )


def descend_on_logs(candidates: Candidates, logs: Array, iterations: int) -> Array:
    """Return log-weights, the largest 0, after every round of a number of iterations."""
    for sharpness in SHARPNESS:
        sharper = replace(candidates, errors=candidates.errors.at(sharpness))
        value = partial(weights_value, candidates=sharper, sharpness=sharpness)
        logs = minimise(value, logs, iterations)[0]
        logs = logs - logs.max()
    return np.maximum(logs, LEAST_LOG)


def shared_weights(candidates: Candidates, starts: Sequence[Array]) -> Array:
    """Return the best weights found from some starts, the largest 1, negligible ones 0."""

    def loss(logs: Array) -> float:
        return weights_value(logs, candidates, np.inf)[0]

    logs = [np.log(np.maximum(one / one.max(), np.exp(LEAST_LOG))) for one in starts]
    if candidates.rows.shape[1] <= LARGEST:
        best = sorted(logs, key=loss)[:2]
        logs += [descend_on_logs(candidates, one, ITERATIONS) for one in best]
    weights = np.exp(min(logs, key=loss))
    return np.where(weights > PRUNED * weights.max(), weights / weights.max(), 0.0)


def descend_on_weights(
    candidates: Candidates, weights: Array, iterations: int
) -> tuple[Array, Array]:
    """Return all rows' weights, and the weighted rows without those of negligible weight."""
    weights = np.exp(descend_on_logs(candidates, np.log(weights / weights.max()), iterations))
    found = np.where(weights > PRUNED * weights.max(), weights, 0.0)
    kept = candidates.rows[found > 0] * found[found > 0, None]
    if np.linalg.matrix_rank(kept) < kept.shape[1]:  # pruned rows were needed after all
        kept = candidates.rows * weights[:, None]
    return weights, np.asarray(kept)


def matrix_loss(candidates: Candidates, matrix: Array) -> float:
    """Return the loss of a matrix of full column rank on the candidates' workload."""
    triangle, info = linalg.lapack.dpotrf(matrix.T @ matrix, lower=True, overwrite_a=True)
    if info != 0:
        return float("inf")
    half = linalg.solve_triangular(triangle, candidates.factor.T, lower=True)
    largest = np.abs(matrix).sum(axis=0).max()
    return float(largest**2 * candidates.errors.value(np.einsum("ij,ij->j", half, half)))


MOST_CELLS = 500  # merged cells up to which the family is worth its systems
MOST_ROWS = 1500
MOST_STARTS = 12
FAMILY_ITERATIONS = 60
TRIAL = 15


def own_weighted_rows(problem: Problem, search: Search) -> Operator:
    rows, errors = require(descent_target(problem))
    g = rows.shape[1]
    several = rows[(rows != 0).sum(axis=1) > 1]
    scaled = several / np.abs(several).max(axis=1, keepdims=True)
    candidates = Candidates.per_row(np.concatenate([scaled, np.eye(g)]), rows, errors)
    affordable = int(search.work / (cost(len(candidates.rows), len(rows), g) * len(SHARPNESS)))
    count, trial = affordable // (2 * TRIAL), max(1, min(TRIAL, affordable // 2))
    trials = [
        descend_on_weights(candidates, start, trial)
        for start in starts(candidates.rows, search.generator, min(MOST_STARTS, max(1, count)))
    ]
    weights, best = min(trials, key=lambda trial: matrix_loss(candidates, trial[1]))
    steps = min(FAMILY_ITERATIONS, affordable // 2)
    last = descend_on_weights(candidates, weights, steps)[1] if steps > 0 else best
    return Dense(min((best, last), key=lambda one: matrix_loss(candidates, one)))


def cost(m: int, k: int, g: int) -> float:
    return step_seconds(2.0 * m * g * g + g**3 + 2.0 * k * g * (g + m), m * g // 4)


def starts(rows: Array, generator: np.random.Generator, count: int) -> list[Array]:
    lengths = np.unique(np.abs(rows).sum(axis=1).round(9), return_inverse=True)[1]
    drawn = [np.exp(generator.normal(0.0, 2.0, lengths.max() + 1))[lengths] for _ in range(count)]
    return [np.ones(len(rows)), *drawn[1:]]


def has_few_rows(problem: Problem) -> bool:
    if problem.merging is None or problem.merging.n_groups > MOST_CELLS:
        return False
    rows = problem.distinct_rows
    return rows is not None and len(rows.rows) <= MOST_ROWS


@factory
def weighted_rows() -> Family:
    """Measure the workload's rows and the cells, weighed for the worst row: Laplace noise."""
    return Family(
        "weighted_rows",
        "merged",
        frozenset({"l1"}),
        has_few_rows,
        own_weighted_rows,
        objectives=frozenset({"max"}),
        least=explicit_seconds,
    )
