"""Tables that share attributes but not rows, and Gaussian noise: frames with a weight for each row.

Along attribute i stand the rows t of an invertible ``T_i``, and every product of such rows has a
weight: ``AᵀA = Σ_k s_k ⊗ t_ki t_kiᵀ``. With ``B_i = T_i⁻¹`` and Grams G of the tables,

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

from strategies.methods.descents import REFUSED, log_norm, minimise, step_seconds
from strategies.methods.family import FEW_CELLS, Family, Search, factory
from strategies.operators import Dense, Kronecker, Operator, WeightedKronecker
from strategies.operators.base.arrays import Array, fits
from strategies.problem.problem import Problem
from strategies.problem.table_union import TableUnion, problem_union

MOST_CELLS = 2**15
POWERS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # exponents of D, round by round
STEPS = 120  # of each round
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
        kind = np.where(union.in_table, union.kind, [len(kinds) for kinds in union.kinds])
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


def along(sides: Sequence[Array], table: Array, skipped: int = -1) -> Array:
    """Return a table with a matrix (·, n_i) along every axis but one."""
    for axis, side in enumerate(sides):
        if axis != skipped:
            table = np.moveaxis(np.tensordot(side, table, (1, axis)), 0, axis)
    return table


def unfolded(table: Array, axis: int) -> Array:
    """Return a table as a matrix whose rows are an axis."""
    return np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)


@dataclass(frozen=True, eq=False)
class FramesValue:
    """The logarithm of ``error · ||D||_p``, and its gradient in frames and ``log s``, flat."""

    tables: Tables
    power: float

    def split(self, flat: Array) -> tuple[list[Array], Array]:
        """Return frames and ``log s``."""
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
        norms = along([one.T for one in squares], weights)
        error, largest = float((errors / weights).sum()), float(norms.max())
        if not (np.isfinite(error) and np.isfinite(largest) and error > 0):
            return REFUSED, np.zeros_like(flat)
        size, slope = log_norm(norms.ravel(), self.power)
        cells = slope.reshape(norms.shape)
        variances = 1.0 / weights / error
        slopes = [
            2.0
            * frame
            * (unfolded(along([s.T for s in squares], weights, i), i) @ unfolded(cells, i).T)
            - inverses[i].T @ self._error_slope(i, variances, sides, products) @ inverses[i].T
            for i, frame in enumerate(frames)
        ]
        rest = along(squares, cells) * weights - errors * variances
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
            mine = square * along(others, variances, i).ravel()
            whole += 2.0 * products[i][own[i]] * mine
        return whole


def best_weights(tables: Tables, frames: Sequence[Array]) -> tuple[Array, float]:
    """Return s for given frames, of largest column norm 1, and the error."""
    squares = [one**2 for one in frames]
    errors = tables.errors([linalg.inv(one) for one in frames])[0]
    cells = np.full(tables.sizes, 1.0 / prod(tables.sizes))
    best, kept = np.inf, np.ones(tables.sizes)
    for _ in range(WEIGHT_STEPS):
        seen = along(squares, cells)
        weights = np.sqrt(errors / seen)
        norms = along([one.T for one in squares], weights)
        loss = float((errors / weights).sum() * norms.max())
        if loss < best:
            best, kept = loss, weights / norms.max()
        if loss <= float(np.sqrt(errors * seen).sum()) ** 2 * (1.0 + GAP):
            break
        cells = cells * (norms / norms.max())
        cells /= cells.sum()
    return kept, best


def start_frames(tables: Tables) -> list[Array]:
    """Return the eigenvectors of every attribute's Grams together, as rows."""
    return [np.ascontiguousarray(linalg.eigh(np.sum(own, axis=0))[1].T) for own in tables.grams]


def in_bits(frame: Array, bits: int) -> Array:
    """Return rows as integers of some bits."""
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
    frames = start_frames(tables)
    flat = np.concatenate(
        [*(one.ravel() for one in frames), np.log(best_weights(tables, frames)[0]).ravel()]
    )
    steps = int(search.work / (len(POWERS) * step_of(problem)))
    for power in POWERS:
        value = FramesValue(tables, power)
        flat, _ = minimise(value, flat, max(1, min(STEPS, steps)))
    whole = [in_bits(one, min(MOST_BITS, BITS // len(frames))) for one in value.split(flat)[0]]
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


def least_seconds(problem: Problem) -> float:
    """Return the seconds of a few steps a round."""
    return 5.0 * len(POWERS) * step_of(problem)


def good_seconds(problem: Problem) -> float:
    """Return the seconds of all steps."""
    return STEPS * len(POWERS) * step_of(problem)


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
        least=least_seconds,
        good=good_seconds,
        worthwhile=is_worthwhile,
    )
