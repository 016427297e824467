"""Product marginals for Laplace noise: losses against dense algebra, and against other families."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import select
from strategies.operators import (
    AllRanges,
    Dense,
    Identity,
    JointMarginals,
    Kronecker,
    PrefixSums,
    ProductMarginals,
    Stack,
    error_trace,
    estimate,
    memory_cap,
    row_errors,
)
from tests.strategies.workloads import definition, ways


def product(*factors: object) -> Kronecker:
    return Kronecker([Dense(np.asarray(factor, dtype=np.float64)) for factor in factors])


MERGED = np.kron(np.eye(3), np.ones((1, 2)))  # six codes in three classes
LATE = np.array([[0, 0, 0, 1, 1, 1]])
ONE = {n: np.ones((1, n)) for n in (3, 4, 6)}
BY_GROUPS = Stack(
    [
        product(np.tri(4), MERGED, np.tri(6), np.eye(3)),
        product(np.tri(4), MERGED, np.tri(6), ONE[3]),
        product(ONE[4], np.eye(6), LATE, np.eye(3)),
        product(ONE[4], np.eye(6), LATE, ONE[3]),
        product(ONE[4], MERGED, LATE, ONE[3]),
        product(ONE[4], MERGED[:1], ONE[6], ONE[3]),
    ]
)
"""Race in classes by age, and every race by being of age: two groups see coarse classes both."""
WORKLOADS = {
    "tables": ways([PrefixSums(5), PrefixSums(5), Identity(3), AllRanges(4)], [1, 2]),
    "classes": Stack([product(np.tri(4), MERGED), product(ONE[4], MERGED[:1])]),
    "both ways": Stack(
        [Kronecker([PrefixSums(6), Identity(6)]), Kronecker([Identity(6), PrefixSums(6)])]
    ),
    "faint rows": Stack([product([[1, -1, 0], [2, 1, 5]], np.eye(4)), product(ONE[3], np.tri(4))]),
}


@pytest.mark.parametrize("sets", [[(1, 2, 3), ()], [(1, 2), (2, 3), (3,)]])
def test_joint_answers_are_least_squares_over_both_groups(sets: list[tuple[int, ...]]) -> None:
    """Where one group leaves sets of shared attributes out, only what both know is compared."""
    rng = np.random.default_rng(2)

    def steep(matrix: np.ndarray) -> np.ndarray:
        return np.vstack([matrix, rng.random((2, len(matrix))) @ matrix])

    fine = [steep(np.eye(4)), steep(MERGED), steep(np.eye(6)), steep(np.eye(3))]
    coarse = [ONE[4], steep(np.eye(6)), steep(np.vstack([LATE, 1 - LATE])), steep(np.eye(3))]
    matrix = JointMarginals(
        [
            ProductMarginals(fine, [(0, 1, 2, 3), (1,), (2, 3)], [1.0, 0.5, 0.2]),
            ProductMarginals(coarse, sets, [1.0, 0.3, 0.5][: len(sets)]),
        ]
    )
    workload = Stack([BY_GROUPS.blocks[k] for k in (0, 1, 4, 5)])
    inverse = workload.to_dense() @ np.linalg.pinv(matrix.to_dense())
    answers = rng.normal(size=(matrix.shape[0], 2))
    assert np.allclose(row_errors(workload, matrix), (inverse**2).sum(axis=1), rtol=1e-8)
    assert error_trace(workload, matrix) == pytest.approx(np.sum(inverse**2), rel=1e-8)
    assert np.allclose(estimate(workload, matrix, answers), inverse @ answers, atol=1e-8)


def test_groups_that_share_too_much_are_answered_as_any_stack() -> None:
    """Where the memory cap holds the rows but not what the groups share."""
    rows = [
        ProductMarginals([np.eye(6), factor], [(0, 1)], [1.0]) for factor in (np.tri(6), np.eye(6))
    ]
    workload = product(np.tri(6), np.tri(6))
    expected = JointMarginals(rows).error_trace(workload)
    with memory_cap(50_000):
        matrix = JointMarginals(rows)
        assert matrix.coupling is None
        assert error_trace(workload, matrix) == pytest.approx(expected, rel=1e-8)


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_loss_is_recomputed_and_no_worse_than_others(seed: int) -> None:
    """Random unions: what is reported is dense algebra's, and below the families it replaces."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, size=rng.integers(2, 4))
    kinds = [PrefixSums, Identity, AllRanges]
    factors = [kinds[rng.integers(3)](int(n)) for n in sizes]
    factors[0] = PrefixSums(int(sizes[0]))
    workload = ways(factors, [1, 2])
    found = select(workload, "l1", method="product_marginals", random_state=0, time_limit=0.2)
    loss = definition(workload.to_dense(), found.matrix.to_dense(), "l1")
    assert found.loss == pytest.approx(loss, rel=1e-7)
    other = select(workload, "l1", method="kronecker_selections", random_state=0, time_limit=0.2)
    assert found.loss <= other.loss * 1.001


CPS = [PrefixSums(50), PrefixSums(100), Identity(7), Identity(4), Identity(2)]


@pytest.mark.slow
def test_published_union_is_far_below_a_part_of_the_budget_each() -> None:
    """HDMM reaches 16 379 on all tables of one of CPS's attributes."""
    found = select(ways(CPS, [1]), "l1", random_state=0)
    assert found.method == "product_marginals"
    assert found.loss <= 12_720


def test_long_attributes_have_a_price() -> None:
    """A descent of the fewest evaluations took seconds, whatever the limit."""
    found = select(ways([PrefixSums(400), Identity(3)], [1, 2]), "l1", time_limit=0.1)
    (one,) = (one for one in found.candidates if one.family == "product_marginals")
    assert "more than is left of the limit" in one.note


def test_groups_are_found_and_answered_jointly() -> None:
    wide = np.kron(np.eye(6), np.ones((1, 4)))
    late = np.repeat(LATE, 5, axis=1)
    workload = Stack(
        [
            product(wide, np.tri(30)),
            product(np.eye(24), late),
            product(wide, late),
            product(np.eye(24), np.ones((1, 30))),
        ]
    )
    found = select(workload, "l1", method="product_marginals", random_state=0, time_limit=0.5)
    assert isinstance(found.matrix, JointMarginals)
    loss = definition(workload.to_dense(), found.matrix.to_dense(), "l1")
    assert found.loss == pytest.approx(loss, rel=1e-6)


def test_groups_are_not_looked_for_where_all_tables_tell_the_same_codes_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dealing 55 tables into groups took 2.5 s, and found what sets of attributes have already."""
    looked: list[object] = []
    searched = "strategies.methods.marginals.product_marginals.two_groups"
    monkeypatch.setattr(searched, looked.append)
    asked = {"method": "product_marginals", "random_state": 0, "time_limit": 0.1}
    select(WORKLOADS["tables"], "l1", **asked)
    assert not looked
    select(WORKLOADS["classes"], "l1", **asked)
    assert looked


def test_same_seed_same_strategy_whatever_the_scale() -> None:
    workload = WORKLOADS["both ways"]
    one = select(workload, "l1", method="product_marginals", random_state=3, time_limit=0.2)
    again = select(workload, "l1", method="product_marginals", random_state=3, time_limit=0.2)
    assert np.array_equal(one.matrix.to_dense(), again.matrix.to_dense())


def test_what_it_cannot_serve_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="product_marginals"):
        select(np.tri(4), "l1", method="product_marginals")
    fine = ProductMarginals([np.eye(2)], [(0,)], [1])
    with pytest.raises(TypeError, match="two ProductMarginals"):
        JointMarginals([fine])
