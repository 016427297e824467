"""Plans against simulated releases, the classifiers' own figures, and impossible requests."""

import inspect

import numpy as np
import pytest

import strategies
from mrf_matrix import Domain, Provenance, RandomTrees
from mrf_matrix.forests import LearnedStructureError, MultinomialTrees
from mrf_matrix.mechanisms import NEIGHBORING, CellCounts, PureDP, measure, reconstruct
from mrf_matrix.planning import Plan, PlanPart, plan
from strategies import MemoryCapError, memory_cap

DOMAIN = Domain.from_sizes([3, 4, 2, 3], n_classes=3)
SMALL = {"n_trees": 6, "max_depth": 2, "random_state": 0, "time_limit": 0.05}
BUDGETS = ({"epsilon": 0.7}, {"rho": 0.2})
RELEASES = 2000
MODES = ("matrix", "batch", "subsample")


def released(part, rng, releases=RELEASES):
    """Return errors of simulated releases of one part: answers x releases.

    Class columns of one release carry independent noise, so 2000 columns are 2000 releases.
    """
    sizes = part.ensemble.forest.domain.sizes
    if part.mechanism.rounded.matrix.shape[1] != np.prod(sizes):
        sizes = (part.mechanism.rounded.matrix.shape[1],)
    cells = np.zeros((1, len(sizes)), dtype=np.int32)
    counts = CellCounts(cells, np.ones((1, releases), dtype=np.int64), sizes)
    release = measure(part.mechanism, counts, noise="research", random_state=rng)
    if part.strategy is None:
        return release.values - counts.answers(release.matrix) / float(release.scale)
    truth = part.workload.columns(np.zeros(1, dtype=np.int64)).toarray()
    return reconstruct(release, part.workload) - truth


LAPLACE_ONLY = {"p_identity", "free_entries", "row_space"}
ATTRIBUTES_ONLY = {"common_refinement", "marginals"}
"""Families that do not serve a table of leaves, which has no attributes."""
SELDOM = {
    "boxes": {("matrix", "epsilon"), ("matrix", "rho")},
    "ordered_cells": set(),
    "prefix_factorisation": set(),
    "toeplitz": set(),
    "weighted_rows": set(),
    "kronecker_selections": set(),
    "oblique_residuals": set(),
    "product_marginals": set(),
    "joint_tables": set(),
    "weighted_kronecker": set(),
    "path_optimal": set(),
    "leaves": {("batch", "rho")},
    "residual_marginals": {("matrix", "rho"), ("batch", "rho")},
}
"""Families of few workloads: where these plans are served by them."""
WIDE = Domain.from_sizes([9] * 9, n_classes=3)
"""Too large to enumerate: the home of the common refinement."""


def served(method, kind, budget):
    """Tell whether a family serves a kind and the norm of a budget."""
    if method in SELDOM:
        return (kind, *budget) in SELDOM[method]
    laplace, leaves = "epsilon" in budget, kind == "subsample"
    return (laplace or method not in LAPLACE_ONLY) and not (leaves and method in ATTRIBUTES_ONLY)


def relative_error(made):
    """Return the rms error of 2000 simulated releases over the planned one, less 1."""
    errors = released(made.parts[0], np.random.default_rng(1))
    weights = np.ones(len(errors)) if made.kind.name == "matrix" else made.multiplicity
    found = np.sqrt(np.average((errors**2).mean(axis=1), weights=weights))
    return found / (made.rms_per_leaf if made.kind.name == "matrix" else made.rms_per_vote) - 1


@pytest.mark.parametrize(
    ("method", "kind", "budget"),
    [
        (method, kind, budget)
        for number, method in enumerate([*strategies.families(), "auto"])
        for place, kind in enumerate(MODES)
        for norm, budget in enumerate(BUDGETS)
        if (number + place + norm) % 2 or (kind, *budget) in SELDOM.get(method, ())
    ],
    ids=str,
)
def test_errors_agree_with_simulated_releases(method, kind, budget):
    """Every family by name, of every kind, in either norm (by the budget), under both relations."""
    wide = method == "common_refinement"
    settings = {**SMALL, **budget, "queries": 30, "time_limit": 0.05}
    if wide:
        settings |= {"n_trees": 4, "splits": "binary"}
    domain = WIDE if wide else DOMAIN
    if not served(method, kind, budget):
        with pytest.raises(ValueError, match="cannot serve"):
            plan(domain, kind, strategy=method, **settings)
        return
    made = plan(domain, kind, strategy=method, **settings)
    relation = NEIGHBORING[kind == "batch"]
    same = plan(domain, kind, strategy=made.strategy, neighboring=relation, **settings)
    assert same.neighboring == relation
    assert abs(relative_error(same)) < 0.03


def test_a_wrong_error_is_noticed():
    """Negative control: the plan of a budget 4 % off is not within 3 %."""
    made = plan(DOMAIN, strategy="identity", epsilon=0.7, **SMALL)
    other = plan(DOMAIN, strategy="identity", epsilon=0.728, **SMALL)
    errors = released(other.parts[0], np.random.default_rng(1))
    assert abs(np.sqrt((errors**2).mean()) / made.rms_per_leaf - 1) > 0.03


@pytest.mark.parametrize(
    ("kind", "allocation", "voting"),
    [
        ("matrix", "per_tree", None),
        ("matrix", "disjoint", None),
        ("subsample", "matrix", "hard"),
        ("subsample", "per_query", "hard"),
        ("subsample", "per_query", "weight"),
    ],
)
@pytest.mark.parametrize("relation", NEIGHBORING)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_baselines_agree_with_simulated_releases(kind, allocation, voting, budget, relation):
    made = plan(
        DOMAIN,
        kind,
        neighboring=relation,
        allocation=allocation,
        voting=voting,
        strategy="identity",
        queries=30,
        **SMALL,
        **budget,
    )
    errors = released(made.parts[0], np.random.default_rng(2))
    assert np.sqrt((errors**2).mean()) == pytest.approx(
        np.sqrt(made.row_variances.mean()), rel=0.03
    )


def test_votes_of_several_ensembles_agree_with_simulated_releases():
    made = plan(
        DOMAIN,
        "batch",
        epsilon=1,
        n_ensembles=2,
        max_features=2,
        budget_shares=[1, 3],
        strategy="identity",
        queries=20,
        **SMALL,
    )
    rng = np.random.default_rng(3)
    errors = sum(released(part, rng, releases=30_000) for part in made.parts)
    rms = np.sqrt(np.average((errors**2).mean(axis=1), weights=made.multiplicity))
    assert rms == pytest.approx(made.rms_per_vote, rel=0.03)
    flips = made.flip_probabilities(margin=8)
    found = flipped(errors, 8)
    assert flips == pytest.approx(found, abs=0.02)


def flipped(errors, margin):
    """Return how often a class ahead by a margin loses to one rival; ties count half."""
    half = errors.shape[1] // 2
    ahead = errors[:, :half] + margin - errors[:, half : 2 * half]
    ahead = np.round(ahead, 9)
    return (ahead < 0).mean(axis=1) + 0.5 * (ahead == 0).mean(axis=1)


@pytest.mark.parametrize(
    ("method", "budget"),
    [
        ("identity", {"epsilon": 0.5}),
        ("workload_itself", {"epsilon": 3.0}),
        ("marginals", {"rho": 2.0}),
        ("auto", {"epsilon": 3.0}),
    ],
)
def test_leaf_flips_agree_with_simulated_releases(method, budget):
    made = plan(DOMAIN, strategy=method, **{**SMALL, "n_trees": 3}, **budget)
    errors = released(made.parts[0], np.random.default_rng(4), releases=10_000)
    for share in (0.3, 1.5):
        margin = float(np.ceil(share * made.rms_per_leaf))
        found = flipped(errors, margin)
        assert made.flip_probabilities(margin=margin) == pytest.approx(found, abs=0.02)


HUGE = Domain.from_sizes([9, 9, 16, 7, 15, 6, 5, 2, 10, 10, 10, 42, 16, 5], n_classes=2)


@pytest.mark.parametrize("of", ["answer", "vote"])
@pytest.mark.parametrize("method", ["marginals", "workload_itself", "common_refinement"])
def test_flips_of_implicit_strategies_agree_with_simulated_releases(method, of):
    """One or two coarse draws dominate, over 3e13 cells: the normal law would be .03 off."""
    kind = "matrix" if of == "answer" else "batch"
    made = plan(HUGE, kind, strategy=method, rho=2, n_trees=2, max_depth=1, queries=20,
                random_state=0, time_limit=0.2)  # fmt: skip
    assert made.parts[0].terms(np.arange(2)) is not None
    errors = released(made.parts[0], np.random.default_rng(6), releases=40_000)
    margin = float(np.ceil(0.5 * np.sqrt(made.row_variances.max())))
    assert made.flip_probabilities(margin=margin) == pytest.approx(
        flipped(errors, margin), abs=0.02
    )


@pytest.mark.parametrize(("kind", "budget"), [("batch", BUDGETS[0]), ("subsample", BUDGETS[1])])
def test_errors_of_several_ensembles_add_up(kind, budget):
    several = {"n_ensembles": 2, "max_features": 3}
    made = plan(DOMAIN, kind, strategy="identity", queries=30, **several, **budget, **SMALL)
    errors = sum(released(one, np.random.default_rng(i)) for i, one in enumerate(made.parts))
    assert np.sqrt((errors**2).mean()) == pytest.approx(
        np.sqrt(made.row_variances.mean()), rel=0.03
    )


def test_votes_of_a_training_plan():
    made = plan(DOMAIN, epsilon=1, strategy="identity", queries=15, **SMALL)
    asked = plan(made.forest, "batch", epsilon=1, strategy=made.strategy, queries=15, n_classes=3)
    assert made.vote_variances == pytest.approx(asked.row_variances)
    assert made.flip_probabilities(margin=20, of="vote") == pytest.approx(
        asked.flip_probabilities(margin=20)
    )


def test_planning_takes_no_data():
    """No argument of a plan is records or labels, and no record is read on the way."""
    private = {"X", "y", "data", "dataset", "records", "labels", "counts", "frame", "release"}
    for call in (plan, Plan, Plan.at, Plan.flip_probabilities, Plan.to_dict, PlanPart):
        assert private.isdisjoint(inspect.signature(call).parameters)
    with pytest.raises(TypeError, match="takes no records"):
        plan(np.zeros((5, 2)), epsilon=1)


def test_records_add_signal_to_noise():
    made = plan(DOMAIN, epsilon=1, strategy="identity", n_records=720, **SMALL)
    trees = made.forest.leaf_tree
    assert np.bincount(trees, made.expected_records) == pytest.approx(720)
    assert made.signal_to_noise == pytest.approx(made.expected_records / made.row_rms)
    assert (made.flip_probabilities(share=0.5) <= made.flip_probabilities(share=0.1)).all()
    both = [made.flip_probabilities(margin=5, rivals=r, rows=[0])[0] for r in (1, 2, 5)]
    assert both == sorted(both)
    with pytest.raises(ValueError, match="n_records"):
        _ = plan(DOMAIN, epsilon=1, strategy="identity", **SMALL).expected_records


def test_schemas_too_large_to_enumerate():
    adult = Domain.from_sizes([9, 9, 16, 7, 15, 6, 5, 2, 10, 10, 10, 42, 16, 5], n_classes=2)
    bits = Domain.from_sizes([2] * 123, n_classes=2)
    for domain in (adult, bits):
        with memory_cap(2**28):
            made = plan(domain, epsilon=1, n_trees=8, max_depth=2, time_limit=0.5, n_records=30_000,
                        splits="binary", random_state=0)  # fmt: skip
            assert np.isfinite(made.rms_per_leaf)
            assert made.to_dict()["mean_flip_probability"]
        made_of = [size for size in made.array_sizes if "occupied cells" not in size.name]
        assert max(size.nbytes for size in made_of) < 2**24, "records take what they take"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1, "rho": 1}, "exactly one"),
        ({"epsilon": 1, "kind": "voting"}, "kind"),
        ({"max_depth": -1}, "max_depth"),
        ({"max_depth": -1, "forest": RandomTrees(2, 1)}, "max_depth"),
        ({"n_trees": 0, "forest": RandomTrees(2, 1)}, "n_trees"),
        ({"n_records": -1}, "n_records"),
        ({"kind": "tables", "n_blocks": 99}, "n_blocks"),
        ({"time_limit": None}, "time_limit"),
        ({"time_limit": -1, "strategy": "identity"}, "time_limit"),
        ({"epsilon": 1, "max_features": 9}, "max_features"),
        ({"epsilon": 1, "n_ensembles": 3, "n_trees": 2}, "at least one tree"),
        ({"epsilon": 1, "feature_subsets": [[0, 7]]}, "7"),
        ({"epsilon": 1, "n_ensembles": 2, "budget_shares": [1]}, "budget_shares"),
        ({"epsilon": 1, "voting": "loud"}, "voting"),
        ({"epsilon": 1, "kind": "batch", "voting": "hard"}, "voting"),
        ({"epsilon": 1, "allocation": "per_query"}, "allocation"),
        ({"epsilon": 1, "strategy": "magic"}, "magic"),
        ({"epsilon": 1, "neighboring": "friends"}, "neighboring"),
        ({"epsilon": 1, "n_records": 0}, "n_records"),
        ({"epsilon": 1, "n_classes": 2}, "n_classes"),
        ({"epsilon": 1, "queries": np.zeros((0, 4), dtype=int)}, "queries"),
        ({"epsilon": 1, "forest": MultinomialTrees()}, "learns from records"),
    ],
)
def test_impossible_requests_say_what_to_change(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan(DOMAIN, **{"time_limit": 0.2} | arguments)


def test_without_a_budget_epsilon_is_one_and_depth_is_at_most_what_the_domain_allows():
    made = plan(DOMAIN, max_depth=9, n_trees=4, strategy="identity", random_state=0)
    deepest = plan(DOMAIN, epsilon=1, max_depth=4, n_trees=4, strategy="identity", random_state=0)
    assert made.budget == deepest.budget == PureDP(1)
    assert made.total == pytest.approx(deepest.total)
    assert made.to_dict()["notes"] == ["max_depth=9: trees are 4 deep, all that attributes allow"]
    assert "notes" not in deepest.to_dict()


def test_structures_learned_from_records_are_refused():
    from dataclasses import replace

    forest = RandomTrees(2, 1).grow(DOMAIN, 0)
    for spent in (None, PureDP(1)):
        found = Provenance.spent(spent) if spent else Provenance.from_records("forest")
        learned = replace(forest, provenance=found)
        with pytest.raises(LearnedStructureError, match="record"):
            plan(learned, epsilon=1)


def test_the_memory_cap_is_named():
    with memory_cap(2000), pytest.raises(MemoryCapError, match="cap"):
        plan(DOMAIN, epsilon=1, n_trees=64, max_depth=3)
