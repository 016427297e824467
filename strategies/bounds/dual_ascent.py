"""Weights on cells, and on groups of rows, that prove how good a strategy can be.

With ``WᵀW = FᵀF`` and M = F diag(y) Fᵀ (r x r) for a distribution y over the cells,

    value(y) = (tr M^(1/2))² = (||W diag(√y)||_*)²

is a lower bound on the loss of every strategy, of either norm, and ``A = M^(-1/4) F`` is a
strategy with L2 column norms ``√q``, ``q_i = f_iᵀ M^(-1/2) f_i``, and loss
``max q · tr M^(1/2)`` for "l2". Both meet at the maximum of the concave function tr M^(1/2), where
q equals tr M^(1/2) on the support of y. The update ``y ← y · (q / tr M^(1/2))`` climbs to it; with
the ratio squared it needs half as many steps, and a step that descends is taken again unsquared.

With rows R = C F (k x g), groups G_k of rows, weights λ of the groups and y of the cells, both
distributions, and u_i = λ_{g(i)},

    f(λ, y) = ||diag(√u) R diag(√y)||_* = min_X ½ (Σ_i u_i r_iᵀ X⁻¹ r_i + Σ_j y_j X_jj)

is a minimum of functions linear in (λ, y), so it is concave in both at once, and f² is a lower
bound on ``||A||² max_k Σ_{i in G_k} ||(W A⁺)_i||²`` of every strategy, of either norm. With
``H = Cᵀ diag(u) C = L Lᵀ`` and ``K = Lᵀ F diag(y) Fᵀ L`` (r x r) the minimum is at
``A = K^(-1/4) Lᵀ F``, ``X = AᵀA``, whose errors P_k and squared column norms q_j bound the optimum
for "l2" from above by ``max q · max P``. Both meet at the maximum of f, where P and q are f on the
support. The update ``λ ← λ (P/f)^1.5, y ← y q/f`` climbs; a step that descends is taken again with
exponent 1. One group of all rows is the total again.

Work allowances are in seconds of the reference machine. A climb is taken up again where it ended
once more work is allowed.

References
----------
Li, Miklau: Optimal error of query sets under the differentially-private matrix mechanism (2013),
the SVD bound (y uniform). Edmonds, Nikolov, Ullman: The power of factorization mechanisms in
local and central differential privacy (2020), the norm γ₂ and its dual.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg, sparse

from strategies.operators import Array, Gram, Operator
from strategies.operators.base.arrays import as_dense
from strategies.operators.base.operator import cached_per_value
from strategies.problem.determining_rows import DistinctRows
from strategies.problem.problem import Problem

MARGIN = 1e-9  # share taken off a reported bound for rounding, beside the eigenvalues' own error
RELAXED = 2.0  # exponent of the update; 1 climbs surely, 2 twice as fast


@dataclass(frozen=True, eq=False)
class Dual:
    """A distribution over the cells, and the bound that it proves."""

    weights: Array  # (g,): y, none negative, with sum 1
    root: float  # ``tr M^(1/2)``; its square bounds every loss from below
    ratios: Array  # (g,): squared L2 norms of the columns of ``M^(-1/4) F``

    @property
    def gap(self) -> float:
        """Relative distance of the strategy ``M^(-1/4) F`` from the optimum, for "l2"."""
        return float(self.ratios.max()) / self.root - 1.0


Proof = TypeVar("Proof", "Dual", "JointDual")


@dataclass(eq=False)
class Climb(Generic[Proof]):
    """Multiplicative updates of weights, which can be taken up again where they ended."""

    move: Callable[[Proof, float], Proof]  # from a proof and the update's exponent to the next
    last: Proof  # where the next update begins
    # Exponent to begin with. A step that descends is taken again with 1, which never does.
    power: float = RELAXED
    best: Proof = field(init=False)
    looked_at: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        self.best = self.last

    def run(self, tolerance: float, steps: int) -> Proof:
        """Return the best proof of a number looked at in all, or once its gap is small."""
        while self.looked_at < steps and self.best.gap > tolerance:
            self.looked_at += 1
            moved = self.move(self.last, self.power)
            if moved.root < self.last.root and self.power > 1.0:
                self.power = 1.0
                continue
            self.last = moved
            self.best = min(self.best, moved, key=lambda proof: proof.gap)
        return self.best


def uniform_climb(factor: Array) -> Climb[Dual]:
    def move(last: Dual, power: float) -> Dual:
        return assess_weights(factor, updated_weights(last, power))

    g = factor.shape[1]
    return Climb(move, assess_weights(factor, np.full(g, 1.0 / g)))


def ascend(factor: Array, tolerance: float, steps: int) -> Dual:
    """Return the best weights found in a number of updates, or once the gap is small."""
    return uniform_climb(factor).run(tolerance, steps)


def updated_weights(dual: Dual, power: float) -> Array:
    moved = dual.weights * (dual.ratios / dual.root) ** power
    return np.asarray(moved / moved.sum())


def assess_weights(factor: Array, weights: Array) -> Dual:
    values, vectors = moment_spectrum(factor, weights)
    columns = (vectors / np.sqrt(np.sqrt(values))).T @ factor
    ratios = np.einsum("ij,ij->j", columns, columns)
    return Dual(weights, float(np.sqrt(values).sum()), ratios)


def moment_spectrum(factor: Array, weights: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of M, kept off zero, and its eigenvectors."""
    moment = (factor * weights) @ factor.T
    values, vectors = linalg.eigh(moment, driver="evd", overwrite_a=True, check_finite=False)
    floor = len(values) * np.finfo(float).eps * values[-1]
    return np.maximum(values, floor), vectors


def gaussian_strategy(factor: Array, dual: Dual) -> Array:
    """Return ``M^(-1/4) F`` scaled to largest L2 column norm 1."""
    values, vectors = moment_spectrum(factor, dual.weights)
    return np.asarray((vectors / np.sqrt(np.sqrt(values))).T @ factor / np.sqrt(dual.ratios.max()))


def certified_bound(factor: Array, weights: Array) -> float:
    """Return the bound at given weights, rounded down so that it holds in exact arithmetic.

    Every eigenvalue of M is lowered by the error of a symmetric eigenvalue solver, and by that
    of the factorisation behind F, whose rows are orthogonal.
    """
    r, g = factor.shape
    values = linalg.eigvalsh((factor * weights) @ factor.T, check_finite=False)
    spread = float(np.einsum("ij,ij->i", factor, factor).max() * weights.max())
    error = 4 * np.finfo(float).eps * (r * values[-1] + g * spread)
    root = np.sqrt(np.maximum(values - error, 0.0)).sum()
    return float(root**2 * (1.0 - MARGIN))


JOINT_RELAXED = 1.5  # exponent of the update of the groups' weights; 1 climbs surely
LEAST = 1e-10  # least weight, in units of the mean: keeps every row within the strategy's reach


@dataclass(frozen=True, eq=False)
class JointDual:
    """Distributions over the groups of rows and over the cells, and their bound."""

    groups: Array  # (K,): λ
    cells: Array  # (g,): y
    root: float  # f; its square bounds every loss from below, up to rounding
    errors: Array  # (K,): P, the sums of errors of the strategy before it is scaled
    norms: Array  # (g,): q, its squared L2 column norms

    @property
    def gap(self) -> float:
        return float(self.errors.max() * self.norms.max()) / self.root**2 - 1.0


@cached_per_value
def joint_climb(problem: Problem, rows: DistinctRows) -> Climb[JointDual]:
    def move(last: JointDual, power: float) -> JointDual:
        groups = moved_weights(last.groups, last.errors / last.root, power)
        return assess_joint(rows, groups, moved_weights(last.cells, last.norms / last.root, 1.0))

    g, count = rows.rows.shape[1], rows.n_groups
    first = assess_joint(rows, np.full(count, 1.0 / count), np.full(g, 1.0 / g))
    return Climb(move, first, JOINT_RELAXED)


def moved_weights(weights: Array, ratios: Array, power: float, least: float = LEAST) -> Array:
    """Return a distribution after one multiplicative update, none of it vanishing.

    `least`: the least weight, in units of the mean.
    """
    moved = weights * ratios**power
    moved = np.maximum(moved / moved.sum(), least / len(moved))
    return np.asarray(moved / moved.sum())


def assess_joint(rows: DistinctRows, groups: Array, cells: Array) -> JointDual:
    half, scaled = weighted_factor(rows, groups)
    values, vectors = moment_spectrum(scaled, cells)
    fourth = np.sqrt(np.sqrt(values))
    columns = (vectors / fourth).T @ scaled
    solved = linalg.solve_triangular(half, rows.coordinates.T, lower=True, check_finite=False)
    inner = (vectors * fourth).T @ solved
    errors = np.einsum("ij,ij->j", inner, inner)
    norms = np.einsum("ij,ij->j", columns, columns)
    sums = np.asarray(np.bincount(rows.groups, weights=errors), dtype=np.float64)
    return JointDual(groups, cells, float(np.sqrt(values).sum()), sums, norms)


def weighted_factor(rows: DistinctRows, groups: Array) -> tuple[Array, Array]:
    """Return L (r, r) and ``Lᵀ F`` (r, g)."""
    inner = rows.coordinates
    gram = (inner.T * groups[rows.groups]) @ inner
    rounding = 4 * len(gram) * np.finfo(float).eps * gram.diagonal().max()
    gram[np.diag_indices_from(gram)] += rounding  # of full rank, whatever the weights
    half = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    return half, half.T @ rows.factor


def joint_strategy(rows: DistinctRows, dual: JointDual) -> Array:
    """Return ``K^(-1/4) Lᵀ F`` scaled to largest L2 column norm 1."""
    scaled = weighted_factor(rows, dual.groups)[1]
    return gaussian_strategy(scaled, Dual(dual.cells, dual.root, dual.norms))


def certified_joint_bound(rows: DistinctRows, dual: JointDual) -> float:
    """Return the bound at given weights, rounded down, from the rows themselves."""
    weights = dual.groups[rows.groups]
    k, g = rows.rows.shape
    if k <= g:
        return certified_bound(rows.rows * np.sqrt(weights)[:, None], dual.cells)
    return certified_bound(rows.rows.T * np.sqrt(dual.cells)[:, None], weights)


WORK = 4.0  # seconds that a bound may cost
LARGEST = 2600  # merged cells, or rows, up to which weights are climbed
MOST_STEPS = 400
JOINT_GAPS = ((5e-4, 1e-7), (0.1, 1e-4), (float("inf"), 5e-4))
"""Seconds of one step, and the gap at which a joint climb stops where it takes no longer."""
MOST_CELLS = 3500  # cells that carry weight where there are more
LONGEST = 60.0
"""Seconds that the first weights of a bound may cost. Two updates for 5 000 rows over 11 135 cells
prove 8 352 in 489 s, weights by length 8 400 in 13 s."""
SPEED = 6e10  # operations a second of the reference machine in matrix products

_TOTAL: "WeakKeyDictionary[Problem, Climb[Dual]]" = WeakKeyDictionary()


def total_dual(problem: Problem, factor: Array, tolerance: float, work: float) -> Dual:
    climb = _TOTAL.get(problem)
    if climb is None:
        climb = _TOTAL[problem] = uniform_climb(factor)
    return climb.run(tolerance, steps_within(update_seconds(factor), work))


def joint_dual(problem: Problem, rows: DistinctRows, work: float) -> JointDual:
    climb = joint_climb(problem, rows)
    seconds = joint_update_seconds(rows, len(rows.factor))
    tolerance = next(gap for most, gap in JOINT_GAPS if seconds <= most)
    return climb.run(tolerance, min(MOST_STEPS, steps_within(seconds, work)))


def climbable_rows(problem: Problem) -> DistinctRows | None:
    merging = problem.merging
    if problem.is_total or merging is None or merging.n_groups > LARGEST:
        return None
    rows = problem.distinct_rows
    return rows if rows is not None and len(rows.rows) <= 4 * LARGEST else None


def is_bearable(problem: Problem, g: int) -> bool:
    """Tell whether weights of g cells were climbed by a search, or are begun in bearable time."""
    r = min(problem.workload.shape[0], g)
    return problem in _TOTAL or factor_seconds(r, g) + 2.0 * moment_seconds(r, g) <= LONGEST


def steps_within(seconds: float, work: float) -> int:
    """Return how many updates of some seconds a work allowance covers, at least two."""
    return max(2, int(work / seconds))


def update_seconds(factor: Array) -> float:
    return moment_seconds(*factor.shape)


def moment_seconds(r: int, g: int) -> float:
    """Return the seconds of one spectrum of ``F diag(y) Fᵀ`` for F of shape (r, g)."""
    return float(1e-4 + (4.0 * r**2 * g + 25.0 * r**3) / SPEED)


def factor_seconds(r: int, g: int) -> float:
    """Return the seconds of a factor (r, g) of a workload's Gram on the reference machine."""
    return float((10.0 * r**2 * g + 25.0 * r**3) / SPEED)


def joint_update_seconds(rows: DistinctRows, rank: int | None = None) -> float:
    """Return the seconds of one update of both weights on the reference machine.

    For a rank of the rows, the largest possible by default: their factor takes as long again.
    """
    k, g = rows.rows.shape
    r = min(k, g) if rank is None else rank
    return float(1e-4 + r * r * (6.0 * (g + k) + 25.0 * r) / SPEED)


def root_traces(forms: Array, terms: int = 0) -> Array:
    """Return lower bounds of ``tr M^½`` for one or several M, sums of `terms` products.

    Every eigenvalue is lowered by the error of the solver and of the sums.
    """
    values = np.linalg.eigvalsh(forms)
    error = 8.0 * (values.shape[-1] + terms) * np.finfo(float).eps * values[..., -1:]
    return np.asarray(np.sqrt(np.maximum(values - error, 0.0)).sum(axis=-1))


def uniform_bound(gram: Array) -> float:
    """Return the bound for uniform weights, rounded down: the SVD bound ``||W||_*² / g``.

    One spectrum of the Gram ``WᵀW`` (g, g), without eigenvectors.
    """
    return float(root_traces(gram) ** 2 / len(gram) * (1.0 - MARGIN))


def heavy_bound(merged: Operator) -> float:
    """Return the bound for weights of cells that go by their columns' lengths to the fourth power.

    One spectrum of the rows' inner products: for few rows, whose cells are too many to climb on.
    """
    form, weights = merged.compact(), merged.column_norms("l2") ** 4
    gram = as_dense(form @ sparse.diags_array(weights / weights.sum()) @ form.T)
    return float(root_traces(gram, merged.shape[1]) ** 2 * (1.0 - MARGIN))


def sampled_gram(problem: Problem) -> Array:
    """Return the Gram over evenly spaced merged cells, at most `MOST_CELLS` of them.

    Weights on some of the cells only prove a bound too, at the price of a smaller spectrum.
    """
    merged, merging = problem.merged_workload, problem.merging
    if merged is None or merging is None:
        raise ValueError("workload is too large to enumerate: expected merged cells.")
    g = merging.n_groups
    if g <= MOST_CELLS and problem.gram is not None:
        return problem.gram
    cells = np.unique(np.linspace(0, g - 1, min(g, MOST_CELLS)).astype(np.int64))
    if isinstance(merged, Gram):
        return np.asarray(merged.array[np.ix_(cells, cells)])
    part = merged.columns(cells)
    return as_dense(part.T @ part)
