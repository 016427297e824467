"""Numbers below tr M^½, for sums of Kronecker products too large for one spectrum."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies.bounds.pinched_union as roots


def whole(grams, lows):
    pairs = zip(grams, lows, strict=True)
    return np.sum([reduce(np.kron, [*group, low]) for group, low in pairs], axis=0)


def exact_root(form):
    return np.sqrt(np.maximum(np.linalg.eigvalsh(form), 0.0)).sum()


def in_blocks(monkeypatch, columns, of):
    monkeypatch.setattr(roots, "LARGEST_JOINED", 0)
    monkeypatch.setattr(roots, "BLOCKS_WORK", of * columns**2)


def positive(generator, n, rank, tilt=1.0):
    factor = generator.normal(size=(n, rank)) * np.exp(2.0 * generator.normal(size=rank))
    return tilt * (factor @ factor.T) + (1.0 - tilt) * np.diag(np.abs(generator.normal(size=n)))


@given(
    st.integers(0, 10**6), st.integers(1, 3), st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(1, 4), st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([1, 4, 30]),
)  # fmt: skip
def test_no_bound_in_blocks_is_above_the_trace(seed, groups, sizes, low, tilt, columns):
    generator = np.random.default_rng(seed)
    grams = [[positive(generator, n, 1 + seed % n, tilt) for n in sizes] for _ in range(groups)]
    lows = np.array([positive(generator, low, 1 + seed % low) for _ in range(groups)])
    with pytest.MonkeyPatch.context() as patched:
        in_blocks(patched, columns, np.prod(sizes) * low)
        bound = roots.joined_root(grams, lows)
    assert 0.0 <= bound <= exact_root(whole(grams, lows)) * (1.0 + 1e-9)


def test_blocks_lose_nothing_where_one_side_is_diagonal(monkeypatch):
    generator = np.random.default_rng(0)
    grams = [[np.diag(generator.random(6) + 0.1), positive(generator, 5, 5, 0.5)] for _ in range(3)]
    lows = np.ones((3, 1, 1))
    in_blocks(monkeypatch, 5, 30)
    exact = exact_root(whole(grams, lows))
    assert roots.joined_root(grams, lows) == pytest.approx(exact, rel=1e-4)


def test_squares_of_columns_are_no_bound():
    """The control: roots of the diagonal alone exceed the trace."""
    grams = [[np.ones((2, 2)), np.eye(2)], [np.eye(2), np.ones((2, 2))]]
    form = whole(grams, np.ones((2, 1, 1)))
    assert np.sqrt(form.diagonal()).sum() > exact_root(form)
