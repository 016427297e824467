"""Prefix sums in constant memory, and their largest error, against dense optima and formulas."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import strategies
from strategies import examples, select
from strategies.operators import (
    AllRanges,
    Dense,
    Identity,
    Kronecker,
    Operator,
    PrefixSums,
    Semiseparable,
    Toeplitz,
)
from tests.strategies.workloads import gaussian_optimum

OBJECTIVES = ("total", "max")


def brute_errors(workload: np.ndarray, matrix: Operator) -> np.ndarray:
    """Return ``‖A‖² ‖(W A⁻¹)_i‖²`` by the inverse of A written out."""
    dense = matrix.to_dense()
    size = (dense**2).sum(axis=0).max()
    return np.asarray(size * ((workload @ np.linalg.inv(dense)) ** 2).sum(axis=1))


def value(errors: np.ndarray, objective: str) -> float:
    return float(errors.sum() if objective == "total" else errors.max())


def largest_error_optimum(workload: np.ndarray) -> float:
    """Return the least largest error by the dense climb of rows and cells."""
    return gaussian_optimum(workload, "max", 2000)


# The largest error ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 9, 60])
def test_the_largest_error_is_the_dense_optimum(n: int) -> None:
    found = select(PrefixSums(n), "l2", strategies.prefix_factorisation(bands=30), objective="max")
    optimum = largest_error_optimum(np.tri(n))
    assert found.loss == pytest.approx(optimum, rel=1e-5)
    assert value(brute_errors(np.tri(n), found.matrix), "max") == pytest.approx(found.loss)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 1024])
def test_the_largest_error_of_long_prefix_sums_is_certified(n: int) -> None:
    found = select(examples.prefix_sums(n), "l2", objective="max", random_state=0)
    assert 1.0 <= found.certified_ratio < 1.00002
    assert np.ptp(found.row_errors(PrefixSums(n))) < 1e-4 * found.loss  # all rows have one error


@pytest.fixture(scope="module")
def known() -> strategies.Strategy:
    return select(PrefixSums(260), "l2", objective="max", random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["shuffled", "flipped", "repeated"])
def test_the_largest_error_does_not_depend_on_how_rows_are_given(
    form: str, known: strategies.Strategy
) -> None:
    n = 260
    rows = {
        "shuffled": np.random.default_rng(0).permutation(np.tri(n)),
        "flipped": np.tri(n)[:, ::-1],
        "repeated": np.repeat(np.concatenate([np.tri(n), 0.5 * np.tri(n)]), 2, axis=1),
    }[form]
    found = select(rows, "l2", objective="max", random_state=0)
    assert found.loss == pytest.approx(known.loss, rel=1e-6)
    assert found.lower_bound == pytest.approx(known.lower_bound, rel=1e-6)


@settings(max_examples=4)
@given(st.integers(2, 7), st.integers(0, 50), st.booleans())
def test_weights_and_groups_of_prefix_sums_have_a_bound_below_every_loss(
    n: int, seed: int, grouped: bool
) -> None:
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.05, 3.0, n)
    groups = generator.integers(0, 3, n) if grouped else None
    given_as = {"objective": "max", "weights": weights, "groups": groups}
    found = select(PrefixSums(n), "l2", strategies.prefix_factorisation(bands=24), **given_as)
    dense = select(np.tri(n), "l2", "gaussian_optimal", **given_as)
    assert found.loss == pytest.approx(dense.loss, rel=3e-3)
    assert found.lower_bound <= dense.loss * (1 + 1e-9)
    errors = weights * brute_errors(np.tri(n), found.matrix)
    sums = errors if groups is None else np.bincount(groups, errors)
    assert sums.max() == pytest.approx(found.loss)


@pytest.mark.slow
def test_faint_rows_of_many_cells_keep_the_bound() -> None:
    weights = 1.0 / np.linspace(1.0, 3.0, 300) ** 2
    found = select(PrefixSums(300), "l2", objective="max", weights=weights, random_state=0)
    assert 1.0 <= found.certified_ratio < 1.001


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_bounds_of_factors_multiply(objective: str) -> None:
    product = Kronecker([PrefixSums(40), Identity(3), AllRanges(4)])
    found = select(
        product, "l2", strategies.prefix_factorisation(), objective=objective, random_state=0
    )
    assert isinstance(found.matrix, Kronecker)
    assert isinstance(found.matrix.factors[0], Semiseparable)
    assert 1.0 <= found.certified_ratio < 1.0001
    dense = Dense(found.matrix.to_dense())
    given_dense = strategies.evaluate(product.to_dense(), dense, "l2", objective)
    assert given_dense.loss == pytest.approx(found.loss, rel=1e-9)


# Few numbers in memory ------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_bands_reach_the_optimum_geometrically(objective: str) -> None:
    gaps = []
    for bands in (2, 4, 8, 16):
        found = select(
            PrefixSums(500), "l2", strategies.prefix_factorisation(bands=bands), objective=objective
        )
        assert found.matrix.shape == (500, 500)
        gaps.append(found.certified_ratio - 1.0)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] < 0.3
    assert gaps[1] < 0.02
    assert gaps[2] < 1e-3
    assert gaps[3] < 1e-5


@pytest.mark.parametrize("workload", [PrefixSums(37), AllRanges(20)])
def test_errors_by_recursion_are_those_of_the_matrix(workload: Operator) -> None:
    found = select(workload, "l2", strategies.prefix_factorisation(bands=5))
    errors = brute_errors(workload.to_dense(), found.matrix)
    assert errors.sum() == pytest.approx(found.loss, rel=1e-10)
    assert_allclose(found.row_errors(workload), errors, rtol=1e-9)


@pytest.mark.parametrize(
    "family", [strategies.prefix_factorisation(bands=4), strategies.toeplitz(bands=5)]
)
def test_the_noise_of_a_stream_is_drawn_as_it_goes(family: strategies.Family) -> None:
    n = 70
    matrix = select(PrefixSums(n), "l2", family).matrix
    assert isinstance(matrix, Semiseparable | Toeplitz)
    noise = np.random.default_rng(0).normal(size=(n, 2))
    asked = 0

    def one_by_one():
        nonlocal asked
        for row in noise:
            asked += 1
            yield row

    expected = np.linalg.solve(matrix.to_dense(), noise)
    for k, cell in enumerate(matrix.solutions(one_by_one())):
        assert asked == k + 1  # nothing of what is to come
        assert_allclose(cell, expected[k], atol=1e-10)
    assert_allclose(matrix.least_squares(noise), expected, atol=1e-10)


@pytest.mark.slow
def test_many_cells_are_selected_where_dense_forms_are_refused() -> None:
    n = 9000
    with strategies.memory_cap(2**23):  # an eightieth of dense entries
        for family in (strategies.prefix_factorisation(bands=6), strategies.toeplitz(bands=8)):
            found = select(PrefixSums(n), "l2", family, time_limit=0.2)
            assert 0 < found.lower_bound <= found.loss
            if isinstance(found.matrix, Semiseparable):
                assert found.certified_ratio < 1.05


# Toeplitz -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 64, 200])
def test_the_square_root_has_its_published_error(n: int) -> None:
    """Of the largest error the best Toeplitz matrix: ``(Σ_k (binom(2k, k) / 4^k)²)²``."""
    if n == 1:
        found = strategies.evaluate(PrefixSums(1), Toeplitz(1, [1.0]), "l2", "max")
    else:
        found = select(PrefixSums(n), "l2", strategies.toeplitz(), objective="max")
    squares = sum(Fraction(comb(2 * k, k), 4**k) ** 2 for k in range(n))
    assert found.loss == pytest.approx(float(squares) ** 2, rel=1e-9)
    assert found.loss <= (1.0 + np.log(n) / np.pi + 0.07) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("bands", [1, 3, 12, 100])
def test_no_small_change_of_the_coefficients_is_better(objective: str, bands: int) -> None:
    n = 48
    found = select(PrefixSums(n), "l2", strategies.toeplitz(bands=bands), objective=objective)
    assert isinstance(found.matrix, Toeplitz)
    assert len(found.matrix.coefficients) == min(bands, n)
    best = value(brute_errors(np.tri(n), found.matrix), objective)
    assert best == pytest.approx(found.loss, rel=1e-9)
    generator = np.random.default_rng(0)
    for _ in range(10):
        change = 1e-2 * generator.normal(size=len(found.matrix.coefficients))
        moved = Toeplitz(n, found.matrix.coefficients * (1.0 + change))
        assert value(brute_errors(np.tri(n), moved), objective) >= best * (1 - 1e-6)


def test_many_bands_agree_with_few() -> None:
    """Convolutions by FFT against substitution."""
    series = 1.0 / np.arange(1.0, 301.0)
    matrix = Toeplitz(300, series)
    dense = matrix.to_dense()
    assert_allclose(matrix.inverse, np.linalg.inv(dense)[:, 0], atol=1e-12)
    right = np.random.default_rng(0).normal(size=(300, 2))
    assert_allclose(matrix.matmat(right), dense @ right, atol=1e-10)
    assert_allclose(matrix.least_squares(dense @ right), right, atol=1e-10)
    errors = (np.tri(300) @ np.linalg.inv(dense)) ** 2
    assert_allclose(matrix.row_errors(PrefixSums(300)), errors.sum(axis=1), rtol=1e-10)


def test_integers_stay_of_the_form_and_exact() -> None:
    rounded = select(PrefixSums(50), "l2", strategies.toeplitz(bands=4)).matrix.rounded(2**20)
    assert isinstance(rounded, Toeplitz)
    dense = np.rint(rounded.to_dense()).astype(object)
    assert rounded.integer_sensitivity("l2") == max((dense**2).sum(axis=0))
    assert rounded.integer_sensitivity("l1") == max(abs(dense).sum(axis=0))
    cells = np.random.default_rng(0).integers(0, 9, 50)
    exact = rounded.to_sparse() @ cells
    assert exact.dtype == np.int64
    assert_allclose(np.cumsum(rounded.least_squares(exact)), np.cumsum(cells), atol=1e-9)


# Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bands", [0, -1, 2.5, True, "4"])
def test_bands_that_are_no_number_are_refused(bands: object) -> None:
    for factory in (strategies.prefix_factorisation, strategies.toeplitz):
        with pytest.raises(ValueError, match="bands="):
            factory(bands=bands)


@pytest.mark.parametrize("name", ["prefix_factorisation", "toeplitz"])
def test_other_workloads_are_refused_by_name(name: str) -> None:
    assert name in strategies.families()
    for workload in (np.eye(5), examples.binary_tree(8)):
        with pytest.raises(ValueError, match=name):
            select(workload, "l2", method=name)
    with pytest.raises(ValueError, match=name):
        select(np.tri(5), "l1", method=name)


@pytest.mark.parametrize(
    ("outputs", "factors", "words"),
    [
        ([[1.0, -1.0]], np.zeros((0, 2)), "sum 0"),
        ([[1.0], [1.0]], np.zeros((2, 1)), "factors has shape"),
    ],
)
def test_terms_that_do_not_fit_are_refused(
    outputs: list[list[float]], factors: np.ndarray, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Semiseparable(outputs, factors)


@pytest.mark.parametrize("coefficients", [[], [0.0, 1.0], [1.0] * 5])
def test_coefficients_that_do_not_fit_are_refused(coefficients: list[float]) -> None:
    with pytest.raises(ValueError, match="coefficients"):
        Toeplitz(4, coefficients)


def test_equal_factors_of_a_product_are_selected_once() -> None:
    workload = Kronecker([PrefixSums(6), AllRanges(4), AllRanges(4)])
    found = select(workload, "l2", strategies.toeplitz(bands=2), random_state=0, time_limit=0.1)
    _, second, third = found.matrix.factors
    assert second is third
