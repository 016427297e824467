"""How cells are told by a mechanism: against dense pseudo-inverses, whatever table tells them."""

import numpy as np
import pytest

from mrf_matrix import Domain, PureDP, choose_forest, measure
from mrf_matrix.choosing.cell_recovery import inverse_gram_squares
from mrf_matrix.mechanisms import calibrate, count_cells
from strategies.operators import Marginals, RowSpaceError

CELLS_TOLD = {
    "the full table": ((3, 2), [(0, 1)], [0.5]),
    "with the total": ((3, 2), [(0, 1), ()], [0.5, 0.25]),
    "with a one-way table": ((3, 2), [(0,), (0, 1), ()], [0.5, 0.25, 1.0]),
    "without an attribute of one code": ((3, 1), [(0,), ()], [1.0, 1.0]),
    "without two of them": ((1, 2, 1, 3), [(1,), (1, 3), (2,)], [0.3, 0.7, 0.2]),
    "twice, with and without": ((3, 1), [(), (0,), (0, 1), (1,)], [1.0, 0.5, 2.0, 0.25]),
    "only without": ((3, 1), [(0, 1), (0,), ()], [0.0, 0.5, 2.0]),
    "a single cell": ((1, 1), [(), (0,), (0, 1)], [0.5, 0.25, 0.0]),
}


@pytest.mark.parametrize(("sizes", "sets", "weights"), CELLS_TOLD.values(), ids=CELLS_TOLD)
def test_squares_of_sums_of_cells_are_those_of_the_dense_pseudo_inverse(sizes, sets, weights):
    matrix = Marginals(sizes, sets, weights)
    sums = np.random.default_rng(0).normal(size=(matrix.shape[1], 4))
    dense = np.linalg.pinv(matrix.to_dense())
    found = inverse_gram_squares(matrix, sums)
    np.testing.assert_allclose(found, ((dense.T @ sums) ** 2).sum(axis=0), rtol=1e-9)


def test_tables_that_do_not_tell_the_cells_are_refused():
    with pytest.raises(RowSpaceError):
        inverse_gram_squares(Marginals((3, 2), [(0,), (1,)], [0.5, 0.5]), np.eye(6))


@pytest.mark.parametrize(
    ("sizes", "sets"), [((3, 1), [(0,), ()]), ((2, 1, 3), [(0,), (0, 2)])], ids=repr
)
def test_forests_are_chosen_where_an_attribute_of_one_code_was_left_out(sizes, sets):
    generator = np.random.default_rng(0)
    codes, labels = generator.integers(0, sizes, size=(60, len(sizes))), np.arange(60) % 2
    counts = count_cells(codes, labels, sizes, n_classes=2)
    release = measure(calibrate(Marginals(sizes, sets, [1.0, 1.0]), PureDP(1)), counts)
    choice = choose_forest(release, Domain.from_sizes(sizes, n_classes=2), n_trees=4)
    assert choice.forest.domain.sizes == sizes
