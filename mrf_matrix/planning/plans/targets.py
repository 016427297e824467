"""The least budget at which a plan keeps targets, under its exact discrete noise."""

from fractions import Fraction

from mrf_matrix.base.arrays import Array
from mrf_matrix.error.release_budget import least_amount
from mrf_matrix.planning.plans.plan import Plan


def within_targets(plan: Plan, limits: Array) -> Plan:
    """Return the plan at the least budget at which every answer keeps its target, rounded up.

    Ensembles keep their shares. Errors fall as the budget grows: it is found by bisection.
    """
    name = plan.budget.parameter

    def at(amount: Fraction) -> Plan:
        return plan.at(epsilon=amount) if name == "epsilon" else plan.at(rho=amount)

    return at(least_amount(lambda amount: bool((at(amount).row_rms <= limits).all())))
