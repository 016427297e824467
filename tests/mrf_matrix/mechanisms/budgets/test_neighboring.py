"""The factors of the neighbouring relations against every pair of neighbours."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mrf_matrix.mechanisms import NEIGHBORING, neighboring_factor, squared_factor

matrices = arrays(np.int64, (3, 4), elements=st.integers(-3, 3))


def largest_change(matrix, n_classes, norm, neighboring):
    """Enumerate what one record can change in the answers A D, in a norm over all entries."""
    n = matrix.shape[1]
    records = list(product(range(n), range(n_classes)))

    def table(record):
        counts = np.zeros((n, n_classes), dtype=np.int64)
        counts[record] = 1
        return matrix @ counts

    if neighboring == "add_remove":
        changes = [table(record) for record in records]
    else:
        changes = [table(a) - table(b) for a, b in product(records, repeat=2)]
    sizes = [np.abs(c).sum() if norm == "l1" else (c**2).sum() for c in changes]
    return int(max(sizes))


def claimed(matrix, norm, neighboring):
    """Return the claimed bound: the change itself in L1, its square in L2."""
    columns = np.abs(matrix) if norm == "l1" else matrix**2
    factor = squared_factor(neighboring, norm, nonnegative=bool((matrix >= 0).all()))
    sensitivity = int(columns.sum(axis=0).max())
    return sensitivity * (sqrt(factor) if norm == "l1" else factor)


@given(matrices, st.sampled_from([1, 2, 3]), st.sampled_from(["l1", "l2"]), st.booleans())
def test_no_pair_of_neighbours_changes_more(matrix, n_classes, norm, absolute):
    matrix = np.abs(matrix) if absolute else matrix
    for neighboring in NEIGHBORING:
        found = largest_change(matrix, n_classes, norm, neighboring)
        assert found <= claimed(matrix, norm, neighboring)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("matrix", [np.eye(3, dtype=int), np.ones((2, 3), dtype=int)])
def test_some_pair_reaches_the_bound(matrix, norm, neighboring):
    assert largest_change(matrix, 2, norm, neighboring) == claimed(matrix, norm, neighboring)


def test_opposite_columns_reach_twice_the_l2_sensitivity():
    """Why a strategy with negative entries is given 2 and not sqrt(2)."""
    matrix = np.array([[1, -1]])
    assert largest_change(matrix, 1, "l2", "replace_one") == 4
    assert claimed(matrix, "l2", "replace_one") == 4


def test_factors():
    assert neighboring_factor("add_remove") == 1
    assert neighboring_factor("replace_one") == 2
    assert neighboring_factor("replace_one", "l2") == 2
    assert squared_factor("replace_one", "l2", nonnegative=True) == 2
    assert squared_factor("replace_one", "l1", nonnegative=True) == 4


@pytest.mark.parametrize("bad", ["swap", "", None, 1, ["add_remove"], "ADD_REMOVE"])
def test_unknown_relations_are_refused(bad):
    with pytest.raises(ValueError, match=r"neighboring=.*add_remove.*replace_one"):
        neighboring_factor(bad)
