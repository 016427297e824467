"""Baselines by levels against closed forms, brute force and simulated releases."""

import json

import numpy as np
import pytest
from command_line import run
from scipy import optimize

from mrf_matrix import Domain, MatrixForestClassifier, RandomTrees, compare, load_dataset
from mrf_matrix.cli.plan import ALLOCATIONS
from mrf_matrix.compilation import path_matrix
from mrf_matrix.planning import plan
from mrf_matrix.planning.plans.baselines import RULES, level_strategy, level_weights
from mrf_matrix.planning.plans.kind import KINDS
from strategies import examples
from strategies.methods.trees import tree_sizes, weighted_hierarchy
from strategies.methods.weighted_rows import Candidates, shared_weights
from strategies.operators import RowKronecker
from strategies.operators.ordered_sums import ordered_gram

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
    levels = Candidates.shared(masks, RowKronecker.from_masks([tree]), depths, norm)
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
    for seed in range(25):
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


def test_the_command_line_knows_every_allocation():
    assert set(ALLOCATIONS) == {kind.allocation for kind in KINDS}
    told = ["plan", "monks_1", "--allocation", "geometric_levels", "--n-trees", "2", "--json"]
    record = json.loads(run(*told).stdout)
    assert record["allocation"] == "geometric_levels"
    assert record["ensembles"][0]["strategy"] == "geometric levels"
