"""Counts of operations behind the expected time of a release; no test looks at a clock."""

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.planning import plan
from mrf_matrix.planning.plans.cost import column_entries, release_seconds
from mrf_matrix.planning.plans.prices import GAUSSIAN_DRAW, LAPLACE_DRAW, START
from strategies.operators import Dense, Grouping, Identity, Marginals, Product, Scaled, Stack

DOMAIN = Domain.from_sizes([3, 4, 2, 3], n_classes=3)
SMALL = {"n_trees": 6, "max_depth": 2, "random_state": 0, "strategy": "identity"}
CELLS = 12


MATRICES = {
    "identity": Identity(CELLS),
    "marginals": Marginals((3, 4), [(0,), (1,), ()], [1, 2, 3]),
    "stack": Stack([Identity(CELLS), Marginals((3, 4), [(0,), ()], [1, 1])]),
    "scaled": Scaled(2.0, Identity(CELLS)),
    "grouped": Product(Dense(np.ones((5, 3))), Grouping(np.arange(CELLS) % 3)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_column_entries_are_those_of_the_dense_twin(name):
    matrix = MATRICES[name]
    expected = np.count_nonzero(matrix.to_dense()) / CELLS
    assert column_entries(matrix) == pytest.approx(expected)


def test_draws_and_records_take_time():
    made = plan(DOMAIN, epsilon=1, n_records=100, **SMALL)
    silent = made.at(epsilon=float("inf"))
    draws = made.parts[0].n_measurements * made.n_classes
    assert release_seconds(made) - release_seconds(silent) == pytest.approx(LAPLACE_DRAW * draws)
    normal = plan(DOMAIN, rho=1, n_records=100, **SMALL)
    gained = release_seconds(normal) - release_seconds(normal.at(rho=float("inf")))
    assert gained == pytest.approx(GAUSSIAN_DRAW * draws)
    assert release_seconds(silent) > START
    few = plan(DOMAIN, epsilon=1, n_records=10, **SMALL)
    assert release_seconds(few) < release_seconds(made)


@pytest.mark.parametrize("method", ["workload_itself", "common_refinement"])
def test_linear_algebra_takes_time_where_no_rule_spares_it(method):
    wide = Domain.from_sizes([9] * 9, n_classes=2)
    times = [
        release_seconds(
            plan(wide, epsilon=1, n_trees=trees, max_depth=1, random_state=0, strategy=method)
        )
        for trees in (2, 8)
    ]
    assert START < times[0] < times[1]


def test_the_posterior_takes_the_time_of_its_blocks_and_classes():
    """It is solved block by block and class by class."""

    def seconds(k, *blocks):
        domain = Domain.from_sizes([3] * 4, n_classes=k)
        made = plan(domain, "tables", epsilon=float("inf"), blocks=blocks)
        return release_seconds(made) - START

    for k in (2, 1000):
        assert seconds(k, [0, 1], [2, 3]) == pytest.approx(2 * seconds(k, [0, 1]), rel=0.02)
    few, some, many = (seconds(k, [0, 1]) for k in (2, 1000, 1998))
    assert some > 3 * few
    assert many - some == pytest.approx(some - few, rel=0.02)
