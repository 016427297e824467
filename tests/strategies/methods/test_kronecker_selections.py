"""Products and unions of products: what the parts promise, the whole keeps."""

import numpy as np
import pytest

from strategies import evaluate, examples, select
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    Operator,
    Scaled,
    Stack,
)
from tests.strategies.workloads import lower_bound

PREFIX, RANGES = examples.prefix_sums, examples.all_ranges
PRODUCTS: dict[str, Kronecker] = {
    "prefix": Kronecker([PREFIX(6), PREFIX(5)]),
    "ranges": Kronecker([RANGES(5), RANGES(4)]),
    "three": Kronecker([PREFIX(4), Identity(3), Dense(np.ones((1, 2)))]),
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_not_above_the_product_of_the_factors_answers(name: str, norm: str) -> None:
    workload = PRODUCTS[name]
    alone = [select(f, norm, random_state=0, time_limit=0.1) for f in workload.factors]
    together = select(workload, norm, random_state=0, time_limit=0.3)
    assert together.loss <= np.prod([one.loss for one in alone]) * 1.01
    bound = lower_bound(workload, norm)
    assert bound == pytest.approx(np.prod([one.lower_bound for one in alone]), rel=1e-3)
    assert bound <= together.loss
    if norm == "l2":
        assert together.certified_ratio < 1.001


def test_large_products_are_certified_for_gaussian_noise() -> None:
    """65 536 cells: 0.26 of the Identity's loss would be silence here before."""
    workload = Kronecker([PREFIX(16)] * 4)
    strategy = select(workload, "l2", random_state=0, time_limit=1.0)
    one = select(PREFIX(16), "l2", random_state=0)
    assert strategy.method == "kronecker_selections"
    assert strategy.loss == pytest.approx(one.loss**4, rel=1e-5)
    assert strategy.certified_ratio < 1.001


def union(n: int) -> Stack:
    total = Dense(np.ones((1, n)))
    return Stack(
        [
            Kronecker([PREFIX(n), total]),
            Scaled(2.0, Kronecker([total, PREFIX(n)])),
            Kronecker([Identity(n), Identity(n)]),
        ]
    )


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_unions_against_their_dense_twins(norm: str) -> None:
    workload = union(4)
    strategy = select(workload, norm, method="kronecker_selections", random_state=0)
    twin = evaluate(workload.to_dense(), strategy.matrix.to_dense(), norm)
    assert twin.loss == pytest.approx(strategy.loss, rel=1e-9)
    optimum = select(workload.to_dense(), "l2", random_state=0).loss
    assert lower_bound(workload, norm) <= optimum


@pytest.mark.slow
def test_census_like_counts() -> None:
    workload = examples.census_like(ages=10, regions=2)
    assert isinstance(workload.blocks[0], Kronecker)
    dense: Operator = workload.blocks[1]
    assert dense.to_dense().sum(axis=0) == pytest.approx(np.full(workload.shape[1], 2.0))
    for norm in ("l1", "l2"):
        strategy = select(workload, norm, random_state=0, time_limit=0.3)
        assert strategy.loss < workload.sensitivity(norm) ** 2 * workload.shape[0]
        assert strategy.loss < float(workload.row_squares().sum())
        assert strategy.lower_bound <= strategy.loss


def test_a_product_is_never_above_the_product_of_its_factors_alone() -> None:
    """With the same seed and time, whatever the randomness of the searches."""
    factors = [examples.prefix_sums(9), Identity(7), examples.prefix_sums(5)]
    for seed in (0, 1):
        asked = {"random_state": seed, "time_limit": 0.1}
        alone = [select(factor, **asked).loss for factor in factors]
        found = select(Kronecker(factors), **asked)
        assert found.loss <= np.prod(alone) * (1 + 1e-9)
