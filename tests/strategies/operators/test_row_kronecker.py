"""A forest's paths as packed masks, and combinations of them: groups, exact counts, norms."""

from functools import reduce
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from strategies import operators as ops
from strategies.operators import (
    Dense,
    Operator,
    Product,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    error_trace,
    estimate,
    row_errors,
)
from strategies.operators.base import recovery
from strategies.operators.masks import mask_products as module

HUGE = (2,) * 123


def explicit(masks: list[np.ndarray]) -> np.ndarray:
    rows = zip(*masks, strict=True)
    return np.stack([reduce(np.kron, [part.astype(float) for part in row]) for row in rows])


@st.composite
def some_masks(draw: st.DrawFn) -> list[np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    rows = draw(st.integers(1, 12))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    density = draw(st.sampled_from([0.2, 0.6, 1.0]))
    return [random.random((rows, size)) < density for size in sizes]


def binary_tree(attributes: list[int], sizes: tuple[int, ...]) -> list[np.ndarray]:
    """Return the masks of a complete tree that splits the same attributes in turn."""
    leaves = np.stack(np.unravel_index(np.arange(2 ** len(attributes)), (2,) * len(attributes)), 1)
    masks = [np.ones((len(leaves), size), dtype=bool) for size in sizes]
    for code, attribute in zip(leaves.T, attributes, strict=True):
        masks[attribute] = code[:, None] == np.arange(2)
    return masks


def forest_over(sizes: tuple[int, ...], trees: list[list[int]]) -> RowKronecker:
    parts = [binary_tree(attributes, sizes) for attributes in trees]
    masks = [np.concatenate([part[i] for part in parts]) for i in range(len(sizes))]
    tree = np.repeat(np.arange(len(trees)), [len(part[0]) for part in parts])
    return RowKronecker.from_masks(masks, groups=tree)


@given(some_masks())
def test_against_the_explicit_rows(masks: list[np.ndarray]) -> None:
    paths, dense = RowKronecker.from_masks(masks), explicit(masks)
    m, n = dense.shape
    assert paths.shape == (m, n)
    assert_array_equal(paths.to_dense(), dense)
    assert_array_equal(paths.row_sums(), dense.sum(axis=1))
    assert_array_equal(paths.row_gram(), dense @ dense.T)
    assert_array_equal(paths.gram_dense(), dense.T @ dense)
    assert_allclose(paths @ np.arange(n), dense @ np.arange(n))
    assert_allclose(paths.rmatmat(np.arange(m)), dense.T @ np.arange(m))
    assert_array_equal(paths.columns(np.arange(n)).toarray(), dense)
    assert paths.integer_sensitivity("l1") == dense.sum(axis=0).max()
    rows, inverse, counts = paths.unique_rows()
    assert_array_equal(rows.to_dense()[inverse], dense)
    assert_array_equal(counts, np.bincount(inverse))
    assert len(np.unique(rows.to_dense(), axis=0)) <= rows.shape[0]


def test_masks_come_back() -> None:
    random = np.random.default_rng(0)
    masks = [random.random((5, size)) < 0.5 for size in (3, 11, 2, 7)]
    paths = RowKronecker.from_masks(masks)
    for i, mask in enumerate(masks):
        assert_array_equal(paths.masks(i), mask)
    assert paths.bits.nbytes == 5 * 3
    assert_array_equal(paths.take_rows([4, 0]).masks(1), masks[1][[4, 0]])


def test_a_domain_of_2_to_the_123_cells() -> None:
    forest = forest_over(HUGE, [[0, 5, 9, 120], [1, 5, 7, 8], [0, 5, 9, 120]])
    assert forest.shape == (48, 2**123)
    assert forest.sizes == HUGE
    assert set(forest.row_sums()) == {2**119}
    assert type(forest.row_sums()[0]) is int
    # two paths that fix the same four attributes are equal or disjoint
    gram = forest.row_gram()
    assert_array_equal(np.unique(gram[:16, :16]), [0, 2.0**119])
    assert_array_equal(gram[:16, :16], gram[:16, 32:])
    rows, _, counts = forest.unique_rows()
    assert rows.shape[0] == 32
    assert sorted(counts) == [1] * 16 + [2] * 16
    block = np.random.default_rng(0).normal(size=(48, 2))
    assert_allclose(forest.row_gram_matmat(block), gram @ block, rtol=1e-12)
    codes = np.random.default_rng(1).integers(0, 2, size=(10, 123))
    columns = forest.columns(codes).toarray()
    assert_array_equal(columns.sum(axis=0), np.full(10, 3))
    with pytest.raises(ops.MemoryCapError):
        forest.to_dense()
    with pytest.raises(ops.MemoryCapError):
        forest.gram_dense()


def test_sensitivity_of_a_forest_needs_no_domain() -> None:
    forest = forest_over(HUGE, [[0, 1], [2, 3], [4, 5]])
    assert forest.is_partition
    assert forest.sensitivity("l1") == 3.0
    assert forest.sensitivity("l2") == np.sqrt(3.0)
    assert forest.sensitivity_is_exact("l1")
    assert forest.uniform_column_norm("l1") == 3.0
    pruned = forest.take_rows(np.arange(11))
    assert not pruned.is_partition
    assert pruned.sensitivity("l1") == 3.0
    assert not pruned.sensitivity_is_exact("l1")
    alone = ops.RowKronecker(pruned.bits, pruned.sizes)
    assert alone.sensitivity("l1") == 11.0
    assert not alone.sensitivity_is_exact("l2")


def test_sensitivity_within_reach_is_counted() -> None:
    forest = forest_over((2,) * 8, [[0, 1], [2, 3], [4, 5]])
    some = forest.take_rows([0, 1, 4, 8, 9])
    assert some.sensitivity_is_exact("l1")
    assert some.sensitivity("l1") == some.to_dense().sum(axis=0).max()


def test_weighted_paths_are_bounded_by_their_trees() -> None:
    forest = forest_over(HUGE, [[0, 1], [2, 3]])
    weights = np.arange(1.0, 9.0)
    weighted = ops.RowScaled(weights, forest)
    assert not weighted.sensitivity_is_exact("l1")
    small = forest_over((2,) * 5, [[0, 1], [2, 3]])
    exact = ops.RowScaled(weights, small)
    assert exact.sensitivity("l1") == 12.0 == np.abs(exact.to_dense()).sum(axis=0).max()
    assert weighted.sensitivity("l1") == 12.0
    assert weighted.sensitivity("l2") == pytest.approx(np.sqrt(16.0 + 64.0))
    assert weighted.rounded(10).integer_sensitivity("l1") == 120
    alone = ops.RowScaled(weights, ops.RowKronecker(forest.bits, HUGE))
    assert alone.sensitivity("l1") == weights.sum()
    assert not alone.sensitivity_is_exact("l1")


def test_overlapping_groups_are_refused() -> None:
    masks = [np.array([[1, 0], [0, 1], [1, 1]])]
    RowKronecker.from_masks(masks, groups=np.array([4, 4, 9]))
    with pytest.raises(ValueError, match="rows 0 and 2 of one group share a cell"):
        RowKronecker.from_masks(masks, groups=np.array([0, 1, 0]))
    with pytest.raises(ValueError, match="expected one integer for each of the 3 rows"):
        RowKronecker.from_masks(masks, groups=np.zeros(2, dtype=int))
    with pytest.raises(ValueError, match="expected one integer"):
        RowKronecker.from_masks(masks, groups=np.zeros(3))


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ([], "one .o, n_i. array"),
        ([np.ones(3)], "one .o, n_i. array"),
        ([np.ones((3, 0))], "one .o, n_i. array"),
        ([np.ones((3, 2)), np.ones((2, 2))], "one common number"),
    ],
)
def test_bad_masks_are_refused(masks: list[np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RowKronecker.from_masks(masks)


def test_rows_over_another_domain_are_refused() -> None:
    with pytest.raises(ValueError, match=r"other\.sizes=\(3,\): expected \(2,\)"):
        RowKronecker.from_masks([np.eye(2)]).row_gram(RowKronecker.from_masks([np.eye(3)]))


def test_blocks_of_work_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    masks = [random.random((40, size)) < 0.5 for size in (3, 4, 2)]
    paths = RowKronecker.from_masks(masks)
    whole = paths.columns(np.arange(24)).toarray()
    monkeypatch.setattr(module, "BLOCK_BITS", 100)
    assert_array_equal(paths.columns(np.arange(24)).toarray(), whole)


def test_errors_over_a_domain_too_large_to_enumerate() -> None:
    forest = forest_over(HUGE, [[0, 5, 9], [1, 5, 7], [0, 5, 9]])
    # the same forest over the attributes it uses has the same errors
    used = [0, 1, 5, 7, 9]
    small = RowKronecker.from_masks([forest.masks(i) for i in used])
    rows = forest.unique_rows()[0]
    small_rows = small.unique_rows()[0]
    weights = np.linspace(1.0, 2.0, rows.shape[0])
    for i, attribute in enumerate(used):
        assert_array_equal(rows.masks(attribute), small_rows.masks(i))
    strategy, twin = ops.RowScaled(weights, rows), ops.RowScaled(weights, small_rows)
    expected = ops.row_errors(small, twin)
    assert_allclose(ops.row_errors(forest, strategy), expected, rtol=1e-8)
    assert ops.error_trace(forest, strategy) == pytest.approx(expected.sum())
    answers = np.random.default_rng(0).normal(size=(rows.shape[0], 2))
    got = ops.estimate(forest, strategy, answers)
    assert_allclose(got, ops.estimate(small, twin, answers), rtol=1e-8, atol=1e-9)
    with pytest.raises(ops.RowSpaceError):
        ops.row_errors(forest, ops.RowScaled(weights[:3], rows.take_rows([0, 1, 2])))


def test_identity_over_a_huge_domain() -> None:
    forest = forest_over(HUGE, [[0, 5], [1, 5]])
    identity = ops.Identity(2**123, HUGE)
    assert ops.error_trace(forest, identity) == 8 * 2.0**121
    assert prod(identity.sizes or ()) == 2**123


def test_kronecker_strategy_over_a_huge_domain() -> None:
    sizes = (2,) * 60
    forest = forest_over(sizes, [[0, 5], [1, 5]])
    factor = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    strategy = ops.Kronecker([ops.Dense(factor)] * 60)
    inverse = np.linalg.pinv(factor)
    one = np.sum((np.array([1.0, 0.0]) @ inverse) ** 2)
    both = np.sum((np.array([1.0, 1.0]) @ inverse) ** 2)
    assert_allclose(ops.row_errors(forest, strategy), np.full(8, one**2 * both**58))
    assert strategy.sensitivity("l1") == 2.0**60


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("largest", [2**24, 2**27])
def test_weighted_rows_are_summed_exactly_without_their_entries(norm, largest):
    rng = np.random.default_rng(0)
    rows = RowKronecker.from_masks([rng.uniform(size=(60, size)) < 0.8 for size in (6, 5, 7)])
    weights = rng.integers(-largest, largest, 60)
    entries = abs(weights[:, None] * rows.to_dense().astype(int).astype(object))
    exact = (entries ** (1 if norm == "l1" else 2)).sum(axis=0)
    scaled = ops.RowScaled(weights, rows)
    assert scaled.integer_column_sums(norm).tolist() == exact.tolist()
    assert scaled.integer_sensitivity(norm) == max(exact)
    if norm == "l1":
        with ops.memory_cap(40_000):
            assert scaled.integer_sensitivity(norm) == max(exact)


RANDOM = np.random.default_rng(0)
PATHS = RowKronecker.from_masks([RANDOM.random((12, size)) < 0.6 for size in (3, 4, 2)])
LEFT = RANDOM.integers(0, 3, (5, 12))


def combined(left: np.ndarray) -> Product:
    return Product(Sparse(sparse.csr_array(left)), PATHS)


def test_rows_too_dear_to_be_solved_with_answer_for_themselves(monkeypatch) -> None:
    matrix, answers = combined(LEFT), RANDOM.normal(size=(5, 2))
    monkeypatch.setattr(recovery, "BEARABLE", -1.0)
    monkeypatch.setattr(recovery, "is_explicit", lambda matrix: False)
    for workload in (matrix, combined(LEFT)):
        assert error_trace(workload, matrix) == 5.0
        assert_array_equal(estimate(workload, matrix, answers), answers)
    other = combined(LEFT[::-1])
    assert not matrix.has_rule_for(other)
    assert not matrix.has_rule_for(combined(LEFT[:4]))


def test_a_sensitivity_beyond_64_bits_is_a_number() -> None:
    path = RowKronecker.from_masks([np.array([[True, False]])] * 40)  # cells beyond any array
    matrix = Product(Dense(np.array([[3 * 2**40]])), path)
    assert matrix.integer_sensitivity("l2") >= 9 * 2**80  # a bound above it at worst
    assert matrix.sensitivity("l2") == pytest.approx(3.0 * 2**40, rel=1e-9)


WHOLE = st.lists(st.integers(-9, 9), min_size=5, max_size=5)
NONZERO = st.lists(st.integers(1, 9) | st.integers(-9, -1), min_size=5, max_size=5)


@given(weights=WHOLE, signed=st.booleans(), norm=st.sampled_from(["l1", "l2"]))
def test_norms_of_weighted_combinations_are_the_dense_ones(weights, signed, norm) -> None:
    signs = np.where(np.arange(12) % 2, -1 if signed else 1, 1)
    matrix = RowScaled(weights, combined(LEFT * signs))
    dense = np.abs(np.array(weights)[:, None] * (LEFT * signs) @ PATHS.to_dense())
    sums = (dense if norm == "l1" else dense**2).sum(axis=0)
    assert_array_equal(matrix.integer_column_sums(norm), sums)
    assert matrix.integer_sensitivity(norm) == sums.max()
    assert_allclose(matrix.column_norms(norm), sums if norm == "l1" else np.sqrt(sums))


def test_weighted_combinations_are_summed_without_their_entries(monkeypatch) -> None:
    matrix, weights = combined(LEFT), np.arange(1, 6)
    expected = weights @ LEFT @ PATHS.to_dense()
    monkeypatch.delattr(Product, "to_sparse")
    monkeypatch.delattr(Product, "to_dense")
    monkeypatch.delattr(Operator, "to_dense")
    assert_array_equal(RowScaled(weights, matrix).integer_column_sums("l1"), expected)
    assert_allclose(RowScaled(weights / 2, matrix).column_norms("l1"), expected / 2)


@pytest.mark.parametrize("largest", [2**49, 2**53])
def test_sums_of_weighted_combinations_are_exact_beyond_doubles(largest: int) -> None:
    weights = [largest + 1, 1, 0, 0, largest - 1]
    entries = np.array(weights, dtype=object)[:, None] * combined(LEFT).to_dense().astype(int)
    sums = RowScaled(weights, combined(LEFT)).integer_column_sums("l1")
    assert sums.tolist() == entries.sum(axis=0).tolist()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=NONZERO, theirs=WHOLE, factor=st.sampled_from([-2.0, 0.5]))
def test_weighted_rows_stand_alone_as_theirs_do(monkeypatch, ours, theirs, factor) -> None:
    monkeypatch.setattr(recovery, "BEARABLE", -1.0)
    monkeypatch.setattr(recovery, "is_explicit", lambda matrix: False)
    ratio, answers = np.array(theirs) / np.array(ours), np.arange(10.0).reshape(5, 2)
    rows: list[Operator] = [combined(LEFT), PATHS.take_rows(slice(5))]
    for inner in rows:
        strategy, workload = RowScaled(ours, inner), RowScaled(theirs, inner)
        twin, wanted = strategy.to_dense(), workload.to_dense()
        assert_allclose(row_errors(workload, strategy), ratio**2)
        assert_allclose(estimate(workload, strategy, answers), ratio[:, None] * answers)
        assert_allclose(ratio[:, None] * twin, wanted)  # unbiased
        least = np.sum((wanted @ np.linalg.pinv(twin)) ** 2, axis=1)
        assert (least <= row_errors(workload, strategy) + 1e-9).all()
        twice = Scaled(factor, strategy)
        assert_allclose(row_errors(workload, twice), (ratio / factor) ** 2)
        assert_allclose(
            estimate(Scaled(factor, workload), twice, answers[:, 0]), ratio * answers[:, 0]
        )


def test_rows_that_are_not_measured_do_not_stand_alone(monkeypatch) -> None:
    monkeypatch.setattr(recovery, "BEARABLE", -1.0)
    monkeypatch.setattr(recovery, "is_explicit", lambda matrix: False)
    inner = combined(LEFT)
    assert RowScaled([1, 2, 3, 4, 5], inner).has_rule_for(inner)
    assert not RowScaled([1, 2, 0, 4, 5], inner).has_rule_for(inner)
    assert not RowScaled([1, 2, 3, 4, 5], inner).has_rule_for(combined(LEFT[::-1]))
