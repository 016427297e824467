"""Average ranks and signed-rank tests over data sets."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multinomial_000_001.ranks import paired_ranks, signed_ranks


@given(st.lists(st.integers(1, 30), min_size=3, max_size=9, unique=True), st.data())
def test_p_value_counts_the_signs_that_are_as_far_from_balance(sizes, data):
    """Of all 2^r signs, as many as are at least as lopsided as those seen."""
    signs = data.draw(st.tuples(*[st.sampled_from([-1, 1])] * len(sizes)))
    gaps = np.array(sizes) * signs
    order = np.argsort(np.argsort(np.abs(gaps))) + 1
    seen = abs((np.sign(gaps) * order).sum())
    all_signs = np.array(list(product([-1, 1], repeat=len(gaps))))
    expected = (abs(all_signs @ order) >= seen).mean()
    found, side = signed_ranks(gaps.astype(float), np.zeros(len(gaps)))
    assert found == pytest.approx(expected)
    assert side == np.sign((np.sign(gaps) * order).sum())


def test_ranks_share_ties_and_marks_tell_sides():
    low, high = np.linspace(0.5, 0.6, 10), np.linspace(0.61, 0.72, 10)
    scores = {
        "a": {"mine": low, "theirs": high, "same": low},
        "b": {"theirs": low, "same": high, "mine": high},
    }
    found = paired_ranks(scores, "mine")
    assert found.average_ranks.tolist() == [(2.5 + 1.5) / 2, (1 + 3) / 2, (2.5 + 1.5) / 2]
    marks = [[found.mark(d, m) for m in found.methods] for d in found.datasets]
    assert marks == [["", "†", ""], ["", "*", ""]]
    assert paired_ranks(scores, "mine", level=1e-9).mark("a", "theirs") == ""


@pytest.mark.parametrize(
    ("scores", "named"),
    [
        ({}, "empty"),
        ({"a": {"x": [1], "y": [1, 2]}}, "one length"),
        ({"a": {"x": [1]}, "b": {"y": [1]}}, "other methods"),
        ({"a": {"x": [float("nan")]}}, "finite"),
        ({"a": {"z": [1.0]}}, "reference"),
    ],
)
def test_scores_that_make_no_table_are_refused(scores, named):
    with pytest.raises(ValueError, match=named):
        paired_ranks(scores, "x")
