"""The workload's own rows: measured as they are, or each with a weight.

For ``A = diag(w) U`` with U the distinct nonzero rows of W and c their multiplicities,
``W A⁺ = W U⁺ diag(1/w)`` where U has independent rows, so the loss is

    max_j (sum_i w_i |u_ij|^p)^(2/p)  *  sum_i c_i / w_i²   (bounded by it where rows depend)

with p = 1 for "l1" and 2 for "l2". Rows that meet in every column get the cube-root law
``w ∝ c^(1/3)`` for "l1" and the fourth-root law ``w ∝ c^(1/4)`` for "l2". From there the weights
descend on the bound's right-hand side, with the maximum replaced by a p-norm; the problem is
convex in log w, so one descent finds it.
"""

from functools import partial

import numpy as np
from scipy import sparse

from strategies.methods.descents import log_norm, minimise
from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    Family,
    Search,
    always,
    checked_switch,
    evaluation_seconds,
    factory,
    is_unordered,
)
from strategies.operators import (
    Array,
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
)
from strategies.operators.explicit import dense_keys, sparse_keys
from strategies.operators.masks.packed_masks import unique_rows
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
SHARPNESS = (4.0, 16.0, 64.0, 256.0)
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


def applies(problem: Problem) -> bool:
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
    iterations = int(min(200.0, work * 1e8 / max(stored, 1) / len(SHARPNESS)))
    logs = np.log(balanced_weights(counts, norm))
    for sharpness in SHARPNESS if iterations > 0 else ():
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
        applies,
        partial(own_rows, weighted=weighted),
        share=0.5,
        least=least_seconds,
        worthwhile=lambda problem: is_unordered(problem, rank=LARGEST_RANK),
    )
