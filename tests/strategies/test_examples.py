"""The literature's workloads, against their definitions."""

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from strategies import evaluate, examples


def test_prefix_sums() -> None:
    assert_array_equal(examples.prefix_sums(5).to_dense(), np.tri(5))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_all_ranges(n: int) -> None:
    rows = [(np.arange(n) >= i) & (np.arange(n) < j) for i, j in combinations(range(n + 1), 2)]
    explicit = np.array(rows, dtype=float)
    assert_array_equal(examples.all_ranges(n).gram_dense(), explicit.T @ explicit)
    assert evaluate(examples.all_ranges(n), np.eye(n)).loss == pytest.approx(explicit.sum())


def test_binary_tree() -> None:
    tree = examples.binary_tree(64).to_dense()
    assert tree.shape == (127, 64)
    assert set(tree.sum(axis=0)) == {7.0}
    assert len(np.unique(tree, axis=0)) == 127
    with pytest.raises(ValueError, match="power of two"):
        examples.binary_tree(6)


def test_marginals() -> None:
    sizes = (2, 3, 2)
    codes = np.array(list(product(*map(range, sizes))))
    got = examples.marginals(sizes, 2).to_dense()
    rows = [
        (codes[:, kept] == value).all(axis=1)
        for kept in ([0, 1], [0, 2], [1, 2])
        for value in product(*(range(sizes[i]) for i in kept))
    ]
    assert_array_equal(got, np.array(rows, dtype=float))
    assert examples.marginals((2,) * 80, 1).shape == (160, 2**80)
    with pytest.raises(ValueError, match="order=4"):
        examples.marginals(sizes, 4)


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3"])
def test_bad_sizes(n: object) -> None:
    for make in (examples.prefix_sums, examples.all_ranges, examples.binary_tree):
        with pytest.raises(ValueError, match="positive integer"):
            make(n)
