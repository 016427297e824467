"""`plan`: from a public domain to a calibrated design, without data."""

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.shown import shown
from mrf_matrix.domain import Domain
from mrf_matrix.error.vote_noise import one_query_at_a_time, with_hard_votes
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.ensembles import Ensemble, EnsembleDesign
from mrf_matrix.mechanisms import ZCDP, BudgetError, Mechanism, PureDP, calibrate
from mrf_matrix.mechanisms.budgets.budget import budget_or_default
from mrf_matrix.mechanisms.budgets.neighboring import checked_neighboring
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_choices import checked_allocation, checked_voting
from mrf_matrix.planning.plans.planned_answers import PlannedAnswers
from mrf_matrix.planning.plans.posterior_plan import check_plain, posterior_plan
from mrf_matrix.planning.plans.strategy_choice import (
    chosen,
    method_within,
    one_strategy_each,
    selected,
)
from mrf_matrix.planning.plans.workloads import (
    Codes,
    Mode,
    as_often_as_asked,
    checked_mode,
    public_queries,
    workload_of,
)
from strategies import Strategy
from strategies.operators import Identity, Operator
from strategies.search.select import checked_time_limit

Budget = PureDP | ZCDP


def plan(
    domain: Domain | Forest,
    mode: str = "training",
    *,
    epsilon: Any = None,
    rho: Any = None,
    neighboring: str = "add_remove",
    n_trees: int = 128,
    max_depth: int = 4,
    splits: Any = "multiway",
    forest: Any = None,
    n_ensembles: int = 1,
    max_features: int | None = None,
    feature_subsets: Any = None,
    budget_shares: Any = None,
    n_blocks: Any = "auto",
    blocks: Any = None,
    allocation: str = "matrix",
    strategy: Any = "auto",
    voting: str | None = None,
    queries: Any = None,
    n_classes: int | None = None,
    n_records: int | None = None,
    time_limit: float = 8.0,
    random_state: Any = None,
) -> Plan:
    """Plan a private forest without data: what it costs in error, memory and time.

    Parameters
    ----------
    domain : Domain or Forest
        The public schema, or a forest grown over it without data.
    mode : {"training", "prediction", "subsample", "posterior"}, default="training"
        As `MatrixForestClassifier`, `BatchPredictionClassifier`, `SubsampleAggregateClassifier`
        and `PosteriorForestClassifier` release.
    epsilon, rho : positive number
        At most one: pure DP (Laplace noise) or zCDP (Gaussian noise); ``epsilon=1`` of neither.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    n_trees, max_depth, splits, forest, n_ensembles, max_features, feature_subsets, budget_shares
        The design, as the classifiers take it. With the same integer `random_state` it is the
        same forest as theirs.
    n_blocks, blocks
        The design of a posterior forest, as its classifier takes it. All other parameters of the
        design stay at their defaults in that mode.
    allocation : str, default="matrix"
        "per_tree" and "disjoint" ("training") or "per_query" ("subsample"): the baselines.
    strategy : str, Strategy, Operator, ndarray, scipy sparse or list, default="auto"
        A family's name, or one strategy for each ensemble.
    voting : {"hard", "weight", "posterior"}, optional
        As in the classifiers: hard in training, weight in prediction and subsample unless told,
        posterior in the mode of this name.
    queries : int or ndarray of int, shape (b, d), optional
        Codes of public queries, or how many to draw uniformly from the domain; 128 by default.
    n_classes : int, optional
        Number of classes, where the domain has no target; 2 then.
    n_records : int, optional
        The *public* number of records: adds signal-to-noise and flip probabilities as shares.
    time_limit : float, default=8.0
        Seconds of the search for each strategy.
    random_state : int, numpy.random.Generator or None, default=None
        Seed of the public structure.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError, TypeError
        If an argument is impossible; the message says what to change.
    LearnedStructureError
        If a forest was, or would be, learned from records.
    MemoryCapError
        If an array would exceed the memory cap.

    Examples
    --------
    >>> made = plan(
    ...     Domain.from_sizes([3, 4], n_classes=2), epsilon=1, n_trees=8, max_depth=1,
    ...     strategy="identity", n_records=1000, random_state=0,
    ... )
    >>> made
    Plan(training, 8 trees in 1 ensemble, 27 answers by identity, PureDP(epsilon=1) under \
add_remove neighbours, expected error 2.559 rms per leaf)
    >>> made.flip_probabilities(margin=10, rows=[0]).round(3)
    array([0.003])
    """
    kind = checked_mode(mode)
    schema, source = _schema(domain, forest)
    budget = budget_or_default(epsilon, rho)
    checked_neighboring(neighboring)
    checked_time_limit(time_limit)
    rule = checked_voting(kind, voting)
    shared = checked_allocation(kind, allocation)
    classes = _classes(schema, n_classes)
    records = None if n_records is None else whole_number("n_records", n_records)
    design = EnsembleDesign(
        n_ensembles, max_features, feature_subsets, n_trees, max_depth, splits, source
    )
    if kind == "posterior":
        check_plain(design, strategy, budget_shares)
        return posterior_plan(
            schema, budget, np.random.default_rng(random_state), n_classes=classes,
            n_records=records, n_blocks=n_blocks, blocks=blocks, neighboring=neighboring,
            asked=public_queries(schema, queries, np.random.default_rng(0)),
        )  # fmt: skip
    if n_blocks != "auto" or blocks is not None:
        raise ValueError(
            f"n_blocks={shown(n_blocks)} and blocks={shown(blocks)} in mode={shown(kind)}: "
            f"expected them in "
            f"mode='posterior' only. Leave them out."
        )
    structure = np.random.default_rng(random_state)
    seeder = None if kind == "training" else int(structure.integers(2**63))
    ensembles = design.grow(schema, structure)
    budgets = _shared(budget, budget_shares, len(ensembles))
    asked, often = public_queries(schema, queries, np.random.default_rng(0))
    started = perf_counter()
    choice = structure if seeder is None else np.random.default_rng([seeder, 0])
    parts = _parts(
        kind, ensembles, asked, often, budgets, shared, rule, strategy, neighboring,
        time_limit, choice,
    )  # fmt: skip
    return Plan(
        domain=schema,
        mode=kind,
        parts=parts,
        queries=asked,
        multiplicity=often,
        n_classes=classes,
        allocation=shared,
        voting=rule,
        n_records=records,
        select_seconds=perf_counter() - started,
    )


def _parts(
    mode: Mode,
    ensembles: Sequence[Ensemble],
    queries: Codes,
    often: Any,
    budgets: Sequence[Budget],
    allocation: str,
    voting: str,
    strategy: Any,
    neighboring: str,
    time_limit: float,
    generator: np.random.Generator,
) -> tuple[PlannedAnswers, ...]:
    """Choose each ensemble's strategy and calibrate its noise."""
    workloads = [workload_of(mode, ensemble, queries) for ensemble in ensembles]
    given = one_strategy_each(strategy, len(ensembles))
    seeds = generator.integers(2**63, size=len(ensembles)).tolist()
    parts = []
    for ensemble, workload, budget, one, seed in zip(
        ensembles, workloads, budgets, given, seeds, strict=True
    ):
        if allocation != "matrix":
            parts.append(_baseline(ensemble, workload, budget, allocation, voting, neighboring))
            continue
        hard = mode == "subsample" and voting == "hard"
        weighted = workload if mode == "training" else as_often_as_asked(workload, often)
        if mode != "training" and isinstance(one, str) and one == "auto":
            one = method_within(weighted, budget.norm, time_limit)
        found = selected(weighted, one, budget.norm, seed, time_limit)
        calibrated = partial(_calibrated, budget, neighboring, workload, hard)
        parts.append(PlannedAnswers(ensemble, workload, *chosen(found, one, calibrated, weighted)))
    return tuple(parts)


def _calibrated(
    budget: Budget, neighboring: str, workload: Operator, hard: bool, strategy: Strategy
) -> Mechanism:
    """Return the noise that a strategy needs, for a table of counts or of hard votes."""
    mechanism = calibrate(strategy, budget, neighboring=neighboring, workload=workload)
    return with_hard_votes(mechanism) if hard else mechanism


def _baseline(
    ensemble: Ensemble,
    workload: Operator,
    budget: Budget,
    allocation: str,
    voting: str,
    neighboring: str,
) -> PlannedAnswers:
    measured = Identity(workload.shape[0]) if allocation == "disjoint" else workload
    mechanism = calibrate(measured, budget, neighboring=neighboring)
    if allocation == "per_query":
        mechanism = one_query_at_a_time(mechanism, hard=voting == "hard")
    return PlannedAnswers(ensemble, measured, None, mechanism)


def _schema(domain: Any, forest: Any) -> tuple[Domain, Any]:
    """Return the domain and the given forest or source."""
    if isinstance(domain, Forest):
        if forest is not None:
            raise ValueError("domain is a Forest and forest= is given too: expected one of them.")
        return domain.domain, domain
    if not isinstance(domain, Domain):
        raise TypeError(
            f"domain is of type {type(domain).__name__}: expected a Domain or a Forest. A plan "
            f"takes no records: write the schema down, or load a domain file with Domain.load."
        )
    return domain, forest


def _classes(domain: Domain, n_classes: Any) -> int:
    own = None if domain.target is None else domain.n_classes
    if n_classes is None:
        return own or 2
    count = whole_number("n_classes", n_classes)
    if own not in (None, count):
        raise ValueError(f"n_classes={count}, but the domain's target has {own}: leave it out.")
    return count


def _shared(budget: Budget, shares: Any, count: int) -> tuple[Budget, ...]:
    if shares is None:
        return budget.split(count)
    if isinstance(shares, str) or np.ndim(shares) != 1 or len(shares) != count:
        raise BudgetError(
            f"budget_shares={shown(shares)} for {count} ensembles: expected one positive "
            f"number for "
            f"each."
        )
    return budget.split(list(shares))
