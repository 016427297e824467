"""Rows of masks answered from marginals: right, and at a price without rows times cells."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.mechanisms.measurement.least_squares import check_determined
from strategies.operators import Marginals, RowKronecker, RowSpaceError, Scaled, Stack, memory_cap
from strategies.operators.masks.components import MaskRows, components
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.masks.residuals import DistinctMasks, contracted
from strategies.operators.tables import marginals as marginals_module

WIDE = (200, 10, 7, 5)


def unit_rows(sizes, count, seed=0):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, count) for size in sizes]
    masks = [c[:, None] == np.arange(s) for c, s in zip(codes, sizes, strict=True)]
    return RowKronecker.from_masks(masks), codes


@given(data=st.data())
def test_contraction_is_the_product_of_masks(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    count, k = int(rng.integers(1, 30)), int(rng.integers(0, 3))
    masks = [rng.uniform(size=(count, s)) < rng.uniform(0.2, 0.9) for s in sizes]
    table = rng.normal(size=(int(np.prod(sizes)), k))
    weights = np.ones((count, 1))
    for mask, size in zip(masks, sizes, strict=True):
        weights = (weights[:, :, None] * mask[:, None, :] / size).reshape(count, -1)
    distinct = [DistinctMasks.of(mask) for mask in masks]
    picked = [(one, one.number) for one in distinct]
    with memory_cap(data.draw(st.sampled_from([64, 4096, 2**31]))):
        np.testing.assert_allclose(contracted(picked, table), weights @ table, atol=1e-12)


def test_answers_need_no_row_times_cell():
    matrix = Marginals(WIDE, [(0, 1, 2, 3)], [1])
    rows, codes = unit_rows(WIDE, 1500)
    answers = np.random.default_rng(1).normal(size=(matrix.shape[0], 1))
    tracemalloc.start()
    found = matrix.estimate(rows, answers)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, answers[np.ravel_multi_index(codes, WIDE)], atol=1e-9)
    assert peak < 32 * 8 * matrix.shape[0]


@pytest.fixture
def _no_estimates(monkeypatch):
    def refused(*_):
        raise AssertionError("the row space was decided by an estimate")

    monkeypatch.setattr(marginals_module, "residual_answers", refused)


@pytest.mark.usefixtures("_no_estimates")
@pytest.mark.parametrize("scale", [None, 3.0])
def test_attribute_sets_decide_what_marginals_determine(scale):
    def measured(*sets):
        made = Marginals((2000, 2000, 50, 3), sets, [1.0] * len(sets))
        return made if scale is None else Scaled(scale, made)

    def rows_on(*used):
        sizes = (2000, 2000, 50, 3)
        rows = [unit_rows(sizes, 4)[0].masks(i) if i in used else np.ones((4, s), bool)
                for i, s in enumerate(sizes)]  # fmt: skip
        return RowKronecker.from_masks(rows)

    check_determined(Stack([rows_on(0, 2), rows_on(1), rows_on()]), measured((0, 2), (1, 2)))
    with pytest.raises(RowSpaceError, match=r"4 of the workload's 8 rows \(rows 4, 5, 6, 7\)"):
        check_determined(Stack([rows_on(0, 2), rows_on(0, 1)]), measured((0, 2), (1, 2)))
    with pytest.raises(RowSpaceError, match=r"lie outside the row space"):
        check_determined(rows_on(3), measured((0, 2), (1,)))


@given(seed=st.integers(0, 10**6))
def test_equal_means_have_equal_components(seed):
    rng = np.random.default_rng(seed)
    masks = tuple(rng.uniform(size=(12, s)) < 0.6 for s in (2, 3, 4))
    together = components(MaskRows(masks))
    for r in range(12):
        alone = components(MaskRows(tuple(mask[[r]] for mask in masks)))
        places = (alone.sets[:, None, :] == together.sets).all(axis=2).argmax(axis=1)
        found = together.energies.toarray()[r]
        np.testing.assert_allclose(found[places], alone.energies.toarray()[0], rtol=1e-12)
        assert np.isclose(found.sum(), alone.energies.sum())


@given(seed=st.integers(0, 10**6))
def test_distinct_rows_stand_for_all(seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, size=(rng.integers(0, 20), rng.integers(1, 4))) / 3
    first, number = unique_rows(table)
    assert len(first) == len({tuple(row) for row in table.tolist()})
    assert np.array_equal(table[first][number], table)
