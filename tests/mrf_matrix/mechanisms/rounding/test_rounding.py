"""Rows rounded to integers: never lost unseen, exact in what they promise, cheap in error."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy import sparse

from mrf_matrix.mechanisms import ZCDP, calibrate, round_strategy
from strategies import evaluate, families, select
from strategies.operators import (
    Dense,
    Grouping,
    Identity,
    JointMarginals,
    Kronecker,
    Marginals,
    ObliqueResiduals,
    Product,
    ProductMarginals,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
)

NORMS = ["l1", "l2"]
RNG = np.random.default_rng(8)
GROUPS = Grouping([0, 1, 2, 3, 0, 1])
TALL = Dense(RNG.normal(size=(7, 4)))
PATHS = RowKronecker.from_masks([RNG.random((5, 2)) < 0.7, RNG.random((5, 3)) < 0.7])

INTEGRAL = {
    "identity": Identity(6),
    "grouping": GROUPS,
    "paths": PATHS,
    "eye of floats": Dense(np.eye(6)),
    "sparse integers": Sparse(sparse.csr_array(np.tri(6))),
    "marginals": Marginals((2, 3), [(0,), (0, 1)], [1, 2]),
    "kronecker": Kronecker([Identity(2), Dense(np.tri(3))]),
    "stack": Stack([Identity(6), Dense(np.ones((1, 6)))]),
    "negative": Dense([[1, -1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 2]]),
}
REAL = {
    "dense": Dense(RNG.normal(size=(9, 6))),
    "sparse": Sparse(sparse.csr_array(RNG.random((6, 6)) + np.eye(6))),
    "scaled rows": RowScaled(RNG.random(5) + 0.01, PATHS),
    "scaled rows of reals": RowScaled(RNG.random(9) + 0.01, Dense(RNG.random((9, 6)))),
    "marginals": Marginals((2, 3), [(0,), (0, 1)], [0.3, 0.7]),
    "lifted": Product(TALL, GROUPS),
    "stack": Stack([Scaled(0.3, Identity(6)), Scaled(0.7, Dense(np.ones((1, 6))))]),
    "kronecker": Kronecker([Dense(RNG.random((3, 2))), Dense(RNG.random((4, 3)))]),
    "kronecker with identity": Kronecker([Dense(RNG.random((3, 2))), Identity(3)]),
    "product": Product(Dense(RNG.normal(size=(9, 6))), Dense(RNG.normal(size=(6, 6)))),
    "transposed": Dense(RNG.normal(size=(6, 8))).T,
    "weighted": Scaled(-0.3, Dense(RNG.normal(size=(8, 6)))),
}
DEFICIENT = {
    "deficient": Dense(RNG.random((8, 3)) @ RNG.random((3, 6))),
    "wide": Dense(RNG.normal(size=(3, 6))),
    "lifted deficient": Product(Dense(RNG.random((8, 2)) @ RNG.random((2, 4))), GROUPS),
}


def exact_sensitivity(matrix, norm):
    """Sum the columns with Python integers."""
    entries = [[int(entry) for entry in row] for row in matrix.T]
    return max(sum(abs(e) if norm == "l1" else e * e for e in column) for column in entries)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", INTEGRAL)
def test_integers_stay_as_they_are(name, norm):
    rounded = round_strategy(INTEGRAL[name], norm)
    assert rounded.scale == 1
    assert np.array_equal(rounded.matrix.to_dense(), INTEGRAL[name].to_dense())
    assert rounded.is_unbiased
    assert rounded.column_sum == exact_sensitivity(rounded.matrix.to_dense(), norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", {**REAL, **DEFICIENT})
def test_reals_become_close_integers(name, norm):
    matrix = {**REAL, **DEFICIENT}[name]
    rounded = round_strategy(matrix, norm)
    entries = rounded.matrix.to_dense()
    assert np.array_equal(entries, np.rint(entries))
    assert rounded.matrix.columns(np.arange(6)).dtype == np.int64
    assert type(rounded.column_sum) is int
    assert rounded.column_sum == exact_sensitivity(entries, norm)
    real = matrix.sensitivity(norm)
    error = np.abs(entries / float(rounded.scale) - matrix.to_dense()).max()
    assert error < 2e-5 * real
    assert rounded.is_unbiased == (name in REAL)
    assert not rounded.is_lossy


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", {**INTEGRAL, **REAL, **DEFICIENT})
def test_the_loss_hardly_changes(name, norm):
    matrix = {**INTEGRAL, **REAL, **DEFICIENT}[name]
    workload = RNG.integers(0, 3, (4, matrix.shape[0])) @ matrix.to_dense()
    rounded = round_strategy(matrix, norm)
    before, after = (evaluate(workload, m, norm).loss for m in (matrix, rounded.recovery))
    assert after == pytest.approx(before, rel=1e-4)


def _paths():
    masks = [np.eye(3, dtype=bool)[RNG.integers(0, 3, 10)] for _ in range(2)]
    return RowKronecker.from_masks([mask | (RNG.random(mask.shape) < 0.4) for mask in masks])


def _union(*others):
    """Return prefix sums over either attribute, by the other one's cells or its total."""
    rows, columns = others
    prefix = [Dense(np.tri(4)), Dense(np.tri(3))]
    return Stack([Kronecker([prefix[0], columns]), Kronecker([rows, prefix[1]])])


WORKLOADS = {
    "paths": _paths(),
    "prefix sums": Dense(np.tri(12)),
    "tables": Marginals((3, 4, 2), [(0,), (1, 2)], [1, 1]),
    "union by cells": _union(Identity(4), Identity(3)),
    "union by totals": _union(Dense(np.ones((1, 4))), Dense(np.ones((1, 3)))),
}
SERVED = {
    "free_entries": ("paths", ["l1"]),
    "joint_tables": ("union by totals", ["l2"]),
    "kronecker_selections": ("union by cells", NORMS),
    "oblique_residuals": ("union by cells", ["l2"]),
    "ordered_cells": ("prefix sums", NORMS),
    "p_identity": ("paths", ["l1"]),
    "prefix_factorisation": ("prefix sums", ["l2"]),
    "product_marginals": ("union by cells", ["l1"]),
    "residual_marginals": ("tables", NORMS),
    "row_space": ("paths", ["l1"]),
    "toeplitz": ("prefix sums", ["l2"]),
    "weighted_kronecker": ("union by cells", ["l2"]),
}
"""What a family serves, and under which noise, where that is not the paths under both."""

UNSERVED = {"common_refinement", "leaves", "path_optimal", "weighted_rows"}
"""Families of large domains, and one of the largest error: they serve none of these."""

FOUND = [
    (method, workload, norm)
    for method in sorted(set(families()) - UNSERVED)
    for workload, norms in [SERVED.get(method, ("paths", NORMS))]
    for norm in norms
]


@pytest.mark.parametrize(("method", "workload", "norm"), FOUND)
def test_every_family_survives_rounding(method, workload, norm):
    """Loss within 0.1 %, workload still determined, for what each family finds."""
    workload = WORKLOADS[workload]
    strategy = select(workload, norm=norm, method=method, random_state=0, time_limit=0.5)
    rounded = round_strategy(strategy.matrix, norm)
    again = evaluate(workload, rounded.recovery, norm)
    assert again.loss == pytest.approx(strategy.loss, rel=1e-3)
    root = rounded.column_sum if norm == "l1" else sqrt(rounded.column_sum)
    few_bits = isinstance(strategy.matrix, ObliqueResiduals | ProductMarginals | JointMarginals)
    expected = pytest.approx(strategy.sensitivity, rel=2e-2 if few_bits else 1e-4)
    assert root / float(rounded.scale) == expected


def test_common_weights_only_change_the_units():
    rounded = round_strategy(Scaled(0.3, Scaled(0.7, Identity(4))), "l1")
    assert isinstance(rounded.matrix, Identity)
    assert rounded.scale == 1 / (Fraction(0.3) * Fraction(0.7))


def test_halves_and_quarters_need_few_bits():
    rounded = round_strategy(Marginals((2, 3), [(0,), (0, 1)], [0.5, 0.25]), "l1")
    assert (rounded.scale, rounded.column_sum) == (4, 3)


@pytest.mark.parametrize("bits", range(13))
def test_binary_fractions_are_multiplied_by_their_denominator(bits):
    assert round_strategy(Dense([[1, 0], [3 / 2**bits, 1]]), "l1").scale == 2**bits


@pytest.mark.parametrize("norm", NORMS)
def test_weights_of_residual_tables_keep_thirty_bits(norm):
    matrix = ObliqueResiduals.of_codes((17, 17), [(), (0, 1)], [0.3, 0.7])
    rounded = round_strategy(matrix, norm)
    kept = np.array(rounded.matrix.weights) / float(rounded.scale)
    assert kept == pytest.approx(matrix.weights, rel=2**-28)


@pytest.mark.parametrize("norm", NORMS)
def test_faint_rows_are_reported(norm):
    faint = Marginals((2, 3), [(0,), (0, 1)], [1.0, 1e-12])
    assert round_strategy(faint, norm).is_lossy
    both = Stack([Scaled(1e-14, Dense(np.ones((1, 6)))), Identity(6)])
    assert not round_strategy(both, norm).is_lossy  # the identity determines the lost row
    lost = Stack([Scaled(1e-14, Dense([[1.0, 0.0]])), Dense([[0.0, 1.0]])])
    assert round_strategy(lost, norm).is_lossy


FEW_BITS = [0.7 * np.eye(2)] * 7  # beside seven more attributes a factor has four bits


@pytest.mark.parametrize(
    ("factor", "is_lost"),
    [
        (np.diag([1.0, 1.0, 0.01]) * 0.3, True),  # a column becomes zero
        (np.array([[1.0, 0.99, 0.0], [0.0, 0.02, 0.0], [0.0, 0.0, 1.0]]), True),  # two are alike
        (np.diag([1.0, 1.0, 0.1]) * 0.3, False),
        (np.array([[1.0, 0.6, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 1.0]]), False),
        (np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.7]]), False),  # alike before
    ],
)
def test_codes_that_few_bits_do_not_tell_apart_are_reported(factor, is_lost):
    matrix = ProductMarginals([factor, *FEW_BITS], [tuple(range(8))], [1.0])
    rounded = round_strategy(matrix, "l1")
    ranks = [np.linalg.matrix_rank(one.to_dense()) for one in (rounded.matrix, matrix)]
    assert rounded.is_lossy == (ranks[0] < ranks[1]) == is_lost


@pytest.mark.parametrize(("faint", "is_lost"), [(0.01, True), (0.3, False)])
def test_residuals_that_few_bits_do_not_tell_apart_are_reported(faint, is_lost):
    frame = np.array([[0.7, -0.7, 0.0], [0.0, faint, -faint]])
    sets = [tuple(np.flatnonzero(row)) for row in np.ndindex((2,) * 8)]
    matrix = ObliqueResiduals([frame, *([[[0.5, -0.5]]] * 7)], sets, [1.0] * len(sets))
    rounded = round_strategy(matrix, "l2")
    ranks = [np.linalg.matrix_rank(one.to_dense()) for one in (rounded.matrix, matrix)]
    assert rounded.is_lossy == (ranks[0] < ranks[1]) == is_lost


def test_entries_are_the_nearest_integers_of_columns_that_stay_below_the_largest():
    factor = RNG.random((6, 4))
    factor /= factor.sum(axis=0) * [1.0, 1.1, 1.2, 1.3]
    matrix = ProductMarginals([factor], [(0,)], [1.0])
    whole = round_strategy(matrix, "l1").matrix.factors[0].to_dense()
    scale = 2.0 ** np.rint(np.log2(whole.sum() / factor.sum()))
    np.testing.assert_array_equal(whole[:, 1:], np.rint(scale * factor[:, 1:]))
    assert scale - 6 < whole[:, 0].sum() <= scale


def test_a_frame_of_dependent_rows_keeps_its_span_by_a_faint_row():
    matrix = ObliqueResiduals([[[0.3, -0.3, 0.0], [0.61, -0.61, 0.0]]], [(), (0,)], [1.0, 0.7])
    rounded = round_strategy(matrix, "l2")
    whole = rounded.matrix.to_dense()
    assert not rounded.is_lossy
    assert np.linalg.matrix_rank(whole / np.abs(whole).max()) == 3
    kept = whole[:3] / float(rounded.scale)
    assert kept == pytest.approx(matrix.to_dense(), rel=1e-4)
    assert np.abs(whole[3]).max() < 0.05 * np.abs(whole[1:3]).max()


def test_groups_without_coordinates_are_rounded_entry_by_entry():
    dependent = ProductMarginals([[[0.3, 0.7, 1.0], [0.1, 0.2, 0.3]]], [(0,)], [1.0])
    matrix = JointMarginals([dependent, ProductMarginals([np.eye(3) * 0.3], [(0,)], [0.7])])
    rounded = round_strategy(matrix, "l1")
    entries = rounded.matrix.to_dense()
    kept = entries / float(rounded.scale)
    assert kept == pytest.approx(matrix.to_dense(), rel=0.01)
    assert kept[:2] == pytest.approx(matrix.to_dense()[:2], rel=1e-6)
    assert rounded.column_sum == exact_sensitivity(entries, "l1")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("matrix", [Dense(np.zeros((2, 3))), Scaled(0.0, Identity(3))])
def test_zeros_are_refused(matrix, norm):
    with pytest.raises(ValueError, match="all zeros"):
        round_strategy(matrix, norm)


@pytest.mark.parametrize("norm", NORMS)
def test_large_integers_are_shortened(norm):
    """Entries too large for exact sums of squares are rounded like reals."""
    matrix = Dense([[2**40 + 1, 0], [1, 2**41]])
    rounded = round_strategy(matrix, norm)
    assert rounded.column_sum == exact_sensitivity(rounded.matrix.to_dense(), norm) < 2**62
    assert rounded.scale < 1


def test_replaced_records_need_less_noise_where_a_structure_proves_that_no_entry_is_negative():
    """By the factor of squared sensitivities: 2, not 4."""

    def is_proved(matrix):
        return calibrate(matrix, ZCDP(1), neighboring="replace_one").squared_factor == 2

    for name, operator in INTEGRAL.items():
        assert is_proved(operator) == bool((operator.to_dense() >= 0).all()), name
    for operator in REAL.values():
        assert not is_proved(operator) or (operator.to_dense() >= 0).all()
    assert is_proved(REAL["scaled rows"])
    assert is_proved(REAL["marginals"])
    assert not is_proved(Scaled(-1, Identity(2)))


def deep_stumps(n_groups):
    """Groups of disjoint pairs of rows over a domain beyond reach."""
    sizes = (4, 5, 7, 5, 7, 6, 5, 2, 3, 3, 5, 8)
    masks = [np.ones((2 * n_groups, size), dtype=bool) for size in sizes]
    for pair in range(n_groups):
        mask = masks[pair % len(sizes)]
        mask[2 * pair, 1:], mask[2 * pair + 1, :1] = False, False
    return RowKronecker.from_masks(masks, np.repeat(np.arange(n_groups), 2))


def test_the_sum_of_entries_is_not_bounded_by_squares():
    """A domain beyond reach, one tree of most of the weight: squares would exceed 2**62."""
    weights = np.array([0.9, 0.9, 0.01, 0.02, 0.02, 0.02, 0.02, 0.01])
    rounded = round_strategy(RowScaled(weights, deep_stumps(4)), "l1")
    whole = np.asarray(rounded.matrix.weights)
    assert float(whole.max()) ** 2 * len(whole) >= 2**62  # what used to be refused
    assert rounded.column_sum == sum(whole.reshape(4, 2).max(axis=1).tolist())


@pytest.mark.parametrize(("norm", "power"), [("l1", 1), ("l2", 2)])
def test_sums_over_groups_are_exact_integers(norm, power):
    """Beyond 2**53, where floats would lose the last unit."""
    weights = np.full(24, 2**27 + 1 if norm == "l2" else 2**53 + 1)
    strategy = RowScaled(weights, deep_stumps(12))
    assert strategy.integer_sensitivity(norm) == 12 * int(weights[0]) ** power
    with pytest.raises(OverflowError, match="smaller scale"):
        RowScaled(weights * 2**6, deep_stumps(12)).integer_sensitivity(norm)
