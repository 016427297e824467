"""Families that search for Laplace noise: laws for all of them, and what each must reach."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from strategies import (
    evaluate,
    examples,
    free_entries,
    gaussian_optimal,
    p_identity,
    row_space,
    select,
)
from strategies.methods.family import Family, Search
from strategies.methods.free_entries import direct_loss
from strategies.operators import Dense, Identity, Marginals, Operator, RowKronecker
from strategies.problem.problem import Problem
from strategies.search.assessment import assess

FAMILIES = {
    family.name: family
    for family in (
        p_identity(),
        row_space(),
        free_entries(),
        gaussian_optimal(),
    )
}
NEVER_ABOVE_IDENTITY = {"p_identity"}


def paths(sizes: tuple[int, ...], rows: int, seed: int) -> RowKronecker:
    random = np.random.default_rng(seed)
    masks = []
    for size in sizes:
        codes = random.integers(0, size, size=rows)
        free = random.random(rows) < 0.6
        masks.append((codes[:, None] == np.arange(size)) | free[:, None])
    return RowKronecker.from_masks(masks)


def prediction(sizes: tuple[int, ...], rows: int, tests: int, seed: int) -> Operator:
    """Return ``Q Tᵀ T`` of random paths and random test records."""
    table = paths(sizes, rows, seed).to_dense()
    cells = np.random.default_rng(seed + 1).integers(0, table.shape[1], size=tests)
    return Dense(table[:, cells].T @ table)


WORKLOADS = {
    "prefix sums": lambda: examples.prefix_sums(12),
    "paths": lambda: paths((3, 2, 4), 25, 0),
    "prediction": lambda: prediction((3, 3, 4), 60, 5, 1),
    "deficient": lambda: Dense(np.outer([1.0, 2.0, 3.0], [1.0, 1.0, -1.0, 0.0, 2.0])),
    "signed": lambda: Dense(np.random.default_rng(2).normal(size=(7, 6))),
    "one row": lambda: Dense(np.array([[1.0, 2.0, 0.0]])),
}


def searched(family: Family, problem: Problem, seed: int = 0, work: float = 0.1) -> Operator:
    starts = (Identity(problem.merging.n_groups),) if problem.merging is not None else ()
    return family.search(problem, Search(starts, np.random.default_rng(seed), work))


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", FAMILIES)
def test_laws(name: str, workload: str) -> None:
    family = FAMILIES[name]
    for norm in sorted(family.norms):
        problem = Problem.of(WORKLOADS[workload](), norm)
        if not family.serves(problem):
            continue
        matrix = searched(family, problem)
        assert problem.merging is not None
        strategy = assess(problem, problem.merging.invert(matrix), name)
        twin = evaluate(problem.workload.to_dense(), strategy.matrix.to_dense(), norm)
        assert twin.loss == pytest.approx(strategy.loss, rel=1e-6)
        assert strategy.lower_bound <= strategy.loss
        if name in NEVER_ABOVE_IDENTITY:
            assert strategy.loss <= problem.merged_total * (1 + 1e-9)
        again = searched(family, problem)
        assert np.array_equal(again.to_dense(), matrix.to_dense())


@given(
    rows=st.integers(1, 6),
    cells=st.integers(2, 7),
    rank=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_small_workloads(rows: int, cells: int, rank: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    left = random.integers(-2, 3, size=(rows, rank))
    right = random.integers(-2, 3, size=(rank, cells))
    workload: NDArray[np.float64] = (left @ right).astype(float)
    if not workload.any():
        return
    for name in ("p_identity", "row_space", "free_entries"):
        problem = Problem.of(workload)
        if not FAMILIES[name].serves(problem) or problem.merging is None:
            continue
        matrix = searched(FAMILIES[name], problem, seed % 1000, 0.05)
        strategy = assess(problem, problem.merging.invert(matrix), name)
        assert strategy.loss >= strategy.lower_bound * (1 - 1e-9)


def test_targets_on_ranges() -> None:
    assert select(examples.prefix_sums(64), method="p_identity", random_state=0).loss <= 907
    assert select(examples.all_ranges(64), method="p_identity", random_state=0).loss <= 32_090
    assert select(examples.binary_tree(64), method="p_identity", random_state=0).loss <= 448


def test_far_starts_beat_the_identity_where_rank_is_low() -> None:
    problem = Problem.of(prediction((4, 4, 3), 150, 6, 3))
    assert problem.merging is not None
    found = searched(p_identity(), problem, work=1.0)
    strategy = assess(problem, problem.merging.invert(found), "p_identity")
    assert strategy.loss < 0.95 * problem.merged_total


def test_row_space_wins_at_low_rank() -> None:
    random = np.random.default_rng(5)
    problem = Problem.of(random.random((4, 2)) @ random.random((2, 60)))
    assert problem.merging is not None
    found = searched(row_space(), problem)
    assert found.shape[0] <= 4
    strategy = assess(problem, problem.merging.invert(found), "row_space")
    assert strategy.loss < 0.3 * problem.merged_total


def test_polishing_improves_marginals() -> None:
    tables = examples.marginals((4, 4, 4), 2)
    problem = Problem.of(tables)
    factor = problem.factor
    assert factor is not None
    start = Marginals((4, 4, 4), [(0, 1), (0, 2), (1, 2)], [0.3, 0.34, 0.36])
    dense = start.to_dense()
    search = Search((start,), np.random.default_rng(0), 2.0)
    found = free_entries().search(problem, search)
    assert direct_loss(factor, found.to_dense()) < direct_loss(factor, dense)
    assert direct_loss(factor, np.ones((1, 64))) == float("inf")


def test_polishing_returns_the_start_without_work() -> None:
    problem = Problem.of(np.tri(5))
    start = Dense(np.tri(5))
    found = free_entries().search(problem, Search((start,), np.random.default_rng(0), 1e-9))
    assert np.array_equal(found.to_dense(), start.to_dense())
