"""From a design that was chosen without data to the classifier that releases it."""

from typing import Any

from mrf_matrix.base.kinds import KINDS
from mrf_matrix.estimators.prediction.batch_prediction import BatchPredictionClassifier
from mrf_matrix.estimators.prediction.subsample_aggregate import SubsampleAggregateClassifier
from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier
from mrf_matrix.estimators.training.matrix_forest import MatrixForestClassifier
from mrf_matrix.estimators.training.naive_bayes import PrivateNaiveBayesClassifier
from mrf_matrix.estimators.training.posterior_forest import PosteriorForestClassifier
from mrf_matrix.mechanisms import ZCDP, BudgetError, NoiseLaw, PureDP
from mrf_matrix.mechanisms.claim import claiming_budgets
from mrf_matrix.planning import Plan, Trial, Tuning
from mrf_matrix.planning.blocks.block_part import BlockPart
from mrf_matrix.residual import ResidualPlan

CLASSIFIERS: dict[str, Any] = {
    one.__name__: one
    for one in (
        MatrixForestClassifier,
        BatchPredictionClassifier,
        SubsampleAggregateClassifier,
        PosteriorForestClassifier,
        PrivateNaiveBayesClassifier,
        ResidualForestClassifier,
    )
}
"""Classifiers of designs, by their names in the table of kinds."""


def from_design(
    design: Tuning | Plan | ResidualPlan, trial: Trial | None = None, **changes: Any
) -> Any:
    """Return a classifier, ready to fit, that releases what was tuned or planned.

    Parameters
    ----------
    design : Tuning, Plan or ResidualPlan
        The best design of a search, or a plan: its forests and strategies are used as they are.
    trial : Trial, optional
        Another design of the search.
    **changes
        Arguments of the classifier to set besides, for example ``ledger=`` or ``noise=``.

    Returns
    -------
    MatrixForestClassifier, BatchPredictionClassifier, SubsampleAggregateClassifier or \
PosteriorForestClassifier
        Of the design's kind, not fitted. Nothing is spent until it is.

    Raises
    ------
    TypeError
        If it is neither a search nor a plan.
    ValueError
        If its noise is of a law of one's own, under which no classifier measures.

    Notes
    -----
    A plan's votes were for its own queries: of "batch" and "subsample" the classifier selects
    strategies again, for the queries that come.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.planning import plan
    >>> car = load_dataset("car")
    >>> made = plan(car.domain, epsilon=1, n_trees=8, max_depth=1, strategy="identity")
    >>> model = from_design(made).fit(car.X, car.y)
    >>> model.forest_ == made.forest
    True
    """
    if isinstance(design, Tuning):
        chosen = design.best if trial is None else trial
        _check_law(design.request["law"])
        domain, given = design.request["domain"], {**design.params_of(chosen), **changes}
        return CLASSIFIERS[KINDS[design.kind_of(chosen)].estimator](domain, **given)
    if isinstance(design, ResidualPlan):
        return ResidualForestClassifier(design.domain, **{**_sequence_settings(design), **changes})
    if not isinstance(design, Plan):
        raise TypeError(
            f"design is of type {type(design).__name__}: expected a Tuning (from tune), a Plan or "
            f"a ResidualPlan (from plan)."
        )
    mechanism = design.parts[0].mechanism
    _check_law(None if mechanism.is_proved else type(mechanism.law))
    classifier = CLASSIFIERS[KINDS[design.kind.name].estimator]
    return classifier(design.domain, **{**_settings(design), **changes})


def _sequence_settings(plan: ResidualPlan) -> dict[str, Any]:
    budget = claim_parameters(plan.budget, plan.delta)
    return {**budget, "neighboring": plan.neighboring, "n_records": plan.n_records}


def claim_parameters(budget: PureDP | ZCDP, delta: float) -> dict[str, object]:
    """Return the ``epsilon``, ``rho`` and ``delta`` that a budget was made of.

    Raises BudgetError if the ε of an (ε, δ) claim has more than six digits, and so is not known any
    more.
    """
    if not delta or budget.is_infinite:
        return {"epsilon": None, budget.parameter: budget.amount}
    epsilon = budget.claimed_epsilon(delta)
    if not epsilon or budget not in claiming_budgets(epsilon, delta):
        raise BudgetError(
            f"{budget!r} for delta={delta!r}: no epsilon of six digits gives it. Give the "
            f"classifier epsilon= and delta= itself."
        )
    return {"epsilon": epsilon, "delta": delta}


def _check_law(law: type[NoiseLaw] | None) -> None:
    if law is not None:
        raise ValueError(
            f"law={law.__name__}: classifiers measure under proved laws only. Expected a plan with "
            f"law=None, or measure this one by its own release(...)."
        )


def _settings(plan: Plan) -> dict[str, Any]:
    budget = plan.budget
    shared = {**claim_parameters(budget, plan.delta), "neighboring": plan.neighboring}
    first = plan.parts[0]
    if not (plan.kind.grows_trees or plan.kind.chooses_blocks):
        return shared
    if isinstance(first, BlockPart):
        return {**shared, "blocks": [list(block) for block in first.blocks]}
    several = len(plan.parts) > 1
    settings: dict[str, Any] = {
        **shared,
        "forest": [part.ensemble.forest for part in plan.parts] if several else plan.forest,
    }
    if several or len(plan.parts[0].ensemble.features) < plan.domain.n_attributes:
        settings["feature_subsets"] = [list(part.ensemble.features) for part in plan.parts]
    if several and not budget.is_infinite:
        settings["budget_shares"] = [part.mechanism.budget.exact for part in plan.parts]
    if "voting" in plan.kind.parameters:
        settings |= {"allocation": plan.allocation, "voting": plan.voting}
    if plan.kind.chooses_strategies:
        told = plan.aim.weights is None and plan.aim.groups is None
        settings["objective"] = plan.aim.objective if told else "total"
    if plan.kind.chooses_strategies and not plan.kind.answers_queries:
        settings["optimise_for"] = "votes" if plan.objective == "votes" else "leaves"
        settings["strategy"] = [
            part.strategy if part.aim.is_plain or part.strategy is None else part.strategy.matrix
            for part in plan.parts
        ]
    return settings
