"""Products of rows with a weight each: unions of tables that share attributes but not rows."""

import numpy as np
import pytest

import strategies
from mrf_matrix.mechanisms import ZCDP, calibrate, count_cells, measure, reconstruct
from strategies import select
from strategies.operators import (
    AllRanges,
    Dense,
    Identity,
    Kronecker,
    PrefixSums,
    Stack,
    WeightedKronecker,
)
from tests.strategies.workloads import total


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
    found = select(SMALL[name], "l2", method="weighted_kronecker", random_state=0, time_limit=1.0)
    best = select(SMALL[name], "l2", method="gaussian_optimal", random_state=0)
    assert best.loss * (1.0 - 1e-3) <= found.loss <= 1.03 * best.loss


@pytest.mark.parametrize("name", SMALL)
def test_the_loss_is_that_of_the_explicit_matrix(name):
    found = select(SMALL[name], "l2", method="weighted_kronecker", time_limit=0.02, random_state=0)
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
