"""`plan`: from a public domain to a calibrated design, without data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from inspect import signature
from os import PathLike
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.checks import checked_n_records, short_repr, structure_generator, whole_number
from mrf_matrix.base.kinds import kind_of_arguments
from mrf_matrix.domain import Domain, as_domain
from mrf_matrix.forests import Forest, PathSource
from mrf_matrix.forests.random_trees import EnsembleDesign
from mrf_matrix.mechanisms import ZCDP, NoiseLaw, PureDP
from mrf_matrix.mechanisms.budget import claimed_budget
from mrf_matrix.planning.auto.plan import ClaimPlan, plan_of_claim
from mrf_matrix.planning.plans.block_design import BlockChoice
from mrf_matrix.planning.plans.block_part import blocks_budget
from mrf_matrix.planning.plans.build import Design, build_plan
from mrf_matrix.planning.plans.federated_plan import quorum_of, share_plan
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import AUTO, UNSAID, MeasurementSpec, PlanKind, kind_of
from mrf_matrix.planning.plans.two_stage_plan import TwoStagePlan, majority_trees, two_stage_plan

Amount = float | Fraction | str | None
"""A budget, read exactly as it is written; "auto" where targets decide it."""

Asked = ParamSpec("Asked")
Made = TypeVar("Made")


def infer_kind(planned: Callable[Asked, Made]) -> Callable[Asked, Made]:
    """Let a planner without a `kind` take that of the arguments given, whatever their values."""
    taken = signature(planned)

    @wraps(planned)
    def call(*args: Asked.args, **given: Asked.kwargs) -> Made:
        called, usual = taken.bind(*args, **given), taken.parameters
        told = called.arguments
        if told.get("kind") is None:
            # None is what leaving out means, where that is the usual value
            names = [name for name in told if not (told[name] is usual[name].default is None)]
            grown = isinstance(told["domain"], Forest)
            told["kind"] = "matrix" if grown else kind_of_arguments(names)
        return planned(*called.args, **called.kwargs)

    return call


@infer_kind
def plan(
    domain: Domain | Forest | str | PathLike[str],
    kind: str | None = None,
    *,
    epsilon: Amount = None,
    rho: Amount = None,
    delta: float | Fraction = 0,
    neighboring: str = "add_remove",
    n_trees: int | str = "auto",
    max_depth: int = 4,
    splits: str = "multiway",
    forest: Forest | PathSource | Sequence[Forest | PathSource] | None = None,
    n_ensembles: int = 1,
    max_features: int | None = None,
    feature_subsets: Sequence[Sequence[str | int]] | None = None,
    budget_shares: Sequence[float] | str | None = None,
    n_blocks: int | str = "auto",
    blocks: Sequence[Sequence[str | int]] | None = None,
    allocation: str = "matrix",
    strategy: object = "auto",
    objective: str = "total",
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    optimise_for: str = "auto",
    target_rms: ArrayLike | None = None,
    law: type[NoiseLaw] | None = None,
    voting: str | None = None,
    queries: ArrayLike | None = None,
    n_classes: int | None = None,
    n_records: int | None = None,
    time_limit: float | str = "auto",
    parties: int | None = None,
    dropouts: int = 0,
    colluders: int = 0,
    remove_excess: bool = False,
    random_state: object = None,
) -> Plan | ClaimPlan | TwoStagePlan:
    """Plan a private forest without data: what it costs in error, memory and time.

    Parameters
    ----------
    domain : Domain or Forest
        The public schema, or a forest grown over it without data.
    kind : {"auto", "tables", "additive", "labels", "pool", "matrix", "naive_bayes", "batch", \
"subsample", "two_stage"}, optional
        What is released; by default "auto", or the kind that the arguments given are of, such as
        "matrix" with `n_trees`. "auto" is what `PrivateForestClassifier` takes, and the next four
        are its kinds of the same words; "matrix" is `MatrixForestClassifier`, "naive_bayes"
        `PrivateNaiveBayesClassifier`, "batch" `BatchPredictionClassifier`, "subsample"
        `SubsampleAggregateClassifier`, "two_stage" `MultinomialMatrixForestClassifier`.
    epsilon, rho : positive number
        At most one: pure DP (Laplace noise) or zCDP (Gaussian noise); ``epsilon=1`` of neither.
        With `target_rms` the least is found: neither, or "auto" for the one that is wanted.
    delta : float, default=0
        The δ of an (ε, δ) claim: Gaussian noise under the zCDP budget that implies it, and in
        the kinds of steps the better of that and Laplace noise. With `target_rms` the least ρ is
        found.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    n_trees, max_depth, splits, forest, n_ensembles, max_features, feature_subsets, budget_shares
        The design, as the classifiers take it; `budget_shares` may be "equal", "total" or "max":
        what is least, the ensembles' errors added up or the largest. With the same integer
        `random_state` it is the same forest as theirs. ``n_trees="auto"`` is what the classifier
        takes.
    n_blocks, blocks
        The design of "tables". All other parameters of a design stay at their defaults there, and
        all of them where the claim alone says the steps: "auto", "additive", "labels", "pool".
        "two_stage" takes `n_trees`, `max_depth`, `strategy`, `voting` and `time_limit`.
    allocation : str, default="matrix"
        The baselines: "per_tree", "disjoint", "uniform_levels", "geometric_levels" and
        "optimal_levels" ("matrix") or "per_query" ("subsample").
    strategy : str, Strategy, Operator, ndarray, scipy sparse or list, default="auto"
        A family's name, or one strategy for each ensemble.
    objective : {"total", "max"}, default="total"
        Which squared error strategies make small: of all answers, or of the worst answer or
        group. Error, bound and ratio of the plan are of that; see `strategies.select`.
    weights, groups : array-like, optional
        A weight of the squared error, and for "max" an integer label, of every answer: of the
        leaves of all ensembles, or of the `queries` as they are given.
    optimise_for : {"auto", "leaves", "votes"}, default="auto"
        Of "matrix": "votes" chooses strategies for the weight votes of all cells, ``TᵀT``.
        "auto": the paths themselves under Gaussian noise, which are the optimum of votes, and
        strategies for the leaves under Laplace noise.
    target_rms : float or array-like, optional
        Largest root mean squared error of every answer in a class, in records, under the exact
        discrete noise: the plan has the least budget found that keeps it, and `Plan.budget_bound`.
    law : subclass of NoiseLaw, optional
        Noise of one's own, see `mrf_matrix.mechanisms.calibrate`: the release says "claim by
        NAME, unverified". Of "matrix", "batch" and "subsample" alone.
    voting : str, optional
        As in the classifiers: hard in "matrix" and "two_stage", weight in "batch" and "subsample"
        unless told, posterior or product elsewhere.
    queries : int or ndarray of int, shape (b, d), optional
        Codes of public queries, or how many to draw uniformly from the domain; 128 by default.
    n_classes : int, optional
        Number of classes, where the domain has no target; 2 then.
    n_records : int, optional
        The *public* number of records: adds signal-to-noise and flip probabilities as shares.
    time_limit : float or "auto", default="auto"
        Seconds of the search for each strategy; "auto" as the classifier, 8 for
        leaves and 1 for queries.
    parties, dropouts, colluders : int, optional
        Of a release by several parties who do not trust each other: how many, how many may vanish,
        how many may collude. The plan is then a `FederatedPlan`, of the noise that they share: it
        says what they send, and its `designs` are what they run.
    remove_excess : bool, default=False
        Whether these parties take noise that nobody needs off again, by a second sum.
    random_state : int, numpy.random.Generator or None, default=None
        Seed of the public structure.

    Returns
    -------
    Plan
        Of "additive" a `ResidualPlan`, of "labels" a `LabelPlan`, of "pool" a `PooledPlan`, of
        "auto" the `AutoPlan` that says which of these, of "two_stage" a `TwoStagePlan`: what the
        classifier's own `plan` gives.

    Raises
    ------
    ValueError, TypeError
        If an argument is impossible; the message says what to change.
    CoarseStrategyError
        If parties share noise of pure DP, and the strategy has no small integers.
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
    Plan(matrix, 8 trees in 1 ensemble, 27 answers by identity, PureDP(epsilon=1) under \
add_remove neighbours, expected error 2.559 rms per leaf)
    >>> made.flip_probabilities(margin=10, rows=[0]).round(3)
    array([0.003])
    """
    what = kind_of(kind, allocation, UNSAID if voting is None else voting)
    schema, source = _schema(domain, forest)
    claim, known = (epsilon, delta, rho), target_rms is None or what.is_sequence
    budget = claimed_budget(*claim) if known else _target_budget(*claim)
    if known and what.releases_leaves and not what.grows_trees:
        choice = BlockChoice(n_blocks, blocks) if what.chooses_blocks else None
        budget = blocks_budget(claim, schema, choice, n_records, neighboring)
    quorum = quorum_of(parties, dropouts, colluders, remove_excess)
    if quorum is not None and what.is_sequence:
        raise ValueError(
            f"parties={parties} with kind={what.name!r}: expected a kind that measures once, for "
            f"the noise of steps that follow each other is not shared."
        )
    measuring = MeasurementSpec(
        budget, neighboring, budget_shares, strategy, time_limit, None, objective, weights,
        groups, optimise_for, target_rms, law, float(delta),
    )  # fmt: skip
    if not what.is_sequence:
        measuring.check()
    trees = what.n_trees if isinstance(n_trees, str) and n_trees == AUTO else n_trees
    design = _design(
        what,
        EnsembleDesign(
            n_ensembles, max_features, feature_subsets, trees, max_depth, splits, source
        ),
        BlockChoice(n_blocks, blocks),
        measuring,
    )
    records = checked_n_records(n_records)
    if what.is_sequence:
        if queries is not None or n_classes is not None:
            raise ValueError(f"queries and n_classes with kind={what.name!r}: leave them out.")
        schema.required_target()
        if what.name == "two_stage":
            grown = majority_trees(whole_number("n_trees", trees), max_depth, neighboring)
            both = two_stage_plan(
                schema, budget, grown, measuring=measuring, random_state=random_state,
                voting=what.voting, delta=float(delta),
            )  # fmt: skip
            return replace(both, n_records=records)
        steps: ClaimPlan = plan_of_claim(
            what.name, schema, epsilon=epsilon, rho=rho, delta=delta, n_records=records,
            neighboring=neighboring, random_state=random_state,
        )  # fmt: skip
        return steps
    made = build_plan(
        what, schema, design, measuring, structure_generator(random_state), queries=queries,
        n_classes=_classes(schema, n_classes), n_records=records,
    )  # fmt: skip
    if made.target_rms is not None:
        made = made.meet_targets(made.target_rms)
    return made if quorum is None else share_plan(made, quorum, remove_excess)


def _target_budget(epsilon: object, delta: float | Fraction, rho: object) -> PureDP | ZCDP:
    """Return a budget of the kind that is sought for targets."""
    told = [one for one in (epsilon, rho) if one is not None]
    if len(told) > 1 or any(not isinstance(one, str) or one != AUTO for one in told):
        raise ValueError(
            f"epsilon={short_repr(epsilon)} and rho={short_repr(rho)} with target_rms, which says "
            f"what the budget is for: expected epsilon='auto' or rho='auto', or neither."
        )
    if rho is None:
        return claimed_budget(1, delta)
    return claimed_budget(None, delta, 1)


def _design(
    kind: PlanKind, trees: EnsembleDesign, blocks: BlockChoice, measuring: MeasurementSpec
) -> Design:
    if not (blocks.is_usual or kind.chooses_blocks):
        raise ValueError(
            f"n_blocks={short_repr(blocks.n_blocks)} and blocks={short_repr(blocks.blocks)} with "
            f"kind={short_repr(kind.name)}: expected them with kind='tables' only. Leave them out."
        )
    if kind.grows_trees:
        return trees
    given: dict[str, Any] = {**vars(trees), **vars(measuring)}
    usual: dict[str, Any] = {**vars(EnsembleDesign()), **vars(MeasurementSpec(measuring.budget))}
    strange = [
        name
        for name, value in given.items()
        if name not in ("neighboring", "time_limit", "delta", *kind.parameters)
        and not (value is usual[name] or (np.ndim(value) == 0 and value == usual[name]))
    ]
    if strange:
        takes = [name for name in kind.parameters if name not in ("n_records", "delta")]
        raise ValueError(
            f"{', '.join(strange)} with kind={kind.name!r}: of a design it takes "
            f"{', '.join(takes) or 'nothing'}. Leave {'it' if len(strange) == 1 else 'them'} out."
        )
    return blocks


def _schema(domain: object, forest: object) -> tuple[Domain, Any]:
    if isinstance(domain, Forest):
        if forest is not None:
            raise ValueError("domain is a Forest and forest= is given too: expected one of them.")
        return domain.domain, domain
    domain = as_domain(domain)
    if not isinstance(domain, Domain):
        raise TypeError(
            f"domain is of type {type(domain).__name__}: expected a Domain or a Forest. A plan "
            f"takes no records: write the schema down, or load a domain file with Domain.load."
        )
    return domain, forest


def _classes(domain: Domain, n_classes: object) -> int:
    own = None if domain.target is None else domain.n_classes
    if n_classes is None:
        return own or 2
    count = whole_number("n_classes", n_classes)
    if own not in (None, count):
        raise ValueError(f"n_classes={count}, but the domain's target has {own}: leave it out.")
    return count
