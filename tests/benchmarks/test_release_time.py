"""`Plan.seconds` against the clock: shapes that its constants were not fitted to.

Run ``python tests/benchmarks/test_release_time.py`` with one thread of BLAS.
"""

import sys
import time

import numpy as np

from mrf_matrix import Domain
from mrf_matrix.estimators.constructors import from_design
from mrf_matrix.planning import plan
from mrf_matrix.planning.plans.cost import release_seconds

SHAPES = {
    "6 attributes, 32 trees of depth 3": ([5] * 6, 3, 4000, {"n_trees": 32, "max_depth": 3}),
    "9 attributes of 3, workload itself, zCDP": (
        [3] * 9,
        2,
        800,
        {"n_trees": 24, "max_depth": 2, "strategy": "workload_itself", "rho": 0.5},
    ),
    "identity over 65536 cells": (
        [4] * 8,
        2,
        50_000,
        {"n_trees": 16, "max_depth": 3, "strategy": "identity"},
    ),
    "20 attributes of 8, marginals": (
        [8] * 20,
        3,
        20_000,
        {"n_trees": 40, "max_depth": 2, "strategy": "marginals"},
    ),
    "60 bits, 48 binary trees of depth 3": (
        [2] * 60,
        2,
        10_000,
        {"n_trees": 48, "max_depth": 3, "splits": "binary"},
    ),
    "noise on every tree": (
        [6] * 10,
        4,
        15_000,
        {"n_trees": 64, "max_depth": 2, "allocation": "per_tree"},
    ),
}


def clocked(sizes, n_classes, n_records, design):
    """Return predicted seconds of a release, and the processor's time of one."""
    budget = {} if "rho" in design else {"epsilon": 1}
    domain = Domain.from_sizes(sizes, n_classes=n_classes)
    made = plan(domain, n_records=n_records, time_limit=1, random_state=0, **design, **budget)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, n_records) for size in sizes], axis=1)
    labels = rng.integers(0, n_classes, n_records)
    model = from_design(made)
    started = time.process_time()
    model.fit(codes, labels)
    return release_seconds(made), time.process_time() - started


def test_release_time(benchmark):
    """One shape, timed; the table is printed by running the file."""
    shape = SHAPES["9 attributes of 3, workload itself, zCDP"]
    predicted, taken = benchmark.pedantic(clocked, args=shape, rounds=1)
    assert predicted > 0
    assert taken > 0


def main(names):
    for name in names:
        predicted, taken = clocked(*SHAPES[name])
        ratio = predicted / taken
        print(f"| {name} | {predicted:.3f} | {taken:.3f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or SHAPES)
