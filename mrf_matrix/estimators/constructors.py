"""Classifiers from what is there already: a design, releases, a model file."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

from mrf_matrix.base.checks import one_word, structure_generator
from mrf_matrix.base.fields import one_line
from mrf_matrix.base.files import open_regular
from mrf_matrix.base.kinds import KINDS
from mrf_matrix.domain import Domain, required_domain
from mrf_matrix.estimators.matrix_forest import MatrixForestClassifier
from mrf_matrix.estimators.model_face import ReleasedClassifier
from mrf_matrix.estimators.parameters import GivenForest, RandomState
from mrf_matrix.estimators.prediction import (
    BatchPredictionClassifier,
    SubsampleAggregateClassifier,
)
from mrf_matrix.estimators.private_kinds import (
    PosteriorForestClassifier,
    PrivateNaiveBayesClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.files.container import MAX_BYTES, Container, ModelFileError, largest_file
from mrf_matrix.files.model_file import model_of
from mrf_matrix.forests import Forest, check_structure_is_public, concatenate
from mrf_matrix.forests.random_trees import check_as_public, grow_public_forest
from mrf_matrix.kinds.matrix import model_of_release
from mrf_matrix.mechanisms import ZCDP, BudgetError, NoiseLaw, PureDP, Release
from mrf_matrix.mechanisms.budget import claiming_budgets
from mrf_matrix.mechanisms.measurement.release import checked_release
from mrf_matrix.planning import Plan, Trial, Tuning
from mrf_matrix.planning.plans.block_part import BlockPart
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES

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


def from_release(
    release: Release,
    domain: Domain | None = None,
    *,
    forest: GivenForest | Sequence[GivenForest],
    voting: str = "posterior",
    shrinkage: str = "none",
    random_state: RandomState = None,
) -> ReleasedClassifier:
    """Return a fitted classifier of a forest, from a release that was made already.

    Any forest whose leaves the release determines will do, as often as one likes: after a release
    of the cells, every forest. It is post-processing and costs nothing.

    Parameters
    ----------
    release : Release
    domain : Domain, optional
        The public domain that was measured, with the classes; by default the release's own.
    forest : Forest, path source, or a sequence of forests and sources
        Several vote together, also of several depths.
    voting, shrinkage : str
        See `MatrixForestClassifier`; changed later at no cost by ``voted_by``.
    random_state : int, RandomState or None
        Seed of path sources.

    Returns
    -------
    ReleasedClassifier

    Raises
    ------
    RowSpaceError
        If the release does not determine some leaf.
    TypeError, ValueError
        If an argument is not of the kind described, or a forest was learned from records without
        a budget (a `LearnedStructureError`).

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators import MatrixForestClassifier
    >>> from mrf_matrix.forests.random_trees import RandomTrees
    >>> car = load_dataset("car")
    >>> model = MatrixForestClassifier(car.domain, strategy="identity", random_state=0)
    >>> release = model.fit(car.X, car.y).release_
    >>> several = [RandomTrees(32, depth) for depth in (1, 2, 3)]
    >>> mixed = from_release(release, car.domain, forest=several, random_state=0)
    >>> mixed.predict(car.X).shape
    (1728,)
    """
    checked_release(release)
    known = required_domain(release.domain if domain is None else domain)
    _check_measured(release, known)
    one_word("voting", voting, NOISE_AWARE_VOTINGS)
    shrunk = one_word("shrinkage", shrinkage, SHRINKAGES)
    grown = _grow(forest, known, random_state)
    if release.is_private:
        check_structure_is_public(grown, "what is claimed", allow_spent=True)
    release = release.resting_on(known.provenance, grown.provenance)
    return ReleasedClassifier(model_of_release(release, known, grown, voting, shrunk))


def _check_measured(release: Release, domain: Domain) -> None:
    replace(release, domain=domain)  # refuses other sizes and classes than were measured


def _grow(
    forest: GivenForest | Sequence[GivenForest], domain: Domain, random_state: RandomState
) -> Forest:
    given = list(forest) if isinstance(forest, Sequence) else [forest]
    generator = structure_generator(random_state)
    grown = []
    for one in given:
        if not isinstance(one, Forest) and not hasattr(one, "grow"):
            raise TypeError(
                f"forest={one!r}: expected a Forest, a path source such as RandomTrees, "
                f"or a sequence of forests."
            )
        made = one if isinstance(one, Forest) else grow_public_forest(one, domain, generator)
        if made.domain.sizes != domain.sizes:
            raise ValueError(
                f"forest has a domain of sizes {made.domain.sizes}: expected {domain.sizes}, the "
                f"one that was measured."
            )
        check_as_public(made, domain)
        grown.append(replace(made, domain=domain) if len(given) > 1 else made)
    if not grown:
        raise ValueError("forest is empty: expected at least one forest.")
    return grown[0] if len(grown) == 1 else concatenate(grown)


def load_model(path: "str | PathLike[str]", *, max_bytes: int = MAX_BYTES) -> ReleasedClassifier:
    """Return the forest of a model file, ready to predict.

    The file may come from anyone: nothing in it is executed, sizes are checked before memory is
    taken, and trees, values and texts are checked before they are used. The report must agree with
    all that the file holds; that noise was drawn remains the writer's word.

    Parameters
    ----------
    path : str or path
        A file of `save_model`.
    max_bytes : int, default=128 MiB
        Most bytes of the arrays, unpacked; checking takes some ten times as much memory.

    Raises
    ------
    ModelFileError
        If the file is no model, is damaged, of a later version, or too large.
    FileNotFoundError
        If there is no such file.
    """
    where = fspath(path)
    try:
        with open_regular(path, largest_file(max_bytes)) as file:
            container = Container(file, "model", max_bytes)
            return ReleasedClassifier(model_of(container))
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"{where}: {one_line(error)}") from error
