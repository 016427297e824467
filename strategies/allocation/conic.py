"""The conic programme of an allocation on cvxpy, in one scale, and the bound its duals prove.

With x_j the budget of row j, ``φ(x) = x⁻²`` for Laplace and ``x⁻¹`` for Gaussian noise:

    minimise z       M φ(x) <= z,   T φ(x) <= 1,   C x <= τ = 1,   user(x, τ)
    minimise τ                      T φ(x) <= 1,   C x <= τ,       user(x, τ)

For *any* prices u, v, p >= 0 and ν of the constraints, u in all 1, the Lagrangian falls apart into
functions of one variable: ``β_j φ(x_j) + c_j x_j`` with ``β = Mᵀu + Tᵀv`` and ``c = Cᵀp + `` the
slopes of ν's constraints. Each has its least value in closed form on the box in which every
solution lies, so the bound rests on none of the solver's tolerances.

Its tolerance is one for all budgets, and a tiny one may break an equality by much of itself. So
what it found is taken onto the constraints by the shortest steps in shares of the budgets, and
where that is not near the bound, becomes the units of a programme to solve again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

import numpy as np

from strategies.operators import Array, Norm
from strategies.operators.base.arrays import Bools
from strategies.operators.base.qr import minimum_norm

if TYPE_CHECKING:
    import cvxpy as cp

Constraints = Callable[["cp.Expression", "cp.Expression"], object]
STEPS = (0.99, 0.9)
"""Shares of the way to the boundary: where long steps run in circles, shorter ones end."""


def solve_conic(programme: "cp.Problem", *, certified: bool = False) -> None:
    """Solve a programme by Clarabel, an interior-point method (Goulart and Chen, 2024).

    Where a bound of one's own says how near the solution is (`certified`), one that misses the
    solver's tolerance will do.
    """
    import cvxpy as cp

    for share in STEPS:
        try:
            with catch_warnings():
                filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
                programme.solve(solver=cp.CLARABEL, max_step_fraction=share)
        except cp.SolverError as failure:
            raise RuntimeError(
                f"Clarabel failed: {failure} Expected constraints of about one scale."
            ) from failure
        if programme.status != cp.USER_LIMIT:
            break
    if programme.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
        raise ValueError("constraints: nothing meets all of them. Expected fewer or weaker ones.")
    enough = {cp.OPTIMAL, cp.OPTIMAL_INACCURATE} if certified else {cp.OPTIMAL}
    if programme.status not in enough:
        raise RuntimeError(
            f"Clarabel ended as {programme.status!r}. Expected constraints of about one scale, "
            f"which bound what is asked."
        )


def checked_affine(constraints: object) -> list["cp.Constraint"]:
    """Return a user's constraints as a list, or refuse what is no affine (in)equality."""
    from cvxpy.constraints import Equality, Inequality

    given = list(constraints) if isinstance(constraints, list | tuple) else [constraints]
    for one in given:
        if not isinstance(one, Equality | Inequality) or not one.expr.is_affine():
            raise TypeError(
                f"constraints returned {type(one).__name__} {str(one)[:80]}: expected a list of "
                f"affine cvxpy constraints, made with ==, <= or >=."
            )
    return given


@dataclass(frozen=True, eq=False)
class AffineRows:
    """A user's constraints: ``L y + c = 0``, or ``<= 0``, of y = (spent, total)."""

    slopes: Array  # (k, m + 1): L
    constants: Array  # (k,): c
    equal: Bools  # (k,): which are equalities

    @classmethod
    def of(cls, constraints: Constraints | None, m: int) -> "AffineRows":
        """Ask a user's function for his constraints, or refuse what is no affine (in)equality."""
        if constraints is None:
            return cls(np.zeros((0, m + 1)), np.zeros(0), np.zeros(0, dtype=bool))
        import cvxpy as cp
        from cvxpy.constraints import Equality

        known = cp.Variable(m), cp.Variable()
        rows = checked_affine(constraints(*known))
        for one in known:
            one.value = np.zeros(one.shape)
        for one in rows:
            if not set(one.variables()) <= set(known):
                raise TypeError(
                    f"constraints returned {str(one)[:80]}: expected no other variables than the "
                    f"rows' budgets and the total."
                )
        slopes = [np.concatenate([_slopes(one.expr, each) for each in known]).T for one in rows]
        constants = [np.ravel(one.expr.value, order="F") for one in rows]
        equal = [np.full(one.expr.size, isinstance(one, Equality)) for one in rows]
        return cls(
            np.concatenate([np.zeros((0, m + 1)), *slopes]),
            np.concatenate([np.zeros(0), *constants]),
            np.concatenate([np.zeros(0, dtype=bool), *equal]),
        )

    def rescale(self, units: Array) -> "AffineRows":
        """Return the same of y over units, every row over its largest number."""
        slopes = self.slopes * units
        largest = np.maximum(np.abs(slopes).max(axis=1), np.abs(self.constants))
        largest = np.where(largest > 0, largest, 1.0)
        return AffineRows(slopes / largest[:, None], self.constants / largest, self.equal)


def _slopes(expression: "cp.Expression", variable: "cp.Variable") -> Array:
    """Return the derivative of an affine expression (variable's size, expression's size)."""
    part = expression.grad.get(variable, 0.0)
    whole = part if np.isscalar(part) else part.toarray()
    return np.asarray(np.broadcast_to(whole, (variable.size, expression.size)))


ROUNDING = 1e-11
"""Share taken off a bound for the rounding of its sums."""
KEPT = 1e-10
"""Share of its largest term by which a constraint may be missed."""
CORRECTIONS = 12  # steps that take what a solver found onto the constraints
RESCALED = 6  # solutions, each in units of the one before
SOLVED = 1e-6  # distance of value and bound at which they end
LEAST = 1e-12  # share of the largest budget below which one is rounding
IDLE = 1e-7  # the same of a row that no answer takes: it may as well have none


@dataclass(frozen=True, eq=False)
class Programme:
    """An allocation to solve."""

    errors: Array  # (K, m): M; without rows the total τ is minimised
    targets: Array  # (L, m): T
    costs: Array  # (cells, m): C, of distinct rows
    power: int  # 2 for Laplace noise, 1 for Gaussian noise: ``φ(x) = x^-power``
    units: Array  # (m + 1,): a user's budgets and his total are these times (x, τ)
    scale: float  # what a user minimises is so many times ours
    asked: AffineRows  # of a user's budgets and total

    @classmethod
    def of(
        cls,
        errors: Array,
        targets: Array,
        costs: Array,
        norm: Norm,
        constraints: Constraints | None,
    ) -> "Programme":
        """Return the programme of M, T and C with equal costs of all rows near 1 in its units."""
        m, power = costs.shape[1], 2 if norm == "l1" else 1
        equal = 1.0 / costs.max(axis=0)
        even = float((costs @ equal).max())
        whole = cls(
            errors, targets, costs, power, np.ones(m + 1), 1.0, AffineRows.of(constraints, m)
        )
        if len(errors):
            return whole.rescale(np.append(equal / even, 1.0))
        unit = float((targets @ equal**-power).max()) ** (1.0 / power)
        return whole.rescale(np.append(unit * equal, unit * even))

    def rescale(self, y: Array) -> "Programme":
        """Return the programme in which y, given in the units of this one, is 1."""
        x, total = y[:-1], float(y[-1])
        noise = x ** -float(self.power)
        errors, scale = self.errors * noise, total
        if len(errors):
            scale = float(errors.sum(axis=1).max())
            errors = errors / scale
        return replace(
            self,
            errors=errors,
            targets=self.targets * noise,
            costs=self.costs * x / total,
            units=self.units * y,
            scale=self.scale * scale,
        )

    @cached_property
    def user_rows(self) -> AffineRows:
        return self.asked.rescale(self.units)

    def value(self, y: Array) -> float:
        """Return what is minimised, in a user's unit."""
        least = self.noise(self.errors, y).max() if len(self.errors) else y[-1]
        return self.scale * float(least)

    def noise(self, squares: Array, y: Array) -> Array:
        """Return ``squares · φ(x)``, for rows of squares."""
        used = squares.any(axis=0)
        return np.asarray(squares[:, used] @ y[:-1][used] ** -float(self.power))

    def solve(self) -> tuple[Array, float, float]:
        """Return the best budgets found, what they reach, and a bound on all others' value.

        In a user's units. A solver's tolerance is one for all budgets: where some are far below
        others, what it found becomes the units of a programme to solve again.

        Raises RuntimeError if constraints stay missed.
        """
        spent, value, bound, programme = np.zeros(0), np.inf, -np.inf, self
        for _ in range(RESCALED):
            try:
                y, prices = programme.solve_once()
            except RuntimeError:
                if value < np.inf:
                    break
                raise
            kept = programme.correct(y)
            if kept is not None:
                proved = programme.scale * programme.bound(prices, float(kept[-1]))
                bound, reached = max(bound, proved), programme.value(kept)
                if reached < value:
                    spent, value = programme.units[:-1] * kept[:-1], reached
            if value <= bound * (1 + SOLVED):
                break
            last = y if kept is None else kept
            programme = programme.rescale(np.where(last > 0, last, last.max()))
        if value == np.inf:
            raise RuntimeError(
                "Clarabel leaves constraints missed. Expected constraints of about one scale, "
                "which leave room for every budget."
            )
        return spent, value, bound

    def solve_once(self) -> tuple[Array, tuple[Array, ...]]:
        """Return (x, τ) up to the solver's tolerance, and its prices of M, T, C and the user's."""
        import cvxpy as cp

        m = self.costs.shape[1]
        y, largest = cp.Variable(m + 1, nonneg=True), cp.Variable()
        used = np.flatnonzero(self.errors.any(axis=0) | self.targets.any(axis=0))
        noise = cp.power(y[used], -self.power)
        aimed = [self.errors[:, used] @ noise <= largest] if len(self.errors) else []
        fixed = [y[m] == 1] if aimed else []
        own = self.user_rows
        equal, rows = own.equal, own.slopes @ y + own.constants
        given = [
            aimed,
            [self.targets[:, used] @ noise <= 1] if len(self.targets) else [],
            [self.costs @ y[:m] <= y[m]],
            [rows[equal] == 0] if equal.any() else [],
            [rows[~equal] <= 0] if not equal.all() else [],
        ]
        whole = [one for some in given for one in some]
        programme = cp.Problem(cp.Minimize(largest if aimed else y[m]), [*whole, *fixed])
        solve_conic(programme, certified=True)
        prices = [np.atleast_1d(one[0].dual_value) if one else np.zeros(0) for one in given]
        duals = np.zeros(len(equal))
        duals[equal], duals[~equal] = prices[3], np.maximum(prices[4], 0.0)
        largest_budget = np.abs(y.value).max()
        idle = y.value < IDLE * largest_budget
        idle[[*used, m]] = False  # of rows that no answer takes
        found = np.where(idle, 0.0, np.maximum(y.value, LEAST * largest_budget))
        if aimed:
            found[m] = 1.0
        return found, (*(np.maximum(one, 0.0) for one in prices[:3]), duals)

    def correct(self, y: Array) -> Array | None:
        """Return the nearest (x, τ) that keeps all constraints, None where no step leads there.

        Each step is the shortest, in shares of the budgets, that keeps what was missed so far.
        """
        others = np.zeros(len(self.costs) + len(self.targets), dtype=bool)
        equal = np.concatenate([self.user_rows.equal, others])
        missed = equal.copy()
        for _ in range(CORRECTIONS):
            values = self.misses(y)
            if (np.where(equal, np.abs(values), values) <= KEPT).all():
                return y
            missed |= values > 0
            step = minimum_norm(self.slopes(y, missed) * y, -values[missed], LEAST)
            y = y * np.exp(np.clip(step, -1.0, 1.0))
        return None

    def misses(self, y: Array) -> Array:
        """Return by how much constraints are missed, over their terms: own, costs, targets."""
        own = self.user_rows
        sizes = np.abs(own.slopes) @ y + np.abs(own.constants)
        shares = np.divide(own.slopes @ y + own.constants, sizes, where=sizes > 0, out=0.0 * sizes)
        costs = self.costs @ y[:-1] / y[-1] - 1.0
        return np.concatenate([shares, costs, self.noise(self.targets, y) - 1.0])

    def slopes(self, y: Array, chosen: Bools) -> Array:
        """Return the slopes of `misses` in (x, τ), of some: that of τ is 0 where it is fixed."""
        own, counts = self.user_rows, np.cumsum([len(self.user_rows.equal), len(self.costs)])
        mine, paid, aimed = np.split(chosen, counts)
        sizes = np.abs(own.slopes[mine]) @ y + np.abs(own.constants[mine])
        costs = np.column_stack([self.costs[paid], -self.costs[paid] @ y[:-1] / y[-1]]) / y[-1]
        noise = -self.power * self.targets[aimed] * y[:-1] ** -(self.power + 1.0)
        whole = np.concatenate(
            [own.slopes[mine] / sizes[:, None], costs, np.pad(noise, ((0, 0), (0, 1)))]
        )
        whole[:, -1] *= not len(self.errors)
        return np.asarray(whole)

    def bound(self, prices: tuple[Array, ...], most: float) -> float:
        """Return the least value of the Lagrangian over ``x >= 0``, ``C x <= most``."""
        shares, v, p, nu = prices
        u = shares / shares.sum() if len(shares) else shares
        slopes, constant = nu @ self.user_rows.slopes, float(nu @ self.user_rows.constants)
        noise = u @ self.errors + v @ self.targets
        of_total = float(slopes[-1] - p.sum()) + (0.0 if len(u) else 1.0)
        least = most * (of_total if len(u) else min(of_total, 0.0))
        ends = most / self.costs.max(axis=0)
        slope = p @ self.costs + slopes[:-1]
        bound = least_sums(noise, slope, ends, self.power) - float(v.sum()) + constant + least
        return bound - ROUNDING * abs(bound)


def least_sums(noise: Array, slope: Array, ends: Array, power: int) -> float:
    """Return ``Σ_j min_(0 <= x <= end_j) noise_j x^-power + slope_j x``.

    >>> least_sums(np.array([1.0]), np.array([4.0]), np.array([9.0]), 1)
    4.0
    """
    steep = (slope > 0) & (noise > 0)
    rising = np.where(steep, slope, 1.0)
    inner = np.where(steep, (power * noise / rising) ** (1 / (power + 1)), ends)
    x = np.minimum(inner, ends)
    values = np.where(
        noise > 0, noise * x ** -float(power) + slope * x, np.minimum(slope * ends, 0.0)
    )
    return float(values.sum())
