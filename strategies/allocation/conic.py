"""The conic programme of an allocation on cvxpy, in one scale, and the bound its duals prove.

With x_j the budget of row j, ``φ(x) = x⁻²`` for Laplace and ``x⁻¹`` for Gaussian noise:

    minimise z       M φ(x) <= z,   T φ(x) <= 1,   C x <= τ = 1,   user(x, τ)
    minimise τ                      T φ(x) <= 1,   C x <= τ,       user(x, τ)

For *any* prices u, v, p >= 0 and ν of the constraints, u in all 1, the Lagrangian falls apart into
functions of one variable: ``β_j φ(x_j) + c_j x_j`` with ``β = Mᵀu + Tᵀv`` and ``c = Cᵀp + `` the
slopes of ν's constraints. Each has its least value in closed form on the box in which every
solution lies, so the bound rests on none of the solver's tolerances.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

import numpy as np

from strategies.operators import Array, Norm

if TYPE_CHECKING:
    import cvxpy as cp

STEPS = (0.99, 0.9)
"""Shares of the way to the boundary: where long steps run in circles, shorter ones end."""


def solve_conic(programme: "cp.Problem", *, certified: bool = False) -> None:
    """Solve a programme by Clarabel, an interior-point method (Goulart and Chen, 2024).

    `certified`: whether a bound of one's own says how near the solution is: then one that misses
    the solver's tolerance will do.

    Raises ValueError if nothing meets its constraints; RuntimeError if the solver does not reach
    its own tolerance.
    """
    import cvxpy as cp

    for share in STEPS:
        try:
            with catch_warnings():
                filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
                programme.solve(solver=cp.CLARABEL, max_step_fraction=share)
        except cp.SolverError as failure:
            raise RuntimeError(f"Clarabel failed: {failure}") from failure
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


def lagrangian_part(
    constraints: list["cp.Constraint"], variables: list["cp.Variable"]
) -> tuple[list[Array], float]:
    """Return slopes and constant of ``Σ_k ν_k g_k(x)`` at the duals ν of solved constraints.

    Affine ``g_k(x) <= 0`` or ``= 0``; duals of the former are cut off at 0. Overwrites values.
    """
    import cvxpy as cp
    from cvxpy.constraints import Inequality

    constant, slopes = 0.0, [np.zeros(one.size) for one in variables]
    duals = [np.asarray(one.dual_value) for one in constraints]
    for one in variables:
        one.value = np.zeros(one.shape)
    for one, dual in zip(constraints, duals, strict=True):
        price = np.maximum(dual, 0.0) if isinstance(one, Inequality) else dual
        term = cp.sum(cp.multiply(price, one.expr))
        constant += float(term.value)
        for slope, variable in zip(slopes, variables, strict=True):
            part = term.grad.get(variable, 0.0)
            slope += part if np.isscalar(part) else part.toarray().ravel()
    return slopes, constant


Constraints = Callable[["cp.Expression", "cp.Expression"], object]
ROUNDING = 1e-11
"""Share taken off a bound for the rounding of its sums."""


@dataclass(frozen=True, eq=False)
class Programme:
    """An allocation to solve."""

    errors: Array  # (K, m): M; without rows the total τ is minimised
    targets: Array  # (L, m): T
    costs: Array  # (cells, m): C, of distinct rows
    power: int  # 2 for Laplace noise, 1 for Gaussian noise: ``φ(x) = x^-power``
    # unit, top, scale: a user's ``spent`` is unit · x, row by row, his total top · τ, and what he
    # minimises scale times that
    unit: Array  # (m,)
    top: float
    scale: float
    # ``constraints(spent, total)`` returns a list of affine cvxpy constraints
    constraints: Constraints | None

    @classmethod
    def scaled(
        cls,
        errors: Array,
        targets: Array,
        costs: Array,
        norm: Norm,
        constraints: Constraints | None,
        units: Array,
    ) -> "Programme":
        """Return the programme of M, T and C as they are, with equal budgets near 1 in its units.

        `errors`, `targets`, `costs`: of budgets times `units`, shape (m,); see `Programme`.
        """
        power, even = (2 if norm == "l1" else 1), float(costs.sum(axis=1).max())
        if len(errors):
            unit = 1.0 / even
            scale = float(errors.sum(axis=1).max()) / unit**power
            aimed = errors / (scale * unit**power)
            return cls(
                aimed, targets / unit**power, costs / even, power, unit / units, 1.0, scale,
                constraints,
            )  # fmt: skip
        unit = float(targets.sum(axis=1).max()) ** (1.0 / power)
        top = unit * even
        return cls(
            errors, targets / unit**power, costs / even, power, unit / units, top, top, constraints
        )

    def met(self, x: Array) -> Array:
        """Return x scaled to meet what a solver's tolerance leaves open: targets, or costs."""
        if len(self.errors):
            return np.asarray(x / max(1.0, float((self.costs @ x).max())))
        return np.asarray(x * float(self.noise(self.targets, x).max()) ** (1.0 / self.power))

    def value(self, x: Array) -> float:
        """Return what is minimised, in a user's unit."""
        least = self.noise(self.errors, x) if len(self.errors) else self.costs @ x
        return self.scale * float(least.max())

    def noise(self, squares: Array, x: Array) -> Array:
        """Return ``squares · φ(x)``, for rows of squares."""
        used = squares.any(axis=0)
        return np.asarray(squares[:, used] @ x[used] ** -float(self.power))

    def solve(self) -> tuple[Array, float]:
        """Return the best x found, shape (m,), and a lower bound on the value of every other."""
        import cvxpy as cp

        x = cp.Variable(self.costs.shape[1], nonneg=True)
        total, largest = cp.Variable(nonneg=True), cp.Variable()
        used = np.flatnonzero(self.errors.any(axis=0) | self.targets.any(axis=0))
        noise = cp.power(x[used], -self.power)
        aimed = [self.errors[:, used] @ noise <= largest] if len(self.errors) else []
        kept = [self.targets[:, used] @ noise <= 1] if len(self.targets) else []
        paid = [self.costs @ x <= total]
        fixed = [total == 1] if aimed else []
        asked = self.constraints and self.constraints(cp.multiply(self.unit, x), self.top * total)
        own = checked_affine(asked) if self.constraints else []
        programme = cp.Problem(
            cp.Minimize(largest if aimed else total), [*aimed, *kept, *paid, *fixed, *own]
        )
        solve_conic(programme, certified=True)
        found = self.met(np.maximum(x.value, 0.0))
        most = 1.0 if aimed else float((self.costs @ found).max())
        prices = [
            np.maximum(np.atleast_1d(one[0].dual_value), 0.0) if one else np.zeros(0)
            for one in (aimed, kept, paid)
        ]
        slopes, constant = lagrangian_part(own, [x, total])
        return found, self.scale * self._bound(prices, slopes, constant, most)

    def _bound(
        self, prices: list[Array], slopes: list[Array], constant: float, most: float
    ) -> float:
        """Return the least value of the Lagrangian over ``x >= 0``, ``C x <= most``."""
        shares, v, p = prices
        u = shares / shares.sum() if len(shares) else shares
        noise = u @ self.errors + v @ self.targets
        slope = p @ self.costs + slopes[0]
        of_total = float(slopes[1][0] - p.sum()) + (0.0 if len(u) else 1.0)
        least = most * (of_total if len(u) else min(of_total, 0.0))
        ends = most / self.costs.max(axis=0)
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
