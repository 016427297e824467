"""The forest that a private plan takes, not yet fitted."""

from typing import Any

from mrf_matrix.base.checks import structure_generator
from mrf_matrix.base.provenance import Chosen, chosen_here
from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
from mrf_matrix.estimators.pooled.pooled_forest import PooledForestClassifier
from mrf_matrix.estimators.private.what_may_follow import blocks_of
from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier
from mrf_matrix.estimators.training.posterior_forest import PosteriorForestClassifier
from mrf_matrix.planning.private import PrivatePlan
from mrf_matrix.planning.private.pooled_plan import PooledPlan
from mrf_matrix.planning.private.private_plan import OF_RESIDUALS, POOLS
from mrf_matrix.residual import ResidualPlan

Forest = (
    PosteriorForestClassifier
    | ResidualForestClassifier
    | PooledForestClassifier
    | LabelTreeClassifier
)


def planned_forest(
    plan: PrivatePlan, chosen: tuple[int, ...] | None, given: dict[str, Any]
) -> Forest:
    """Return the forest of a plan, with what is left of its budget.

    `chosen`: attributes that were kept; None for all; `given`: its other parameters.
    """
    common = given | {plan.rest.parameter: plan.rest.amount}
    if plan.chosen.measured == "labels":
        return LabelTreeClassifier(**common)
    if plan.chosen.measured in POOLS:
        beside = "residuals" if plan.chosen.measured in OF_RESIDUALS else "tables"
        return PooledForestClassifier(beside=beside, **common)
    if chosen is None and plan.chosen.measured == "residuals":
        forest = ResidualForestClassifier(**common)
        forest._even_records = plan.even_records
        return forest
    if chosen is None and plan.even_records is not None:
        chosen = tuple(range(plan.domain.n_attributes))
    structure = structure_generator(given["random_state"])
    blocks = None
    if chosen is not None:
        blocks = Chosen(blocks_of(plan, chosen, structure), chosen_here())
    return PosteriorForestClassifier(blocks=blocks, **common)


def residual_steps(forest: Forest) -> ResidualPlan:
    """Return the steps of a forest of residuals, alone or beside a tree."""
    made = forest.plan()
    found = made.tables if isinstance(made, PooledPlan) else made
    assert isinstance(found, ResidualPlan)
    return found
