"""Common refinements: exact boxes, exact losses, gradients, and forests they win."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

import strategies
from strategies import evaluate
from strategies.methods.common_refinement import (
    BoxLoss,
    Joiner,
    joined_groups,
    law_sum,
    membership,
    overlaps,
    partitions_of,
    pivoted_cholesky,
    refine,
)
from strategies.methods.family import Search
from strategies.operators import Product, RowKronecker, RowScaled, Sparse
from strategies.operators.masks.components import mask_rows
from strategies.problem.problem import Problem

FAMILY = strategies.common_refinement()


def forest(sizes, trees, depth, seed, dropped=0.0):
    """Grow trees that split one random attribute into its codes, and keep their leaves."""
    rng = np.random.default_rng(seed)
    paths, groups = [], []
    for tree in range(trees):
        stack = [np.full(len(sizes), -1)]
        while stack:
            path = stack.pop()
            if (path >= 0).sum() == min(depth, len(sizes)):
                if rng.uniform() >= dropped:
                    paths.append(path)
                    groups.append(tree)
                continue
            chosen = rng.choice(np.flatnonzero(path < 0))
            for code in range(sizes[chosen]):
                child = path.copy()
                child[chosen] = code
                stack.append(child)
    table = np.array(paths)
    masks = [(table[:, [i]] == np.arange(s)) | (table[:, [i]] < 0) for i, s in enumerate(sizes)]
    return RowKronecker.from_masks(masks, np.array(groups))


SIZES = (2, 3, 2, 2)


def parts_of(workload):
    rows = mask_rows(workload)
    return rows, partitions_of(rows.masks, rows.groups, rows.squares)


def search_of(seed, work=0.3):
    return Search((), np.random.default_rng(seed), work)


def test_overlaps_are_shared_cells():
    workload = forest(SIZES, 4, 2, 0)
    masks = workload.all_masks()
    np.testing.assert_array_equal(overlaps(masks, masks), workload.row_gram() > 0)


def test_a_refinement_is_a_partition_that_knows_both():
    workload = forest(SIZES, 2, 2, 1)
    _, (one, other) = parts_of(workload)
    both = refine(one, other)
    boxes = RowKronecker.from_masks(both.masks).to_dense()
    np.testing.assert_array_equal(boxes.sum(axis=0), 1)
    rows = workload.to_dense()
    inside = (rows @ boxes.T > 0).astype(float)
    np.testing.assert_array_equal(inside @ boxes, rows)  # every leaf is a union of boxes
    np.testing.assert_array_equal(inside.sum(axis=0), both.weights)


def test_pair_costs_follow_every_join():
    _, parts = parts_of(forest(SIZES, 5, 2, 2))
    joiner = Joiner.of(parts)
    joiner.join(0, 3)
    joiner.join(1, 3)
    fresh = Joiner.of(joiner.parts)
    np.testing.assert_allclose(joiner.counts, fresh.counts)
    np.testing.assert_allclose(joiner.sums, fresh.sums)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_joining_never_raises_the_sum(norm):
    _, parts = parts_of(forest((2,) * 10, 12, 2, 3))
    joined = joined_groups(Joiner.of(parts), norm, 1000)
    assert law_sum(joined, norm) <= law_sum(parts, norm) * (1 + 1e-12)
    assert sorted(m for part in joined for m in part.members) == list(range(12))
    cramped = joined_groups(Joiner.of(parts), norm, sum(map(len, parts)))
    assert sum(map(len, cramped)) <= sum(map(len, parts))


def test_groups_that_do_not_cover_stay_alone():
    workload = forest(SIZES, 6, 2, 4, dropped=0.3)
    _, parts = parts_of(workload)
    assert not all(part.covers for part in parts)
    joined = joined_groups(Joiner.of(parts), "l1", 1000)
    assert all(len(part.members) == 1 for part in joined if not part.covers)


def test_pivoted_cholesky_of_a_singular_gram():
    root = np.random.default_rng(0).normal(size=(7, 3))
    factor = pivoted_cholesky(root @ root.T)
    assert factor.shape == (7, 3)
    np.testing.assert_allclose(factor @ factor.T, root @ root.T)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("mixed", [False, True])
def test_loss_and_gradient(norm, mixed):
    rng = np.random.default_rng(5)
    workload = forest(SIZES, 4, 2, 5)
    if mixed:
        mix = rng.integers(0, 3, size=(3, workload.shape[0])).astype(float)
        workload = Product(Sparse(sparse.csr_array(mix)), workload)
    rows, parts = parts_of(workload)
    parts = joined_groups(Joiner.of(parts), "l1", 1000)
    loss = BoxLoss.of(rows, parts)
    point = rng.uniform(0.5, 1.5, size=len(parts))
    value, gradient = loss.log_loss(point, norm)
    masks = [np.concatenate(same) for same in zip(*(p.masks for p in parts), strict=True)]
    boxes = RowKronecker.from_masks(masks, loss.group)
    np.testing.assert_array_equal(
        membership(rows, parts) @ boxes.to_dense(), forest(SIZES, 4, 2, 5).to_dense()
    )
    scales = point if norm == "l1" else np.sqrt(point)
    matrix = RowScaled(scales[loss.group], boxes)
    assert np.exp(value) == pytest.approx(evaluate(workload, matrix, norm).loss)
    numeric = optimize.approx_fprime(point, lambda x: loss.log_loss(x, norm)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)
    assert not np.allclose(gradient + 0.01, numeric, atol=1e-5)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_shallow_forest_over_a_huge_domain(norm):
    """40 trees of depth 2 over 2**60 cells: well below every tree on its own."""
    workload = forest((2,) * 60, 40, 2, 0)
    found = FAMILY.search(Problem.of(workload, norm), search_of(0, 1.0))
    alone = evaluate(workload, workload, norm).loss
    loss = evaluate(workload, found, norm).loss
    assert loss < (0.9 if norm == "l1" else 1 + 1e-9) * alone
    boxes = found.inner
    weights = np.array([found.weights[boxes.groups == g][0] for g in range(boxes.n_groups)])
    expected = weights.sum() if norm == "l1" else np.linalg.norm(weights)
    assert found.sensitivity(norm) == pytest.approx(expected)  # every box of a group weighs alike


def test_deterministic():
    problem = Problem.of(forest((2,) * 40, 10, 2, 1))
    first, again = (FAMILY.search(problem, search_of(3)) for _ in range(2))
    np.testing.assert_array_equal(first.weights, again.weights)


def test_what_it_serves():
    assert FAMILY.serves(Problem.of(forest((2,) * 14, 3, 2, 0)))
    assert not FAMILY.serves(Problem.of(forest(SIZES, 3, 2, 0)))  # few cells: the Identity
    ungrouped = RowKronecker.from_masks(forest((2,) * 14, 3, 2, 0).all_masks())
    assert not FAMILY.serves(Problem.of(ungrouped))
    assert not FAMILY.serves(Problem.of(np.eye(3)))


@given(st.integers(0, 10**6), st.sampled_from(["l1", "l2"]), st.sampled_from([0.0, 0.4]))
def test_the_strategy_determines_every_workload(seed, norm, dropped):
    workload = forest((2, 3, 2, 2), 3, 2, seed, dropped=0.0 if dropped == 0 else 0.2)
    problem = Problem.of(workload, norm)
    matrix = FAMILY.search(problem, search_of(seed, 0.05))
    order = 1 if norm == "l1" else 2
    dense = matrix.to_dense()
    norms = np.linalg.norm(dense, ord=order, axis=0)
    expected = norms.max() ** 2 * np.sum((workload.to_dense() @ np.linalg.pinv(dense)) ** 2)
    assert evaluate(workload, matrix, norm).loss == pytest.approx(expected)
