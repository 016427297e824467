"""Plans of the kinds whose steps follow from a claim and public numbers alone."""

from typing import Any

from mrf_matrix.base.checks import public_records, structure_generator
from mrf_matrix.domain import Domain
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.mechanisms.claim import choice_epsilon, claiming_budgets
from mrf_matrix.planning.private.pooled_plan import PooledPlan, pooled_plan, pooling_budget
from mrf_matrix.planning.private.private_plan import PrivatePlan, private_plan
from mrf_matrix.residual.sequence import ResidualPlan, residual_plan, sequence_budget

ClaimPlan = PrivatePlan | ResidualPlan | LabelPlan | PooledPlan
CLAIM = ("epsilon", "rho", "delta", "n_records", "neighboring", "random_state")


def claim_of(estimator: object) -> dict[str, Any]:
    """Return what an estimator was told of its claim, and of public numbers."""
    return {name: getattr(estimator, name) for name in CLAIM}


def plan_of_claim(
    kind: str,
    domain: Domain,
    *,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = 0,
    n_records: int | None = None,
    neighboring: str = "add_remove",
    random_state: object = None,
    beside: str = "tables",
) -> Any:
    """Return the `ClaimPlan` of a kind, under the law of noise that serves the claim best.

    `kind` {"auto", "additive", "labels", "pool"}; `beside` {"tables", "additive"} the tree of a
    pool; other parameters as `plan`.

    Raises ValueError if a parameter is invalid, or the domain does not suit the kind.
    """
    budgets = claiming_budgets(epsilon, delta, rho)
    k, records = domain.required_target().size, public_records(n_records)
    known: Any = {"n_records": records, "neighboring": neighboring, "delta": float(delta)}
    if kind == "auto":
        return private_plan(domain, budgets, random_state=random_state, **known)
    if kind == "pool":
        residuals, budget = beside == "additive", pooling_budget(budgets)
        return pooled_plan(domain, budget, random_state, residuals=residuals, **known)
    structure = structure_generator(random_state)
    if kind == "labels":  # by the law of the larger rate
        return label_plan(domain, max(budgets, key=choice_epsilon), structure, **known)
    budget = sequence_budget(epsilon, delta, rho, domain.n_attributes, records, k)
    return residual_plan(domain, budget, structure, **known)
