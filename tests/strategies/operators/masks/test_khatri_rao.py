"""Column-wise Kronecker products against the definition, in one band and in many."""

import numpy as np
import pytest
from scipy import sparse

from strategies.operators.masks import packed_masks as module


@pytest.mark.parametrize("band", [1, 3, 2**15])
@pytest.mark.parametrize("entries", [[0, 1], [0, 1, 2], [0, 0.5, -1]], ids=str)
@pytest.mark.parametrize("columns", [1, 9])
def test_columns_are_kronecker_products(monkeypatch, band, entries, columns):
    monkeypatch.setattr(module, "ENTRIES", band)
    rng = np.random.default_rng(0)
    blocks = [rng.choice(entries, size=(size, columns)) for size in (3, 2, 4)]
    found = module.khatri_rao([sparse.csc_array(block) for block in blocks])
    expected = [np.kron(np.kron(a, b), c) for a, b, c in zip(*(x.T for x in blocks), strict=True)]
    np.testing.assert_array_equal(found.toarray(), np.transpose(expected))
    assert found.dtype == np.result_type(*blocks)
    assert found.has_sorted_indices


def test_products_without_entries(monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 2)
    empty = sparse.csc_array((3, 5), dtype=np.int64)
    assert module.khatri_rao([empty, sparse.csc_array(np.ones((2, 5)))]).nnz == 0
