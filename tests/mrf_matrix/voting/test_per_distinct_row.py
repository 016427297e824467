"""Votes worked out once for each cell are those worked out record by record."""

import numpy as np
import pytest

from mrf_matrix.voting.voting import FEW_RECORDS, per_distinct_row


def table_of(rows):
    """Votes that tell every cell of a (3, 4) domain apart."""
    return np.stack([rows[:, 0] * 4.0 + rows[:, 1], rows[:, 1] - 1.0], axis=1)


@pytest.mark.parametrize("n_records", [0, 5, FEW_RECORDS, 3 * FEW_RECORDS])
@pytest.mark.parametrize("expensive", [True, False])
def test_equal_to_one_by_one(n_records, expensive):
    rng = np.random.default_rng(0)
    codes = rng.integers([3, 4], size=(n_records, 2)).astype(np.int32)
    got = per_distinct_row(table_of, codes, (3, 4), expensive=expensive)
    np.testing.assert_array_equal(got, table_of(codes))


def test_each_cell_once():
    """A count of rows that were voted on, not of seconds."""
    seen = []

    def counted(rows):
        seen.append(len(rows))
        return table_of(rows)

    codes = np.random.default_rng(1).integers([3, 4], size=(2 * FEW_RECORDS, 2)).astype(np.int32)
    per_distinct_row(counted, codes, (3, 4), expensive=False)
    assert seen == [12]


@pytest.mark.parametrize(
    ("sizes", "expensive"), [((2**32, 2**32), True), ((2**20, 2**20), False)], ids=["huge", "cheap"]
)
def test_cells_too_many_to_sort_are_voted_on_one_by_one(sizes, expensive):
    codes = np.random.default_rng(2).integers(5, size=(2 * FEW_RECORDS, 2)).astype(np.int32)
    np.testing.assert_array_equal(
        per_distinct_row(table_of, codes, sizes, expensive=expensive), table_of(codes)
    )
