"""Conic programmes on cvxpy, always by Clarabel: statuses become errors, constraints numbers."""

from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

import numpy as np

from strategies.operators import Array

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
