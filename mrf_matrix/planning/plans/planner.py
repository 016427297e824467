"""`plan`: from a public domain to a calibrated design, without data."""

from typing import Any

import numpy as np

from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.shown import shown
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.sources.ensembles import EnsembleDesign
from mrf_matrix.mechanisms import Quorum
from mrf_matrix.mechanisms.budgets.budget import budget_or_default
from mrf_matrix.planning.blocks.block_part import BlockChoice
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.kinds.words import UNSAID, kind_of
from mrf_matrix.planning.plans.parties import shared_plan
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import AUTO, Design, Measuring, plan_of
from mrf_matrix.planning.plans.structure import structure_generator


def plan(
    domain: Domain | Forest,
    mode: str = "training",
    *,
    epsilon: Any = None,
    rho: Any = None,
    neighboring: str = "add_remove",
    n_trees: int | str = "auto",
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
    time_limit: float | str = "auto",
    parties: int | None = None,
    dropouts: int = 0,
    colluders: int = 0,
    remove_excess: bool = False,
    random_state: Any = None,
) -> Plan:
    """Plan a private forest without data: what it costs in error, memory and time.

    Parameters
    ----------
    domain : Domain or Forest
        The public schema, or a forest grown over it without data.
    mode : {"training", "prediction", "subsample", "posterior", "naive_bayes"}, \
default="training"
        As `MatrixForestClassifier`, `BatchPredictionClassifier`, `SubsampleAggregateClassifier`,
        `PosteriorForestClassifier` and `PrivateNaiveBayesClassifier` release.
    epsilon, rho : positive number
        At most one: pure DP (Laplace noise) or zCDP (Gaussian noise); ``epsilon=1`` of neither.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    n_trees, max_depth, splits, forest, n_ensembles, max_features, feature_subsets, budget_shares
        The design, as the classifiers take it. With the same integer `random_state` it is the
        same forest as theirs. ``n_trees="auto"`` is what the classifier takes.
    n_blocks, blocks
        The design of a posterior forest, as its classifier takes it. All other parameters of the
        design stay at their defaults in that mode.
    allocation : str, default="matrix"
        The baselines: "per_tree", "disjoint", "uniform_levels", "geometric_levels" and
        "optimal_levels" ("training") or "per_query" ("subsample").
    strategy : str, Strategy, Operator, ndarray, scipy sparse or list, default="auto"
        A family's name, or one strategy for each ensemble.
    voting : str, optional
        As in the classifiers: hard in training, weight in prediction and subsample unless told,
        posterior and product in the modes of tables.
    queries : int or ndarray of int, shape (b, d), optional
        Codes of public queries, or how many to draw uniformly from the domain; 128 by default.
    n_classes : int, optional
        Number of classes, where the domain has no target; 2 then.
    n_records : int, optional
        The *public* number of records: adds signal-to-noise and flip probabilities as shares.
    time_limit : float or "auto", default="auto"
        Seconds of the search for each strategy; "auto" as the classifier, 8 in training and 1 for
        queries.
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
    Plan(training, 8 trees in 1 ensemble, 27 answers by identity, PureDP(epsilon=1) under \
add_remove neighbours, expected error 2.559 rms per leaf)
    >>> made.flip_probabilities(margin=10, rows=[0]).round(3)
    array([0.003])
    """
    kind = kind_of(mode, allocation, UNSAID if voting is None else voting)
    schema, source = _schema(domain, forest)
    budget = budget_or_default(epsilon, rho)
    quorum = _quorum(parties, dropouts, colluders, remove_excess)
    measuring = Measuring(budget, neighboring, budget_shares, strategy, time_limit)
    measuring.check()
    trees = kind.n_trees if isinstance(n_trees, str) and n_trees == AUTO else n_trees
    design = _design(
        kind,
        EnsembleDesign(
            n_ensembles, max_features, feature_subsets, trees, max_depth, splits, source
        ),
        BlockChoice(n_blocks, blocks),
        measuring,
    )
    made = plan_of(
        kind, schema, design, measuring, structure_generator(random_state), queries=queries,
        n_classes=_classes(schema, n_classes),
        n_records=None if n_records is None else whole_number("n_records", n_records),
    )  # fmt: skip
    return made if quorum is None else shared_plan(made, quorum, remove_excess)


def _quorum(
    parties: int | None, dropouts: int, colluders: int, remove_excess: bool
) -> Quorum | None:
    if parties is not None:
        return Quorum(parties, dropouts, colluders)
    if dropouts or colluders or remove_excess:
        raise ValueError(
            f"dropouts={dropouts}, colluders={colluders}, remove_excess={remove_excess} without "
            f"parties: expected parties=, how many there are, or none of them."
        )
    return None


def _design(kind: Kind, trees: EnsembleDesign, blocks: BlockChoice, measuring: Measuring) -> Design:
    """Return the design that the kind has; refuse words of the other."""
    if not (blocks.is_usual or kind.chooses_blocks):
        raise ValueError(
            f"n_blocks={shown(blocks.n_blocks)} and blocks={shown(blocks.blocks)} in "
            f"mode={shown(kind.name)}: expected them in mode='posterior' only. Leave them out."
        )
    if kind.grows_trees:
        return trees
    given: dict[str, Any] = {**vars(trees), "budget_shares": measuring.budget_shares}
    usual: dict[str, Any] = {**vars(EnsembleDesign()), "budget_shares": None}
    strange = [
        name
        for name, value in given.items()
        if not (value is usual[name] or (np.ndim(value) == 0 and value == usual[name]))
    ]
    if not isinstance(measuring.strategy, str) or measuring.strategy != "auto":
        strange.append("strategy")
    if strange:
        raise ValueError(
            f"{', '.join(strange)} in mode={kind.name!r}: its trees are tables of blocks, measured "
            f"as they are. Expected n_blocks or blocks only; leave the others out."
        )
    return blocks


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
