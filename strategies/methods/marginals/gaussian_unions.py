"""Families for unions of tables and Gaussian noise: residuals, joint tables, products with weights.

*Oblique residuals.* The search and its closed forms are those of `strategies.bounds.pinched_union`.
The rows of a frame may be turned at will; here they are a trapezoid, and plain attributes keep the
integer differences of codes, which no frame is better than.

*Joint tables.* Where a few rows are asked of each table, splitting them into totals and residuals
wastes budget: the sum form measures what they have in common (`strategies.bounds.sum_form`).

*Tables that share attributes but not rows.* Along attribute i stand the rows t of an invertible
``T_i``, and every product of such rows has a weight: ``AᵀA = Σ_k s_k ⊗ t_ki t_kiᵀ``. With
``B_i = T_i⁻¹`` and Grams G of the tables,

    error = Σ_k g_k / s_k,   g_k = Σ_T w_T² Π_i (B_iᵀ G_Ti B_i)_kk,
    squared column norms  D = (⊗ T_i∘T_i)ᵀ s.

For given frames that is convex in s. With weights λ of cells, ``h = (⊗ T_i∘T_i) λ`` and
``s = √(g/h)``, the largest D is least where λ stands on the largest alone: ``λ ← λ D / max D``.
Frames and s together descend on the logarithm of ``error · ||D||_p`` for growing p.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from scipy import linalg

from strategies.bounds.dual_ascent import LARGEST
from strategies.bounds.pinched_union import frames_fit, rows_fit, table_design
from strategies.bounds.sum_form import joint_design, least_seconds, problem_tables
from strategies.bounds.total_design import Frame
from strategies.methods.descents import REFUSED, log_norm, minimise, step_seconds
from strategies.methods.family import (
    BOTH_OBJECTIVES,
    FEW_CELLS,
    UNIONS,
    Family,
    Search,
    factory,
    require,
)
from strategies.operators import (
    Dense,
    Kronecker,
    ObliqueResiduals,
    Operator,
    TableStack,
    WeightedKronecker,
)
from strategies.operators.base.arrays import Array, fits
from strategies.operators.tables.oblique_residuals import differences
from strategies.problem.problem import Problem
from strategies.problem.table_union import TableUnion, problem_union


def best_oblique_residuals(problem: Problem, search: Search) -> Operator:
    union = require(problem_union(problem), UNIONS)
    design = require(table_design(problem, search.limit), UNIONS)
    factors = [Dense(np.zeros((1, size), dtype=np.int64)) for size in union.domain_sizes]
    scales = np.ones(union.count)
    known: dict[int, Dense] = {}
    for i, frame in enumerate(design.frames):
        if id(frame) not in known:
            known[id(frame)] = frame_rows(frame, i in union.moving_attributes)
        factors[union.attributes[i]] = known[id(frame)]
        scales[i] = known[id(frame)].sensitivity("l2")
    sets = [tuple(union.attributes[i] for i in chosen) for chosen in union.sets]
    weights = np.sqrt(design.shares) / np.where(union.set_members, scales, 1.0).prod(axis=1)
    return ObliqueResiduals(factors, sets, weights.tolist())


def frame_rows(frame: Frame, is_moving: bool) -> Dense:
    """Return the residual rows of a frame, differences of codes where all codes are alike."""
    if not is_moving:
        return Dense(differences(len(frame.weights)))
    rows = frame.rows()
    triangle = linalg.qr(rows, mode="r", check_finite=False)[0][: len(rows)]
    return Dense(np.asarray(triangle, dtype=np.float64))


def residuals_apply(problem: Problem) -> bool:
    union = problem_union(problem)
    return union is not None and frames_fit(union) and rows_fit(problem, union)


@factory
def oblique_residuals() -> Family:
    """Measure the parts of tables along the best directions: unions of products, Gaussian noise."""
    return Family(
        "oblique_residuals",
        "domain",
        frozenset({"l2"}),
        residuals_apply,
        best_oblique_residuals,
        share=4.0,
        objectives=BOTH_OBJECTIVES,
    )


def best_joint_tables(problem: Problem, search: Search) -> Operator:
    climb = require(joint_design(problem, search.limit), "several tables of moderate size")
    return TableStack(climb.shared.sizes, climb.shared.tables, climb.matrices())


def are_joint_tables_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: not on products over few cells.

    The optimum itself, and oblique residuals, serve those.
    """
    merging = problem.merging
    few = merging is not None and merging.n_groups <= LARGEST
    return not few or problem_union(problem) is None


@factory
def joint_tables() -> Family:
    """Measure overlapping tables by dense rows and answer on all together: Gaussian noise."""
    return Family(
        "joint_tables",
        "domain",
        frozenset({"l2"}),
        lambda problem: problem_tables(problem) is not None,
        best_joint_tables,
        share=4.0,
        least=least_seconds,
        good=least_seconds,
        worthwhile=are_joint_tables_worthwhile,
    )


MOST_CELLS = 2**15
POWERS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # exponents of D, round by round
LEAST_STEPS, STEPS = 5, 120  # of each round
BITS, MOST_BITS = 24, 10  # of entries of all frames together, and of one: weights have the rest
WEIGHT_STEPS = 1000  # of the weights of cells, at most
GAP = 1e-5  # of the weights, at which they are good
FULL = 1e-9  # least eigenvalue of an attribute's Grams, beside the largest


@dataclass(frozen=True, eq=False)
class Tables:
    """Grams of products over all attributes."""

    sizes: tuple[int, ...]
    squares: Array  # (tables,): w_T²
    grams: tuple[tuple[Array, ...], ...]  # of every attribute, its distinct Grams
    kind: tuple[tuple[int, ...], ...]  # (tables, attributes): which of them a table has

    @classmethod
    def of(cls, union: TableUnion) -> "Tables":
        """Return the Grams of a union, of which each attribute is restricted by some table."""
        ones = [np.ones((n, n)) for n in union.sizes]
        grams = [
            (*(kind.gram for kind in kinds), one)
            for kinds, one in zip(union.kinds, ones, strict=True)
        ]
        kind = np.where(union.table_members, union.kind, [len(kinds) for kinds in union.kinds])
        squares = (union.weights / union.weights.max()) ** 2
        return cls(union.sizes, squares, tuple(grams), tuple(map(tuple, kind.tolist())))

    def errors(
        self, inverses: Sequence[Array]
    ) -> tuple[Array, list[list[Array]], list[list[Array]]]:
        """Return g, and the diagonals of ``BᵀGB`` and ``GB`` of every attribute and Gram."""
        products = [[g @ b for g in own] for own, b in zip(self.grams, inverses, strict=True)]
        sides = [
            [np.einsum("xk,xk->k", b, one) for one in own]
            for own, b in zip(products, inverses, strict=True)
        ]
        parts = zip(self.squares, self.kind, strict=True)
        whole = sum(
            c * reduce(np.multiply.outer, [sides[i][k] for i, k in enumerate(own)])
            for c, own in parts
        )
        return np.asarray(whole), sides, products


def multiply_along(sides: Sequence[Array], table: Array, skipped: int = -1) -> Array:
    """Return a table with a matrix (·, n_i) along every axis but one."""
    for axis, side in enumerate(sides):
        if axis != skipped:
            table = np.moveaxis(np.tensordot(side, table, (1, axis)), 0, axis)
    return table


def unfold(table: Array, axis: int) -> Array:
    return np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)


@dataclass(frozen=True, eq=False)
class FramesValue:
    """The logarithm of ``error · ||D||_p``, and its gradient in frames and ``log s``, flat."""

    tables: Tables
    power: float

    def split(self, flat: Array) -> tuple[list[Array], Array]:
        sizes = self.tables.sizes
        ends = np.cumsum([n * n for n in sizes])
        *frames, logs = np.split(flat, ends)
        return [one.reshape(n, n) for one, n in zip(frames, sizes, strict=True)], logs.reshape(
            sizes
        )

    def __call__(self, flat: Array) -> tuple[float, Array]:
        frames, logs = self.split(flat)
        try:
            inverses = [linalg.inv(one, check_finite=False) for one in frames]
        except (linalg.LinAlgError, ValueError):
            return REFUSED, np.zeros_like(flat)
        weights = np.exp(logs)
        errors, sides, products = self.tables.errors(inverses)
        squares = [one**2 for one in frames]
        norms = multiply_along([one.T for one in squares], weights)
        error, largest = float((errors / weights).sum()), float(norms.max())
        if not (np.isfinite(error) and np.isfinite(largest) and error > 0):
            return REFUSED, np.zeros_like(flat)
        size, slope = log_norm(norms.ravel(), self.power)
        cells = slope.reshape(norms.shape)
        variances = 1.0 / weights / error
        slopes = [
            2.0
            * frame
            * (unfold(multiply_along([s.T for s in squares], weights, i), i) @ unfold(cells, i).T)
            - inverses[i].T @ self._error_slope(i, variances, sides, products) @ inverses[i].T
            for i, frame in enumerate(frames)
        ]
        rest = multiply_along(squares, cells) * weights - errors * variances
        return float(np.log(error)) + size, np.concatenate(
            [*(one.ravel() for one in slopes), rest.ravel()]
        )

    def _error_slope(
        self, i: int, variances: Array, sides: list[list[Array]], products: list[list[Array]]
    ) -> Array:
        """Return the slope of the error's logarithm in ``B_i``."""
        whole = np.zeros_like(products[i][0])
        for square, own in zip(self.tables.squares, self.tables.kind, strict=True):
            others = [sides[j][k][None, :] for j, k in enumerate(own)]
            mine = square * multiply_along(others, variances, i).ravel()
            whole += 2.0 * products[i][own[i]] * mine
        return whole


def best_weights(tables: Tables, frames: Sequence[Array]) -> tuple[Array, float]:
    """Return s for given frames, of largest column norm 1, and the error."""
    squares = [one**2 for one in frames]
    errors = tables.errors([linalg.inv(one) for one in frames])[0]
    cells = np.full(tables.sizes, 1.0 / prod(tables.sizes))
    best, kept = np.inf, np.ones(tables.sizes)
    for _ in range(WEIGHT_STEPS):
        seen = multiply_along(squares, cells)
        weights = np.sqrt(errors / seen)
        norms = multiply_along([one.T for one in squares], weights)
        loss = float((errors / weights).sum() * norms.max())
        if loss < best:
            best, kept = loss, weights / norms.max()
        if loss <= float(np.sqrt(errors * seen).sum()) ** 2 * (1.0 + GAP):
            break
        cells = cells * (norms / norms.max())
        cells /= cells.sum()
    return kept, best


def round_to_bits(frame: Array, bits: int) -> Array:
    scaled = frame / np.abs(frame).max(axis=1, keepdims=True)
    return np.asarray(np.rint(2.0**bits * scaled))


def step_of(problem: Problem) -> float:
    """Return the seconds of one step: products along every axis, of a few arrays of the cells."""
    union = problem_union(problem)
    sizes = () if union is None else union.sizes
    cells, cubes = prod(sizes), sum(n**3 for n in sizes)
    kinds = 1 if union is None else max(map(len, union.kinds)) + 1
    operations = 12.0 * cells * sum(sizes) + 8.0 * kinds * cubes
    return step_seconds(operations, cells + sum(n * n for n in sizes))


def weighted_products(problem: Problem, search: Search) -> Operator:
    """Return products of frames with a weight for every row.

    Raises ValueError if the workload is no union of tables that share attributes but not rows.
    """
    union = problem_union(problem)
    if union is None or not frames_apply(problem):
        raise ValueError(
            f"workload {problem.workload!r} is no union of Kronecker products that differ along "
            f"attributes they share: expected a Stack of Kronecker over at most {MOST_CELLS} cells."
        )
    tables = Tables.of(union)
    spectra = [linalg.eigh(np.sum(own, axis=0))[1] for own in tables.grams]
    frames = [np.ascontiguousarray(vectors.T) for vectors in spectra]
    flat = np.concatenate(
        [*(one.ravel() for one in frames), np.log(best_weights(tables, frames)[0]).ravel()]
    )
    steps = int(search.work / (len(POWERS) * step_of(problem)))
    for power in POWERS:
        value = FramesValue(tables, power)
        flat, _ = minimise(value, flat, max(1, min(STEPS, steps)))
    whole = [
        round_to_bits(one, min(MOST_BITS, BITS // len(frames))) for one in value.split(flat)[0]
    ]
    weights, _ = best_weights(tables, whole)
    factors = [Dense(one.astype(np.int64)) for one in whole]
    for i, size in enumerate(union.domain_sizes):
        if i not in union.attributes:
            factors.insert(i, Dense(np.ones((size, size), dtype=np.int64)))
    return WeightedKronecker(np.sqrt(weights).ravel(), Kronecker(factors))


def frames_apply(problem: Problem) -> bool:
    """Tell whether tables of full rank differ along two attributes, over moderate cells."""
    union = problem_union(problem)
    if union is None or not problem.is_total or prod(union.domain_sizes) > MOST_CELLS:
        return False
    differ = sum(len(kinds) > 1 for kinds in union.kinds)
    others = prod(union.domain_sizes) // prod(union.sizes)
    if differ < 2 or others > 1 or not fits((max(union.sizes),) * 2, 64):
        return False
    spectra = (linalg.eigvalsh(np.sum(own, axis=0)) for own in Tables.of(union).grams)
    return all(one[0] > FULL * one[-1] for one in spectra)


def is_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: where the optimum over all cells is out of reach."""
    return problem.merging is None or problem.merging.n_groups > FEW_CELLS


@factory
def weighted_kronecker() -> Family:
    """Measure products of rows with a weight each: tables that share attributes but not rows."""
    return Family(
        "weighted_kronecker",
        "domain",
        frozenset({"l2"}),
        frames_apply,
        weighted_products,
        share=4.0,
        least=lambda problem: LEAST_STEPS * len(POWERS) * step_of(problem),
        good=lambda problem: STEPS * len(POWERS) * step_of(problem),
        worthwhile=is_worthwhile,
    )
