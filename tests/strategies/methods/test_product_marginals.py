"""Tables of products: unions of them answered together, and products whose rows have weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from mrf_matrix.mechanisms import ZCDP, calibrate, count_cells, measure, reconstruct
from strategies import evaluate, examples, select
from strategies.operators import (
    AllRanges,
    Dense,
    Identity,
    JointMarginals,
    Kronecker,
    Operator,
    PrefixSums,
    ProductMarginals,
    Scaled,
    Stack,
    WeightedKronecker,
    error_trace,
    estimate,
    memory_cap,
    row_errors,
)
from tests.strategies.workloads import definition, lower_bound, total, ways


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


# Products with weights ----------------------------------------------------------------------------


def union(*tables):
    return Stack([Kronecker(list(table)) for table in tables])


def both_ways(rows, n):
    return union((rows(n), Identity(n)), (Identity(n), rows(n)))


SMALL = {
    "both ways": both_ways(PrefixSums, 8),
    "unlike sizes": union((PrefixSums(6), Identity(9)), (Identity(6), AllRanges(9))),
    "three attributes": union(
        (PrefixSums(4), Identity(3), Identity(4)), (Identity(4), PrefixSums(3), AllRanges(4))
    ),
    "a table of one attribute": union(
        (PrefixSums(6), Identity(7)), (Identity(6), PrefixSums(7)), (total(6), AllRanges(7))
    ),
    "a code alone": union(
        (PrefixSums(5), Identity(1), Identity(6)), (Identity(5), Identity(1), AllRanges(6))
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_losses_lie_within_a_few_hundredths_of_the_optimum(name):
    found = select(SMALL[name], "l2", method="weighted_kronecker", random_state=0, time_limit=0.3)
    best = select(SMALL[name], "l2", method="gaussian_optimal", random_state=0, time_limit=0.3)
    assert best.loss * (1.0 - 1e-3) <= found.loss <= 1.03 * best.loss
    explicit = strategies.evaluate(SMALL[name], found.matrix.to_dense(), "l2")
    assert found.loss == pytest.approx(explicit.loss, rel=1e-9)


@pytest.mark.slow
def test_many_cells_are_served_by_default_below_oblique_residuals():
    workload = both_ways(PrefixSums, 41)  # beyond one spectrum
    found = select(workload, "l2", random_state=0)
    oblique = select(workload, "l2", method="oblique_residuals", random_state=0)
    assert found.method == "weighted_kronecker"
    assert found.loss < 0.91 * oblique.loss
    assert found.lower_bound <= found.loss <= 1.02 * found.lower_bound
    spectrum = np.linalg.eigvalsh(PrefixSums(41).gram_dense())
    even = np.sqrt(np.add.outer(spectrum, spectrum)).sum() ** 2 / 41**2
    assert found.lower_bound >= even * (1.0 - 1e-9)  # of even weights of cells


def test_a_release_answers_the_workload_exactly():
    """Noise of a large budget rounds away: frames and weights are integers, and are taken back."""
    workload = union((PrefixSums(5), Identity(6)), (Identity(5), AllRanges(6)))
    strategy = select(workload, "l2", method="weighted_kronecker", random_state=0)
    mechanism = calibrate(strategy, ZCDP(10**9), workload=workload)
    rounded = mechanism.rounded
    assert isinstance(rounded.matrix, WeightedKronecker)
    entries = [[int(a) for a in row] for row in rounded.matrix.to_dense()]
    assert rounded.column_sum == max(
        sum(a * a for a in column) for column in zip(*entries, strict=True)
    )
    loss = strategies.evaluate(workload, rounded.matrix, "l2").loss
    assert loss == pytest.approx(strategy.loss, rel=1e-3)
    codes = np.random.default_rng(0).integers(0, [5, 6], size=(500, 2))
    counts = count_cells(codes, np.zeros(500, int), (5, 6), 1)
    release = measure(mechanism, counts, noise="research", random_state=0)
    cells = np.bincount(codes[:, 0] * 6 + codes[:, 1], minlength=30)
    np.testing.assert_allclose(
        reconstruct(release, workload).ravel(), workload.matmat(cells.astype(float)), atol=0.5
    )


@pytest.mark.parametrize(
    ("weights", "factors", "told"),
    [
        ([1, 2, 3], [Dense(np.ones((3, 2)))], "square and of full rank"),
        ([1, 2], [Dense(np.ones((2, 2)))], "square and of full rank"),
        ([1, 2], [Identity(2)], "square and of full rank"),
        ([1, 0], [Dense(np.eye(2))], "weights holds 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_back_is_refused(weights, factors, told):
    with pytest.raises(ValueError, match=told):
        WeightedKronecker(weights, Kronecker(factors))


@pytest.mark.parametrize(
    "workload", [both_ways(Identity, 4), union((PrefixSums(4), PrefixSums(5))), np.eye(4)]
)
def test_other_workloads_are_refused(workload):
    with pytest.raises(ValueError, match="cannot serve"):
        select(workload, "l2", method="weighted_kronecker")


def test_a_loss_is_that_of_every_multiple():
    workload = SMALL["unlike sizes"]
    found = select(workload, "l2", method="weighted_kronecker", time_limit=0.02, random_state=0)
    weights = found.matrix.weights
    for power in (-400, 400):
        scaled = WeightedKronecker(np.ldexp(weights, power), found.matrix.inner)
        assert strategies.evaluate(workload, scaled, "l2").loss == pytest.approx(found.loss)


# Products and unions that are selected ------------------------------------------------------------


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


def three_tables(n: int) -> Stack:
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
    workload = three_tables(4)
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
