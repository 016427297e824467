"""Squared norms of combined rows, from pairs of rows instead of cells."""

import numpy as np
import pytest
from scipy import sparse

from strategies.operators import RowKronecker, Sparse, memory_cap
from strategies.operators.masks import mask_products


@pytest.mark.parametrize("seed", range(6))
def test_squares_of_combined_rows_are_those_of_the_dense_product(seed, monkeypatch):
    monkeypatch.setattr(mask_products, "PAIRS", 40)  # several parts
    random = np.random.default_rng(seed)
    paths = RowKronecker.from_masks([random.integers(0, 2, (9, size)) for size in (4, 3, 10)])
    dense = random.integers(-2, 3, (13, 9)) * (random.random((13, 9)) < 0.3)
    dense[3] = 0
    left = sparse.csr_array(dense)
    product = Sparse(left) @ paths
    expected = np.sum((dense @ paths.to_dense()) ** 2, axis=1)
    with memory_cap(2000):
        found = product.row_squares()
    np.testing.assert_allclose(found, expected)
    assert found[3] == 0
    np.testing.assert_allclose(paths.combined_squares(left), expected)
