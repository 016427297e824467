"""Strategies of plans: of least expected error under their noise, and baselines by levels."""

from fractions import Fraction
from functools import partial
from itertools import cycle, product
from math import exp, sinh

import numpy as np
import pytest
from scipy import optimize

import strategies
from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    RandomTrees,
    SubsampleAggregateClassifier,
    compare,
    expected_error,
    load_dataset,
)
from mrf_matrix.compilation import path_matrix, prediction_workload, query_matrix
from mrf_matrix.error.expected_errors import least_expected_error
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP, calibrate
from mrf_matrix.planning import plan
from mrf_matrix.planning.plans.baselines import RULES, level_strategy, level_weights
from strategies import examples
from strategies.methods.trees import tree_sizes, weighted_hierarchy
from strategies.methods.weighted_rows import Candidates, shared_weights
from strategies.operators import RowKronecker
from strategies.operators.ordered_sums import ordered_gram

BUDGETS = (PureDP(Fraction(1, 10)), PureDP(1), PureDP(4), ZCDP(Fraction(1, 2)), ZCDP(8))


def discrete_laplace(scale):
    """Return the variance of ``P(x) ~ exp(-|x|/t)`` over the integers."""
    return 1 / (2 * sinh(1 / (2 * scale)) ** 2)


def discrete_gaussian(square):
    x = np.arange(-60, 61)
    mass = np.exp(-(x**2) / (2 * square))
    return float(x**2 @ mass / mass.sum())


def workload(seed):
    domain = Domain.from_sizes([3, 2, 3])
    forest = RandomTrees(n_trees=5, max_depth=2).grow(domain, random_state=seed)
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, 9) for size in domain.sizes], axis=1)
    return prediction_workload(path_matrix(forest), query_matrix(codes, domain))


@pytest.mark.slow
def test_the_loss_and_the_noise_rank_differently(car):
    """Car at ε = 4: a search's loss is below the Identity's, its squared error above."""
    forest = RandomTrees(n_trees=12, max_depth=3).grow(car.domain, random_state=0)
    T, Q = path_matrix(forest), query_matrix(car.codes[::8], car.domain)
    W = prediction_workload(T, Q)
    found = strategies.select(W, time_limit=5, random_state=0)
    identity = strategies.select(W, method="identity")
    assert found.loss < identity.loss
    by_loss, plain = (expected_error(one, W, epsilon=4).total for one in (found, identity))
    assert plain == pytest.approx(discrete_laplace(1 / 4) * identity.loss)
    assert plain < by_loss
    for epsilon, expected in ((4, plain), (0.1, expected_error(found, W, epsilon=0.1).total)):
        calibrated = partial(calibrate, budget=PureDP(epsilon), workload=W)
        chosen, mechanism = least_expected_error((found, *found.alternatives), calibrated, W)
        assert expected_error(chosen, W, epsilon=epsilon).total == pytest.approx(expected)
        assert mechanism.method == chosen.method


@pytest.mark.parametrize(
    ("budget", "neighboring"), list(zip(BUDGETS, cycle(NEIGHBORING))), ids=repr
)
def test_no_candidate_is_better(budget, neighboring):
    for seed in range(2):
        W = workload(seed)
        found = strategies.select(W, budget.norm, time_limit=0.05, random_state=0)
        calibrated = partial(calibrate, budget=budget, neighboring=neighboring, workload=W)
        _, mechanism = least_expected_error((found, *found.alternatives), calibrated, W)
        amount = {"epsilon" if budget.norm == "l1" else "rho": budget.exact}
        errors = {
            one.method: expected_error(one, W, neighboring=neighboring, **amount).total
            for one in (found, *found.alternatives)
        }
        assert errors[mechanism.method] <= min(errors.values()) * (1 + 1e-9)


def test_an_identity_is_taken_where_its_noise_is_small():
    """By hand, from laws and losses alone: at rho = 8 nearly all draws are 0."""
    W = workload(0).to_dense()
    merged = np.unique(W, axis=1, return_counts=False)
    for budget, own in (
        (PureDP(6), discrete_laplace(1 / 6)),
        (ZCDP(8), discrete_gaussian(1 / 16)),
    ):
        found = strategies.select(W, budget.norm, time_limit=0.05, random_state=0)
        continuous = 2 / 36 if budget.norm == "l1" else 1 / 16
        assert own * (merged**2).sum() < continuous * found.lower_bound
        calibrated = partial(calibrate, budget=budget, workload=W)
        operator = strategies.operators.as_operator(W, "workload")
        chosen, _ = least_expected_error((found, *found.alternatives), calibrated, operator)
        assert chosen.loss == pytest.approx((merged**2).sum())


SMALL = {"n_trees": 5, "max_depth": 2, "random_state": 3, "time_limit": 0.1}
DOMAIN = Domain.from_sizes([3, 2, 3], n_classes=2)
CELLS = np.array(list(product(range(3), range(2), range(3))))


@pytest.mark.parametrize(
    ("budget", "neighboring"),
    [
        ({"epsilon": 6, "rho": None}, "add_remove"),
        ({"epsilon": None, "rho": 8}, "replace_one"),
    ],
    ids=str,
)
def test_plans_and_estimators_choose_alike(budget, neighboring):
    queries = CELLS[[0, 3, 3, 8, 11, 17, 17, 17]]
    same = {**budget, **SMALL, "neighboring": neighboring}
    for word, kind, voting in (
        ("batch", BatchPredictionClassifier, {}),
        ("subsample", SubsampleAggregateClassifier, {"voting": "weight"}),
        ("subsample", SubsampleAggregateClassifier, {"voting": "hard"}),
    ):
        promised = plan(DOMAIN, word, queries=queries, **same, **voting)
        released = kind(DOMAIN, **same, **voting).plan(queries)
        assert [one.strategy.method for one in released.parts] == [promised.strategy.method]
        assert released.rms_per_vote == pytest.approx(promised.rms_per_vote)
    promised = plan(DOMAIN, **same)
    model = MatrixForestClassifier(DOMAIN, **same).fit(CELLS, np.arange(18) % 2)
    assert model.strategy_.method == promised.strategy.method
    assert model.privacy_report_.expected_rms_per_leaf == pytest.approx(
        promised.rms_per_leaf, rel=1e-6
    )


def test_what_the_user_names_is_not_chosen_again():
    named = {"n_trees": 5, "max_depth": 2, "random_state": 0, "time_limit": 0.1}
    for epsilon in (1, 6):
        for name in ("p_identity", "workload_itself", "identity"):
            made = plan(Domain.from_sizes([3, 2, 3]), epsilon=epsilon, strategy=name, **named)
            assert made.strategy.method == name
    matrix = np.vstack([np.eye(18), np.ones((1, 18))])
    made = plan(Domain.from_sizes([3, 2, 3]), epsilon=6, strategy=matrix, **named)
    assert made.strategy.method == "given"
    free = plan(Domain.from_sizes([3, 2, 3]), rho=8, optimise_for="leaves", **named)
    selected = strategies.select(made.parts[0].workload, "l2", time_limit=0.05, random_state=0)
    assert selected.method != free.strategy.method == "identity"
    made = plan(Domain.from_sizes([3, 2, 3]), rho=8, strategy=selected, **named)
    assert made.strategy is selected


def test_searched_arrays_are_not_kept_twice():
    found = strategies.select(workload(0), time_limit=0.05, random_state=0)
    kept = [one.family for one in found.candidates if one.matrix is not None]
    assert "identity" in kept
    assert not {"p_identity", "row_space", "free_entries", "gaussian_optimal"} & set(kept)


def test_laws_of_the_oracle_are_those_of_the_texts():
    assert discrete_laplace(1) == pytest.approx(2 * exp(-1) / (1 - exp(-1)) ** 2)
    assert discrete_laplace(1) == pytest.approx(1.8413, abs=1e-4)
    assert discrete_gaussian(1 / 4) == pytest.approx(0.215, abs=1e-3)


# Baselines by levels ------------------------------------------------------------------------------


UNEVEN = RandomTrees(n_trees=5, max_depth=3, splits="binary").grow(Domain.from_sizes([3, 2, 4]), 1)
NORMS = ("l1", "l2")


def nodes_one_by_one(forest):
    """Walk every tree: a row and a depth for each node, children marked off their parents."""
    codes = np.indices(forest.domain.sizes).reshape(len(forest.domain.sizes), -1).T
    rows, depths = [], []
    for leaves in forest.apply(codes).T:
        met = {}
        for cell, leaf in enumerate(leaves):
            node, above = forest.leaves[leaf], []
            while node >= 0:
                above.append(node)
                node = forest.parent[node]
            for depth, passed in enumerate(reversed(above)):
                met.setdefault((depth, passed), np.zeros(len(codes)))[cell] = 1
        depths += [depth for depth, _ in met]
        rows += list(met.values())
    return np.array(rows), np.array(depths)


def dense_loss(T, A, norm):
    size = np.abs(A).sum(axis=0).max() ** 2 if norm == "l1" else (A**2).sum(axis=0).max()
    return size * np.linalg.norm(T @ np.linalg.pinv(A)) ** 2


@pytest.mark.parametrize("norm", NORMS)
def test_losses_are_those_of_nodes_walked_one_by_one(norm):
    rows, depths = nodes_one_by_one(UNEVEN)
    T = path_matrix(UNEVEN).to_dense()
    sizes = np.bincount(depths)
    weights = {"uniform": np.ones(4), "geometric": sizes ** {"l1": 1 / 3, "l2": 1 / 4}[norm]}
    found = {rule: level_strategy(UNEVEN, norm, rule) for rule in RULES}
    for rule, own in weights.items():
        np.testing.assert_allclose(level_weights(UNEVEN, norm, rule), own)
        assert found[rule].loss == pytest.approx(
            dense_loss(T, own[depths, None] * rows, norm), rel=1e-9
        )

    def loss(logs):
        return np.log(dense_loss(T, np.exp(logs)[depths, None] * rows, norm))

    rng = np.random.default_rng(0)
    best = min(
        optimize.minimize(loss, start, method="Nelder-Mead", options={"maxiter": 600}).fun
        for start in [np.zeros(4), rng.normal(size=4), [-4.0, -4.0, -4.0, 0.0]]
    )
    assert found["optimal"].loss <= np.exp(best) * (1 + 5e-3)
    assert found["optimal"].loss <= min(found[rule].loss for rule in weights) * (1 + 1e-9)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["prefix_sums", "all_ranges"])
def test_weights_that_pay_reach_the_closed_form(kind, norm):
    """Binary trees over 16 ordered cells, where inner levels are worth their budget."""
    workload = getattr(examples, kind)(16)
    tree = examples.binary_tree(16).to_dense().astype(bool)
    masks = RowKronecker.from_masks([workload.to_dense().astype(bool)])
    depths = np.repeat(np.arange(5), 2 ** np.arange(5)).astype(np.int32)
    levels = Candidates.per_group(masks, RowKronecker.from_masks([tree]), depths, norm)
    found = shared_weights(levels, [np.ones(5), np.eye(5)[4]])
    known = weighted_hierarchy(ordered_gram(workload), tree_sizes(16, 2), norm).loss
    reached = dense_loss(workload.to_dense(), found[depths, None] * tree, norm)
    assert reached == pytest.approx(known, rel=1e-3)
    assert np.count_nonzero(found) > (kind == "prefix_sums")


@pytest.mark.parametrize("rule", RULES)
def test_what_is_planned_is_what_is_released(rule):
    domain = Domain.from_sizes([3, 4], n_classes=2)
    design = {"n_trees": 3, "max_depth": 2, "random_state": 0, "allocation": f"{rule}_levels"}
    made = plan(domain, epsilon=1.5, **design)
    assert made.certified_ratio >= 1
    assert made.parts[0].method == f"{rule} levels"
    codes, labels = np.zeros((40, 2), dtype=int), np.zeros(40, dtype=int)
    errors = []
    for seed in range(12):
        model = MatrixForestClassifier(
            domain, epsilon=1.5, noise="research", noise_state=seed, **design
        ).fit(codes, labels)
        assert model.plan_.total == pytest.approx(made.total)
        exact = np.zeros_like(model.leaf_values_)
        exact[model.forest_.apply(codes[:1])[0], 0] = 40
        errors.append(np.sum((model.leaf_values_ - exact) ** 2))
    assert np.mean(errors) == pytest.approx(made.total, rel=0.35)


def test_baselines_stand_in_tables_and_studies():
    monks = load_dataset("monks_1")
    quick = {"n_trees": 2, "max_depth": 2, "epsilons": [1.0], "n_splits": 1, "n_draws": 1}
    study = compare(monks, kind=["matrix", "uniform_levels"], strategy="identity", **quick)
    assert {"uniform levels", "geometric levels", "optimal levels"} <= {
        row.name for row in study.strategies
    }
    assert {score.method for score in study.scores} == {"matrix", "uniform_levels"}
    assert "exact noise" in study.methods[1].privacy("exact")


def test_a_batch_over_many_cells_is_measured_by_what_select_finds():
    """Tables of few attributes are far below the Identity there."""
    domain, rng = Domain.from_sizes((4,) * 7, n_classes=2), np.random.default_rng(0)
    queries = np.stack([rng.integers(4, size=400) for _ in range(7)], axis=1)
    design = {"kind": "batch", "n_trees": 32, "max_depth": 3, "random_state": 0}
    made = plan(domain, epsilon=1, queries=queries, **design)
    plain = plan(domain, epsilon=1, queries=queries, strategy="identity", **design)
    assert made.total < 0.7 * plain.total
