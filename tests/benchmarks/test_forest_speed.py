"""Speed of growing, compiling, routing and counting, beside a slower way in the same run.

Run with ``pytest tests/benchmarks --benchmark-only``. Limits are ratios to the other way where
there is one, since absolute times vary between machines.
"""

from collections.abc import Callable
from time import perf_counter

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from mrf_matrix.compilation import leaf_counts, path_matrix, prediction_workload, query_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, RandomTrees

CAR = Domain.from_sizes([4, 4, 4, 3, 3, 3])
WIDE = Domain.from_sizes([4] * 20)


def best_of(runs: int, call: Callable[[], object]) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(runs):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


@pytest.fixture(scope="module")
def records() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, size=(100_000, 20)).astype(np.int32)


@pytest.fixture(scope="module")
def forest() -> Forest:
    forest = RandomTrees(n_trees=128, max_depth=4).grow(WIDE, random_state=0)
    _ = forest.router, forest.leaf_index
    return forest


@pytest.mark.parametrize("splits", ["multiway", "binary"])
def test_grow_128_trees_of_depth_4(benchmark, splits):
    source = RandomTrees(n_trees=128, max_depth=4, splits=splits)
    benchmark(source.grow, CAR, 0)
    assert benchmark.stats["min"] < 0.05


def test_compile(benchmark):
    forest = RandomTrees(n_trees=128, max_depth=4).grow(CAR, random_state=0)
    matrix = benchmark(path_matrix, forest)
    assert matrix.bits.nbytes <= matrix.shape[0] * (sum(CAR.sizes) / 8 + 1)


def test_prediction_workload(benchmark):
    forest = RandomTrees(n_trees=128, max_depth=4).grow(CAR, random_state=0)
    codes = np.random.default_rng(0).integers(0, CAR.sizes, size=(346, 6))
    benchmark(prediction_workload, forest, query_matrix(codes, CAR))


def test_apply_against_scikit_learn(benchmark, forest, records):
    """scikit-learn's compiled router, on trees of the same number and depth, one thread."""
    labels = records[:2000, 0] % 2
    trees = ExtraTreesClassifier(n_estimators=128, max_depth=4, random_state=0)
    trees.fit(records[:2000], labels)
    floats = records.astype(np.float32)
    theirs = best_of(3, lambda: trees.apply(floats))
    benchmark(forest.apply, records)
    ratio = benchmark.stats["min"] / theirs
    benchmark.extra_info["times scikit-learn's"] = round(ratio, 2)
    assert ratio < 3


def test_apply_against_a_loop_over_records(benchmark, forest, records):
    few = records[:50].tolist()
    tables = [
        getattr(forest, name).tolist()
        for name in ("attribute", "first_child", "pattern", "branches", "roots")
    ]

    def loop() -> None:
        attribute, first_child, pattern, branches, roots = tables
        for record in few:
            for root in roots:
                node = root
                while attribute[node] >= 0:
                    code = record[attribute[node]]
                    node = first_child[node] + branches[pattern[node] + code]

    theirs = best_of(3, loop) / len(few)
    benchmark(forest.apply, records)
    ratio = theirs / (benchmark.stats["min"] / len(records))
    benchmark.extra_info["times faster"] = round(ratio, 1)
    assert ratio > 4


def test_counting_costs_little_more_than_routing(benchmark, forest, records):
    labels = (records[:, 0] % 3).astype(np.int32)
    routing = best_of(3, lambda: forest.apply(records))
    benchmark(leaf_counts, forest, records, labels, 3)
    assert benchmark.stats["min"] < 2 * routing
